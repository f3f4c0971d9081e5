//! Modules in front of the language model, held to numbers worked out by hand, to their closed form, and to what they
//! must say.

use serde_json::{Value, json};
use stepsim::form::compare::workload::closed_form;
use stepsim::price::model::flops::StepFlops;
use stepsim::price::model::{CommPoint, Item, LayerPlan, ModuleShard, trained_parameters};
use stepsim::read::analysis::report::Report;
use stepsim::read::analysis::stalls::StallCause;
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::Disk;

/// A step of a shipped model on eight devices.
fn step(model: &str, name: &str, usage: &Value, parallelism: &Value) -> Value {
    json!({
        "topology": "h100-superpod-8", "model": model, "sequence": 4096, "batch": {"global": 8, "micro_batch": 1},
        "recompute": {"granularity": "full"},
        "parallelism": parallelism, "modules": {name: usage},
    })
}

pub fn inputs(step: &Value) -> Inputs {
    Inputs::from_json(&step.to_string(), None, &[], &Disk).unwrap_or_else(|e| panic!("{e}"))
}

pub fn report(step: &Value) -> Report {
    Simulation::run(&inputs(step), &Options::default()).unwrap_or_else(|e| panic!("{e}")).report(false)
}

/// Bytes of a message of a step, by program.
pub fn sent(step: &Value, name: &str) -> Vec<f64> {
    let plan = inputs(step).plan().expect("its plan");
    let programs = plan.world.programs();
    programs.iter().filter_map(|p| p.infos.iter().find(|info| info.name == name)).map(|i| i.bytes).collect()
}

/// An object with further fields, those of the other.
pub fn extended(object: &Value, more: &Value) -> Value {
    let mut whole = object.clone();
    whole.as_object_mut().expect("fields").extend(more.as_object().expect("fields").clone());
    whole
}

/// What the rank of a step has of its one module.
fn with_shard<T>(step: &Value, read: impl FnOnce(&ModuleShard<'_>) -> T) -> T {
    let inputs = inputs(step);
    let workload = &inputs.workload.value;
    let module = workload.used_modules(&inputs.model)[0];
    read(&ModuleShard::new(workload, &inputs.model, module, None))
}

fn flops(plan: &LayerPlan) -> [f64; 2] {
    [&plan.forward, &plan.backward].map(|items| LayerPlan::flops(items))
}

/// Qwen2.5-VL's encoder: p = 1,024 patches, h = 1,280, gated f = 3,420, windows of 64 patches in 28 of 32 layers.
/// Products of a layer: 2·p·(4h² + 3hf) = 40,317,747,200; attention in 16 windows: 4·16·64²·h = 335,544,320, in full:
/// 4p²h = 5,368,709,120. Kept: 16ph + 6pf + 4·16p = 42,049,536.
#[test]
fn qwen_2_5_vl_by_hand() {
    let step = step("qwen2.5-vl-7b", "vision", &json!({"items": 1}), &json!({"data": 8}));
    let [window, full] = [0, 7].map(|number| with_shard(&step, |module| module.layer(number)));
    let (products, in_windows, whole) = (40_317_747_200.0, 335_544_320.0, 5_368_709_120.0);
    assert_eq!(flops(&window), [products + in_windows, 2.0 * products + 2.5 * in_windows]);
    assert_eq!(flops(&full), [products + whole, 2.0 * products + 2.5 * whole]);
    assert_eq!([window.all_saved_bytes(), full.all_saved_bytes()], [42_049_536; 2]);
    assert_eq!(window.parameters.dense, 19_702_200);
    // 256 tokens through 5,120 × 5,120 and 5,120 × 3,584; 1,024 patches through 1,176 × 1,280.
    let (projector, input) = (22_817_013_760.0, 3_082_813_440.0);
    assert_eq!(flops(&with_shard(&step, |module| module.projector())), [projector, 2.0 * projector]);
    let of = |usage: Value| {
        let inputs = inputs(&self::step("qwen2.5-vl-7b", "vision", &usage, &json!({"data": 8})));
        StepFlops::of_modules(&inputs.workload.value, &inputs.model, 1).model
    };
    let layers = 32.0 * products + 28.0 * in_windows + 4.0 * whole;
    assert_eq!(of(json!({"items": 2})), 2.0 * (3.0 * (layers + projector) + 2.0 * input));
    // The norm before the projector is trained: its first product has an input gradient.
    assert_eq!(of(json!({"items": 1, "trained": "projector"})), layers + input + 3.0 * projector);
    assert_eq!(of(json!({"items": 1, "trained": "nothing"})), layers + input + projector);
}

/// Qwen3-VL's encoder: p = 1,024 patches of 1,536 values, h = 1,152, f = 4,304, 16 heads; four patches become a token
/// four times: behind layers 8, 16, 24 and the last, through 4,608 × 4,608 and 4,608 × 4,096. Products of a layer:
/// 2·p·(4h² + 2hf) = 31,180,455,936; attention: 4p²h = 4,831,838,208. A projector: 2·256·(4,608² + 4,608 · 4,096) =
/// 20,535,312,384.
#[test]
fn qwen_3_vl_by_hand() {
    let step = step("qwen3-vl-8b", "vision", &json!({"items": 1}), &json!({"data": 8}));
    let (products, attention, projector) = (31_180_455_936.0, 4_831_838_208.0, 20_535_312_384.0);
    let layer = with_shard(&step, |module| module.layer(0));
    assert_eq!(flops(&layer), [products + attention, 2.0 * products + 2.5 * attention]);
    let main = with_shard(&step, |module| module.projector());
    let deep = with_shard(&step, |module| module.deep_projector()).expect("projectors behind layers");
    assert_eq!([flops(&main), flops(&deep)], [[projector, 2.0 * projector]; 2]);
    assert_eq!([main.parameters.dense, deep.parameters.dense], [40_119_040, 40_125_952]);
    let inputs = inputs(&step);
    let input = 2.0 * 1024.0 * 1536.0 * 1152.0;
    let counted = StepFlops::of_modules(&inputs.workload.value, &inputs.model, 1).model;
    assert_eq!(counted, 3.0 * (27.0 * (products + attention) + 4.0 * projector) + 2.0 * input);
    let plan = inputs.plan().expect("its plan");
    let adds = |name: &str| plan.world.programs()[0].infos.iter().find(|i| i.name == name).map(|i| i.bytes);
    assert_eq!(adds("vision add deep tokens"), Some(f64::from(3 * 3 * 256 * 4096 * 2)));
}

/// Eight images on eight ranks that cut layers, or take an image each and gather 256 tokens of 3,584 in 16 bits from
/// each.
#[test]
fn ranks_share_layers_or_images() {
    let of = |parallelism: &str| {
        let usage = json!({"items": 8, "parallelism": parallelism});
        step("qwen2.5-vl-7b", "vision", &usage, &json!({"tensor": 4, "sequence_parallel": true}))
    };
    let gathers = |plan: &LayerPlan| -> Vec<(String, u64)> {
        let comms = plan.forward.iter().chain(&plan.backward).filter_map(Item::comm);
        comms.map(|c: &CommPoint| (c.name.to_owned(), c.bytes)).collect()
    };
    let (cut, shared) = (of("tensor"), of("data"));
    let layers = [&cut, &shared].map(|step| with_shard(step, |module| module.layer(0)));
    assert_eq!(flops(&layers[0])[0], flops(&layers[1])[0]);
    assert!(gathers(&layers[1]).is_empty() && !layers[0].sums_over_tensor && layers[1].sums_over_tensor);
    let tokens = 8 * 256 * 3584 * 2;
    let travel = with_shard(&shared, |module| gathers(&module.projector()));
    let expected = [("all-gather tokens", tokens), ("all-gather token gradients", tokens)];
    assert_eq!(travel, expected.map(|(name, bytes)| (name.to_owned(), bytes)));
    // Each rank holds the whole module, and sums gradients with the others.
    let weights = |step| report(step).memory["hbm"].by_class["weights"];
    assert!(weights(&shared) > weights(&cut) + 3 * 676_550_144 / 4);
}

/// With the language model frozen, gradients pass through it to the projector, and only that has state.
#[test]
fn a_projector_is_trained_through_a_frozen_model() {
    let mut step =
        step("qwen2.5-vl-7b", "vision", &json!({"items": 4, "trained": "projector"}), &json!({"data": 8}));
    step["training"] = json!({"frozen_layers": 28});
    let inputs = inputs(&step);
    assert_eq!(trained_parameters(&inputs.model, &inputs.workload.value), 44_574_464);
    let run = Simulation::run(&inputs, &Options::default()).expect("a step").report(false);
    assert!(run.hfu_causal >= run.mfu_causal * (1.0 - 1e-9));
}

/// Eight sequences, one of which has twelve images and the others one: seven ranks wait for the one with most, and say
/// so. Exchanged, each encodes ⌈19 / 8⌉ = 3 images of 1,024 patches, and sends 3 · 256 tokens of 3,584 in 16 bits.
#[test]
fn ranks_wait_for_uneven_images_or_exchange_them() {
    let of = |exchange: bool| {
        let usage = json!({"counts": [12, 1, 1, 1, 1, 1, 1, 1], "exchange": exchange});
        step("qwen2.5-vl-7b", "vision", &usage, &json!({"data": 8, "sharding": {"kind": "zero1"}}))
    };
    let [apart, together] = [false, true].map(|exchange| report(&of(exchange)));
    assert!(together.step_time_s < apart.step_time_s, "{} {}", together.step_time_s, apart.step_time_s);
    let waits = |report: &Report, cause| report.mean.stalls_s.get(&cause).copied().unwrap_or(0.0);
    assert!(waits(&apart, StallCause::UnevenInputs) > 0.05 && waits(&apart, StallCause::PeerLate) == 0.0);
    assert_eq!(waits(&together, StallCause::UnevenInputs), 0.0);
    let exchanged = inputs(&of(true));
    let plan = exchanged.plan().expect("its plan");
    let sent: Vec<_> = plan.world.programs().iter().flat_map(|program| &program.infos).collect();
    let bytes = |name: &str| sent.iter().find(|info| info.name == name).map(|info| info.bytes);
    for name in ["vision all-to-all tokens", "vision all-to-all token gradients"] {
        assert_eq!(bytes(name), Some(f64::from(3 * 256 * 3584 * 2)));
    }
    let terms = closed_form(&exchanged).unwrap_or_else(|e| panic!("{e}")).terms;
    let estimate = terms.total();
    assert_eq!(terms.context, 0.0);
    println!("apart {} s, exchanged {} s, closed form {estimate} s", apart.step_time_s, together.step_time_s);
    assert!((estimate / together.step_time_s - 1.0).abs() < 0.05);
}
