//! Steps with a module in front of the language model: its products are done once for each image, the rest of the
//! step is untouched, what is taken is given back, and folding changes nothing.

use serde_json::{Value, json};
use stepsim::core::engine::EngineError;
use stepsim::price::documents::items_of;
use stepsim::simulate::{Options, Simulation, SimulationError};
use stepsim::spec::WorkloadSpec;
use stepsim::spec::workload::TrainedPart;

use super::flops::duplicates;
use super::read::{Sums, alike};
use super::steps::{Draws, HIDDEN, Step, count, drawn, plain};

/// An encoder with windows, positions and a token beside the patches; 16 tokens an image.
pub fn encoder() -> Value {
    json!({
        "name": "vision", "layers": 3, "hidden": 64, "heads": 8, "ffn": 128, "sequence": 64, "merge": 4,
        "window": 16, "full_every": 3,
        "input": {"matrices": [[48, 64]], "position_rows": 64, "extra_tokens": 1},
        "projector": {"norms": 1, "matrices": [[256, 256], [256, 256]], "biases": true},
    })
}

fn with_module(mut step: Value, usage: &Value) -> Value {
    step["model"]["modules"] = json!([encoder()]);
    step["modules"] = json!({"vision": usage});
    step
}

fn drawn_usage(draws: &mut Draws) -> Value {
    let mut usage = json!({
        "items": draws.of(&[1, 2, 4, 8]),
        "trained": draws.of(&["all", "all", "projector", "nothing"]),
        "parallelism": draws.of(&["tensor", "data"]),
    });
    if draws.of(&[true, false]) {
        usage["recompute"] = json!({"granularity": draws.of(&["none", "selective", "full"])});
    }
    usage
}

/// Projectors behind layers for the module of some steps; stages of its own, and a tied table.
fn staged(draws: &mut Draws, step: &mut Value) {
    if draws.of(&[true, false, false]) {
        step["model"]["modules"][0]["deepstack"] = json!({
            "layers": [0, 1],
            "projector": {"token_norm": {"width": 256}, "matrices": [[256, 256], [256, 256]], "biases": true},
        });
    }
    if draws.of(&[true, false, false]) {
        step["parallelism"]["pipeline"]["size"] = 4.into();
    }
    let stages = draws.of(&[1, 1, 2, 3]);
    if step["parallelism"]["pipeline"]["size"].as_u64() > Some(stages) {
        step["modules"]["vision"]["stages"] = stages.into();
        step["model"]["tied_embeddings"] = draws.of(&[true, false]).into();
        step["parallelism"]["pipeline"]["scatter_gather"] = draws.of(&[true, false]).into();
    }
}

/// The module in the bubbles of some steps.
fn in_bubbles(draws: &mut Draws, step: &mut Value) {
    let pipeline = &mut step["parallelism"]["pipeline"];
    pipeline["size"] = draws.of(&[2, 4]).into();
    pipeline["schedule"] = draws.of(&["1f1b", "gpipe"]).into();
    pipeline["p2p"] = "async".into();
    step["parallelism"]["sharding"] = json!({"kind": draws.of(&["none", "zero1"])});
    let usage = step["modules"]["vision"].as_object_mut().expect("a use");
    usage.remove("stages");
    usage.insert("bubbles".into(), true.into());
}

/// Every second layer attends to the images, in some steps; in some of these those layers alone are trained.
fn crossed(draws: &mut Draws, step: &mut Value) {
    if draws.of(&[true, true, false]) {
        return;
    }
    let attention = json!({"rotary": false, "qk_norm": "head", "image_tokens": 16});
    step["model"]["layer_kinds"] = json!({"text": {}, "cross": {"attention": attention, "gates": true}});
    step["model"]["layer_pattern"] = json!([["text", 1], ["cross", 1]]);
    if draws.of(&[true, false, false]) {
        step["training"] = json!({"kinds": ["cross"]});
    }
}

/// Devices of its own for the module of some steps, as many more as it takes.
fn apart(draws: &mut Draws, step: &mut Value) {
    if draws.of(&[true, false, false]) {
        return;
    }
    let p = &mut step["parallelism"];
    let (stages, data) = (draws.of(&[2, 2, 3]), draws.of(&[1, 2, 4]));
    p["pipeline"]["size"] = stages.into();
    p["pipeline"]["schedule"] = draws.of(&["1f1b", "gpipe", "zb-h1"]).into();
    p["data"] = data.into();
    let number = |value: &Value| value.as_u64().unwrap_or(1);
    let stage = number(&p["tensor"]) * number(&p["context"]["size"]) * data;
    let (tensor, own) = (draws.of(&[1, 1, 2, 4]), draws.of(&[1, 2, 4, 8]));
    step["topology"] = format!("nodes:1*{},400,1,50,2", stage * (stages - 1) + tensor * own).into();
    step["modules"]["vision"]["devices"] = json!({"tensor": tensor, "data": own});
    step["modules"]["vision"].as_object_mut().expect("a use").remove("stages");
}

/// The reference of a step: the same model and images, no dimension cut but the batch, and each rank with its own
/// images.
fn reference(usage: &Value, step: &Value) -> Value {
    let mut whole = with_module(plain(), usage);
    if usage["exchange"] == true {
        whole["modules"]["vision"]["exchange"] = false.into();
    }
    whole["model"]["tied_embeddings"] = step["model"]["tied_embeddings"].clone();
    whole["model"]["modules"] = step["model"]["modules"].clone();
    for field in ["layer_kinds", "layer_pattern"] {
        if step["model"].get(field).is_some() {
            whole["model"][field] = step["model"][field].clone();
        }
    }
    if step.get("training").is_some() {
        whole["training"] = step["training"].clone();
    }
    whole
}

/// How often a product of the module is done for each image: images are padded to the ranks that share them, and
/// ranks that cut layers embed the same patches.
fn done(name: &str, w: &WorkloadSpec) -> f64 {
    let (p, usage) = (&w.parallelism, &w.modules["vision"]);
    let patches = name.starts_with("vision patch embedding");
    if let Some(own) = usage.devices {
        let images = w.batch.micro_batch * usage.items.expect("equally many") * p.data.expect("given");
        let padded = (images.div_ceil(own.data) * own.data) as f64 / images as f64;
        return padded * if patches { own.tensor } else { 1 } as f64;
    }
    let data = format!("{:?}", usage.parallelism) == "Data";
    let shares = p.context.size * if data { p.tensor } else { 1 };
    let images = w.batch.micro_batch * usage.items.expect("equally many");
    let padded = (images.div_ceil(shares) * shares) as f64 / images as f64;
    let copies = if !data && patches { p.tensor } else { 1 };
    padded * copies as f64
}

fn broken(step: &Step, sums: &Sums, plain: &Sums) -> Option<String> {
    let w = &step.inputs.workload.value;
    let times = |name: &str| match name {
        name if name.starts_with("vision ") => done(name, w),
        // All image tokens of a sequence are on every context-parallel rank.
        name if name.starts_with("image ") => w.parallelism.context.size as f64,
        name => duplicates(name, w),
    };
    let names = plain.flops.keys().chain(sums.flops.keys());
    names.into_iter().find_map(|name| {
        let expected = plain.flops.get(name).copied().unwrap_or(0.0) * times(name);
        let got = sums.flops.get(name).copied().unwrap_or(0.0);
        (!alike(got, expected)).then(|| format!("`{name}`: {got} FLOPs, expected {expected}"))
    })
}

#[test]
fn images_are_encoded_once_in_every_layout() {
    let mut draws = Draws(0x5eed_0011);
    let (mut planned, mut caught, mut on_stages, mut on_devices, mut in_layers, mut beside) =
        (0, 0, 0, 0, 0, 0);
    for i in 0..count() {
        let usage = drawn_usage(&mut draws);
        let mut text = with_module(drawn(&mut draws), &usage);
        staged(&mut draws, &mut text);
        if i % 4 == 0 {
            apart(&mut draws, &mut text);
        }
        crossed(&mut draws, &mut text);
        if i % 4 == 1 {
            in_bubbles(&mut draws, &mut text);
        }
        let Some(step) = Step::of(&text) else { continue };
        beside += u32::from(step.inputs.workload.value.side_ranks() > 0);
        on_devices += u32::from(step.inputs.workload.value.module_devices().is_some());
        on_stages += u32::from(step.inputs.workload.value.module_stages() > 0);
        let whole = Step::of(&reference(&usage, &text)).expect("the plain step");
        let Ok(plan) = step.inputs.plan() else { continue };
        let reference = whole.inputs.plan().expect("its plan");
        planned += 1;
        in_layers += u32::from(step.inputs.model.has_cross());
        assert_eq!(plan.model_flops, reference.model_flops, "{}", step.text);
        let (sums, expected) = (Sums::of(&plan), Sums::of(&reference));
        if let Some(what) = broken(&step, &sums, &expected) {
            panic!("step {i}: {what}\n{}", step.text);
        }
        for (place, left) in &sums.left {
            assert_eq!(*left, 0, "step {i}: {place:?} keeps bytes\n{}", step.text);
        }
        // A rank that encodes one image more.
        let mut faulty = sums.clone();
        let product = faulty.flops.iter_mut().find(|(name, _)| name.starts_with("vision qkv"));
        product.into_iter().for_each(|(_, flops)| *flops *= 1.01);
        caught += u32::from(broken(&step, &faulty, &expected).is_some());
    }
    println!(
        "{planned} planned, {in_layers} with layers that read images; {on_stages} drawn on stages, {on_devices} on devices of its own and {beside} in bubbles, {caught} faults caught"
    );
    assert!(
        planned > 20 && caught == planned && on_stages > 3 && on_devices > 3 && in_layers > 5 && beside > 2
    );
}

/// The step played, unless it is refused or does not fit.
fn run(step: &Step) -> Option<Simulation> {
    match Simulation::run(&step.inputs, &Options::default()) {
        Ok(run) => Some(run),
        Err(SimulationError::Engine(
            e @ (EngineError::Deadlock { .. } | EngineError::Mismatch { .. } | EngineError::Invalid(_)),
        )) => {
            panic!("{e}\n{}", step.text)
        }
        Err(_) => None,
    }
}

/// Images that are exchanged: all are encoded, fewer than one too many on each rank and micro-batch; and as many tokens
/// are sent as are made, in 16 bits of the language model's width, by each of the ranks that cut layers.
fn shared_out(step: &Step, sums: &Sums, expected: &Sums) {
    let (inputs, w) = (&step.inputs, &step.inputs.workload.value);
    let of = |sums: &Sums| sums.flops.get("vision qkv").copied().unwrap_or(0.0);
    let counts: u64 = items_of(&w.used_modules(&inputs.model)[0], w.batch.global).iter().sum();
    let image = of(expected) / counts as f64;
    let ranks = w.data_parallel(u64::from(inputs.machine.devices()));
    let extra = (w.batch.global / w.batch.micro_batch / ranks * (ranks - 1)) as f64;
    let encoded = of(sums) / image;
    assert!(
        encoded >= counts as f64 - 1e-6 && encoded <= counts as f64 + extra,
        "{encoded} {counts}\n{}",
        step.text
    );
    let trained = w.modules["vision"].trained != TrainedPart::Nothing;
    let sets = 1 + inputs.model.modules[0].deep_layers().len() as u64;
    for (name, passes) in
        [("all-to-all tokens", 1.0), ("all-to-all token gradients", f64::from(u8::from(trained)))]
    {
        let made = passes * encoded * (sets * 16 * HIDDEN * 2 * w.parallelism.tensor) as f64;
        let sent = sums.bytes_of(&format!("vision {name}"));
        let expected = if ranks > 1 { made } else { 0.0 };
        assert!(alike(sent, expected), "`{name}`: {sent} bytes, expected {expected}\n{}", step.text);
    }
}

/// Uneven images, listed or drawn: folded as unfolded, memory given back, and as many FLOPs as there are images.
#[test]
fn uneven_images_are_accounted_for_folded_or_not() {
    let mut draws = Draws(0x5eed_0013);
    let (mut played, mut exchanged) = (0, 0);
    for i in 0..count() / 2 {
        let ways = [
            json!({"counts": [1, 8, 2, 3, 5]}),
            json!({"drawn": {"median": 3.0, "sigma": 0.8, "most": 8, "seed": 3}}),
        ];
        let mut usage = draws.of(&ways);
        usage["trained"] = draws.of(&["all", "projector", "nothing"]).into();
        usage["order"] = draws.of(&["packed", "sorted", "balanced"]).into();
        usage["exchange"] = draws.of(&[true, false]).into();
        let mut text = with_module(drawn(&mut draws), &usage);
        staged(&mut draws, &mut text);
        let Some(step) = Step::of(&text) else { continue };
        let Some(folded) = run(&step) else { continue };
        let whole = Simulation::run(&step.inputs, &Options { fold: false, ..Options::default() });
        assert_eq!(
            folded.record.step_end,
            whole.expect("as folded").record.step_end,
            "step {i}\n{}",
            step.text
        );
        let plain =
            Step::of(&reference(&usage, &text)).expect("the plain step").inputs.plan().expect("its plan");
        assert_eq!(folded.plan.model_flops, plain.model_flops, "{}", step.text);
        let (sums, expected) = (Sums::of(&folded.plan), Sums::of(&plain));
        for (place, left) in &sums.left {
            assert_eq!(*left, 0, "step {i}: {place:?} keeps bytes\n{}", step.text);
        }
        let w = &step.inputs.workload.value;
        if usage["exchange"] == true && w.parallelism.context.size == 1 {
            shared_out(&step, &sums, &expected);
            exchanged += 1;
        } else if w.parallelism.context.size == 1 {
            for (name, flops) in expected.flops.iter().filter(|(name, _)| name.starts_with("vision qkv")) {
                assert!(
                    alike(*flops, sums.flops.get(name).copied().unwrap_or(0.0)),
                    "`{name}`\n{}",
                    step.text
                );
            }
        }
        assert_eq!(folded.report(false).impossible(), None, "step {i}\n{}", step.text);
        played += 1;
    }
    println!("{played} played, {exchanged} with images exchanged");
    assert!(played > 5 && exchanged > 1);
}

#[test]
fn steps_with_modules_are_accounted_for_folded_or_not() {
    let mut draws = Draws(0x5eed_0012);
    let mut played = 0;
    for i in 0..count() / 5 {
        let usage = drawn_usage(&mut draws);
        let mut text = with_module(drawn(&mut draws), &usage);
        staged(&mut draws, &mut text);
        crossed(&mut draws, &mut text);
        if i % 3 == 1 {
            in_bubbles(&mut draws, &mut text);
        }
        let Some(step) = Step::of(&text) else { continue };
        let Some(folded) = run(&step) else { continue };
        let options = Options { fold: false, ..Options::default() };
        let whole = Simulation::run(&step.inputs, &options).expect("as the folded one");
        assert_eq!(folded.record.step_end, whole.record.step_end, "step {i}\n{}", step.text);
        let report = folded.report(false);
        assert_eq!(report.impossible(), None, "step {i}\n{}", step.text);
        assert!(report.hfu_causal >= report.mfu_causal * (1.0 - 1e-9), "step {i}\n{}", step.text);
        played += 1;
    }
    println!("{played} played");
    assert!(played > 3);
}

/// A module on devices of its own: all tokens of all images cross to the language model once, and where anything is
/// trained as many gradients come back; folded as unfolded, memory given back.
#[test]
fn tokens_of_devices_apart_cross_once() {
    let mut draws = Draws(0x5eed_0014);
    let (mut played, mut uneven_grids) = (0, 0);
    for i in 0..count() / 2 {
        let usage = drawn_usage(&mut draws);
        let mut text = with_module(drawn(&mut draws), &usage);
        apart(&mut draws, &mut text);
        let Some(step) = Step::of(&text) else { continue };
        let w = &step.inputs.workload.value;
        let Some(own) = w.module_devices() else { continue };
        let Some(folded) = run(&step) else { continue };
        let options = Options { fold: false, ..Options::default() };
        let whole = Simulation::run(&step.inputs, &options).expect("as the folded one");
        assert_eq!(folded.record.step_end, whole.record.step_end, "step {i}\n{}", step.text);
        assert_eq!(folded.report(false).impossible(), None, "step {i}\n{}", step.text);
        let sums = Sums::of(&folded.plan);
        for (place, left) in &sums.left {
            assert_eq!(*left, 0, "step {i}: {place:?} keeps bytes\n{}", step.text);
        }
        let stage = w.parallelism.tensor * w.parallelism.context.size;
        let images = w.batch.micro_batch * usage["items"].as_u64().expect("equally many");
        let micro_batches = w.batch.global / w.batch.micro_batch;
        let tokens = images.div_ceil(stage) * stage * micro_batches * 16;
        let trained = usage["trained"] != "nothing";
        if w.parallelism.pipeline.size == 2 {
            for (name, passes) in [("send activations", 1), ("send gradients", u64::from(trained))] {
                let (sent, made) = (sums.bytes_of(name), (passes * tokens * HIDDEN * 2) as f64);
                assert!(
                    alike(sent, made),
                    "step {i}, `{name}`: {sent} bytes, expected {made}\n{}",
                    step.text
                );
            }
        }
        uneven_grids += u32::from(own.ranks() != stage * w.parallelism.data.expect("given"));
        played += 1;
    }
    println!("{played} played, {uneven_grids} of them between unequal numbers of ranks");
    assert!(played > 5 && uneven_grids > 3);
}
