//! Adapters and frozen layers: formulas against another program's, and steps that run them.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stepsim::around::goodput::CheckpointTimes;
use stepsim::fabric::topology::Machine;
use stepsim::form::compare::workload::closed_form;
use stepsim::price::model::flops::StepFlops;
use stepsim::price::model::{LayerPlan, Shard, trained_decoder_parameters};
use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::workload::{AdapterSpec, PrecisionSpec, TrainingSpec};
use stepsim::spec::{ModelSpec, WorkloadSpec, from_value, load};

fn inputs(over: &[(&str, Value)], topology: &str) -> Result<Inputs, String> {
    let workload = json!({
        "model": {
            "name": "small", "layers": 16, "hidden": 2048, "heads": 16, "kv_heads": 4, "ffn": 8192, "gated_mlp": true,
            "vocabulary": 32000, "sequence": 2048,
        },
        "batch": {"global": 16},
    });
    let sets: Vec<String> = over.iter().map(|(path, value)| format!("{path}={value}")).collect();
    let (topology, machine) = Machine::load(topology, &[]).map_err(|e| e.to_string())?;
    let workload = from_value::<WorkloadSpec>(workload, "test".into(), "test".into(), &sets);
    Inputs::new(workload.map_err(|e| e.to_string())?, topology, machine).map_err(|e| e.to_string())
}
fn run(over: &[(&str, Value)]) -> Simulation {
    let inputs = inputs(over, "switch:8,450,1").unwrap_or_else(|e| panic!("{e}"));
    Simulation::run(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}"))
}

fn lora() -> (&'static str, Value) {
    ("training", json!({"adapters": {"rank": 16}}))
}

/// FLOPs of the kernels of one sequence through the whole model, for each token; `spares`: without the gradient of
/// the input of the lowest trained layer, which nothing reads.
fn executed(model: &ModelSpec, training: &TrainingSpec, sequence: u64, spares: bool) -> f64 {
    let shard = Shard { sequence, ..Shard::whole(model) };
    let of = |plan: LayerPlan| LayerPlan::flops(&plan.forward) + LayerPlan::flops(&plan.backward);
    let layers = (0..model.layers).map(|i| {
        let lowest = spares && training.is_lowest(model, i, false);
        let shard = Shard { trained: training.of_layer(model, i, false), lowest, ..shard.clone() };
        of(LayerPlan::transformer(&model.layer(i), &shard))
    });
    let head = Shard { trained: training.of_head(model), ..shard.clone() };
    (layers.sum::<f64>() + of(LayerPlan::head(model, &head, true))) / sequence as f64
}

#[test]
fn adapters_have_the_golden_parameters_state_and_flops() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/adapters.json");
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let close = |a: f64, b: &Value, within: f64, what: &str| {
        let b = b.as_f64().unwrap();
        assert!((a - b).abs() <= within * b, "{what}: {a}, expected {b}");
    };
    let cases = golden["cases"].as_array().unwrap();
    assert_eq!(cases.len(), 2);
    for case in cases {
        let name = case["shipped"].as_str().unwrap();
        let model: ModelSpec = load(name, &[]).unwrap().value;
        let (rank, sequence) = (case["rank"].as_u64().unwrap(), case["sequence"].as_u64().unwrap());
        let training = TrainingSpec {
            adapters: Some(AdapterSpec {
                rank,
                of: None,
                ends: false,
                dropout: false,
                format: None,
                products: None,
            }),
            ..TrainingSpec::default()
        };
        let trained = trained_decoder_parameters(&model, &training, false);
        assert_eq!(Some(trained), case["parameters"].as_u64(), "{name}");
        let state = PrecisionSpec::default().bytes_per_parameter(Default::default()).optimizer();
        close(trained as f64 * state, &case["state_bytes_adam_with_master"], 0.0, name);
        // The diagonal of the mask counts by half here.
        let flops = executed(&model, &training, sequence, false);
        close(flops, &case["training_flops_per_token_adapters"], 1e-4, name);
        let full = executed(&model, &TrainingSpec::default(), sequence, false);
        close(full, &case["training_flops_per_token_full"], 1e-4, name);
        // MFU counts three times the scores, in full or by half, and no kernel's repetition.
        let counted = |training: &TrainingSpec| StepFlops::of_training(&model, training, false, 1, sequence);
        let (some, all) = (counted(&training), counted(&TrainingSpec::default()));
        let saved = (all.model_causal - some.model_causal) / sequence as f64;
        let flops = executed(&model, &training, sequence, true);
        assert!((saved - (full - flops)).abs() < 1e-6 * saved, "{name}: {saved}");
        assert_eq!(some.mixing, all.mixing);
    }
}

/// The input of the lowest trained layer needs no gradient: by hand, what the products below the first adapter, and
/// beside it, would have made of it.
#[test]
fn nothing_below_the_first_trained_weight_is_differentiated() {
    let sequence = 2048.0;
    let model = inputs(&[], "switch:8,450,1").unwrap().model;
    let (h, f, kv, rank) = (2048.0, 8192.0, 512.0, 16.0);
    let all = 3.0 * (h * h + 2.0 * h * kv + h * h + 3.0 * h * f);
    // Fused attention backward: 2.5 times the scores and values of the forward pass, by half for the mask.
    let mixing = 2.5 * 4.0 * sequence * h / 2.0;
    let of = |list: Value| json!({"adapters": {"rank": 16, "of": list}});
    let cases = [
        (of(json!(["query", "value"])), 2.0 * (h * (h + 2.0 * kv) + 2.0 * rank * h)),
        (of(json!(["projection"])), 2.0 * (h * (h + 2.0 * kv) + h * h + rank * h) + mixing),
        (of(json!(["up"])), 2.0 * (h * (h + 2.0 * kv) + h * h + 2.0 * h * f + rank * h) + mixing),
        // The scales of the first norm are trained: the projections' input gradient is read.
        (json!({"frozen_layers": 4}), 0.0),
    ];
    for (training, expected) in cases {
        let what = training.to_string();
        let spec: TrainingSpec = serde_json::from_value(training.clone()).unwrap();
        let layer = |lowest: bool| {
            let number = spec.frozen_layers;
            let shard =
                Shard { trained: spec.of_layer(&model, number, false), lowest, ..Shard::whole(&model) };
            LayerPlan::flops(&LayerPlan::transformer(&model.layer(number), &shard).backward) / sequence
        };
        let spared = layer(false) - layer(true);
        assert!((spared - expected).abs() < 1e-3 * all, "{what}: {spared}, expected {expected}");
        // In the simulation, in what a step counts, and in the closed form alike.
        let run = run(&[("training", training)]);
        let tokens = 16.0 * sequence;
        let executed = tokens * executed(&model, &spec, 2048, true);
        let hardware = run.plan.hardware_flops as f64;
        assert!((hardware - executed).abs() < 1e-3 * executed, "{what}: {hardware}, expected {executed}");
        let form = closed_form(&run.inputs).unwrap().terms.total();
        let simulated = run.record.step_end.s();
        assert!((form / simulated - 1.0).abs() < 0.03, "{what}: {form} {simulated}");
    }
}

/// A trained embedding needs the gradient of its output: with `ends` nothing is spared at the lowest adapters, and the
/// head's weights have a gradient.
#[test]
fn gradients_reach_a_trained_embedding() {
    let of = |ends: bool| {
        let training = json!({"adapters": {"rank": 16, "of": ["query", "value"], "ends": ends}});
        run(&[("training", training)]).plan.hardware_flops as f64
    };
    let (h, kv, rank, vocabulary, tokens) = (2048.0, 512.0, 16.0, 32000.0, 16.0 * 2048.0);
    let expected = 2.0 * tokens * (h * (h + 2.0 * kv) + 2.0 * rank * h + h * vocabulary);
    let more = of(true) - of(false);
    assert!((more - expected).abs() < 1e-3 * expected, "{more}, expected {expected}");
}

/// Adapters beside matrices of all experts: their weights by hand, of which a token meets those of its experts; and
/// frozen matrices of GPTQ are converted once for a forward pass and not again for its backward pass.
#[test]
fn experts_have_adapters_too() {
    let moe = ("model.moe", json!({"experts": 8, "top_k": 2, "ffn": 1024, "shared_experts": 1}));
    let all = inputs(&[lora(), moe.clone()], "switch:8,450,1").expect("a step");
    let (model, training) = (&all.model, &all.workload.value.training);
    let attention = (2048 + 2048) + 2 * (2048 + 512) + (2048 + 2048);
    let mlp = 3 * (2048 + 1024);
    assert_eq!(trained_decoder_parameters(model, training, false), 16 * 16 * (attention + 9 * mlp));
    let causal =
        |training: &TrainingSpec| StepFlops::of_training(model, training, false, 1, 2048).model_causal;
    let whole = TrainingSpec::default();
    let saved = (causal(&whole) - causal(training)) / 2048.0;
    let spared = executed(model, &whole, 2048, false) - executed(model, training, 2048, true);
    assert!((saved - spared).abs() < 1e-6 * saved, "{saved} {spared}");
    let casts = |format: &str| {
        let over = json!({"adapters": {"rank": 16}, "frozen_format": format});
        let step = inputs(&[("training", over)], "switch:8,450,1").expect("a step");
        let whole = Shard::new(&step.workload.value, &step.model);
        let trained = step.workload.value.training.of_layer(&step.model, 3, false);
        let plan = LayerPlan::transformer(&step.model.layer(3), &Shard { trained, ..whole });
        let of = |items: &[stepsim::price::model::Item]| {
            items.iter().filter_map(|i| i.kernel()).filter(|k| k.name.contains("frozen weights")).count()
        };
        [of(&plan.forward), of(&plan.backward)]
    };
    assert_eq!((casts("nf4"), casts("gptq")), ([4, 4], [48, 0]));
}

/// What is reduced and gathered is the adapters; what is kept is less, and a step is shorter by its weight gradients.
#[test]
fn a_step_with_adapters_sends_and_keeps_little() {
    let zero1 = ("parallelism.sharding.kind", json!("zero1"));
    let (whole, some) = (run(std::slice::from_ref(&zero1)), run(&[zero1, lora()]));
    let sent = |step: &Simulation, name: &str| -> f64 {
        let program = &step.plan.world.programs()[0];
        let infos = program.ops.iter().map(|op| &program.infos[op.info as usize]);
        infos.filter(|info| info.name == name).map(|info| info.bytes).sum()
    };
    let model = &inputs(&[], "switch:8,450,1").unwrap().model;
    let training: TrainingSpec = serde_json::from_value(lora().1).unwrap();
    let trained = trained_decoder_parameters(model, &training, false) as f64;
    assert_eq!(sent(&some, "reduce-scatter gradients"), 4.0 * trained);
    assert_eq!(sent(&some, "all-gather weights"), 2.0 * trained);
    assert!(sent(&whole, "reduce-scatter gradients") > 30.0 * 4.0 * trained);
    let memory = |step: &Simulation| step.memory_peak_bytes().unwrap();
    assert!(memory(&some) < memory(&whole), "{} {}", memory(&some), memory(&whole));
    let ratio = some.record.step_end.s() / whole.record.step_end.s();
    assert!(ratio > 0.6 && ratio < 0.95, "{ratio}");
    // Gathers of saved inputs that nobody reads are left out.
    let tensor = ("parallelism.tensor", json!(4));
    let sequence = ("parallelism.sequence_parallel", json!(true));
    let two = ("training", json!({"adapters": {"rank": 16, "of": ["query", "value"]}}));
    let (whole, some) = (run(&[tensor.clone(), sequence.clone()]), run(&[tensor, sequence, two]));
    assert!(some.record.step_end < whole.record.step_end);
}

/// A reference model runs forward once more: a copy with weights of its own, or beside adapters the model itself; its
/// activations cross the borders of stages too, and nothing comes back.
#[test]
fn a_reference_model_is_one_forward_pass_more() {
    let model = inputs(&[], "switch:8,450,1").unwrap().model;
    let whole = Shard { sequence: 2048, ..Shard::whole(&model) };
    let of = |plan: LayerPlan| LayerPlan::flops(&plan.forward);
    let layers = (0..model.layers).map(|i| of(LayerPlan::transformer(&model.layer(i), &whole)));
    let forward = 16.0 * (layers.sum::<f64>() + of(LayerPlan::head(&model, &whole, true)));
    let parameters = stepsim::price::model::ParameterCount::of(&model).total() as f64;
    for (training, own_copy) in [(json!({}), 1.0), (lora().1, 0.0)] {
        let mut with = training.clone();
        with["reference"] = json!(true);
        let (without, with) = (run(&[("training", training)]), run(&[("training", with)]));
        let more = (with.plan.hardware_flops - without.plan.hardware_flops) as f64;
        assert!((more / forward - 1.0).abs() < 1e-6, "{more} {forward}");
        let counted = with.plan.model_flops.model_causal - without.plan.model_flops.model_causal;
        assert!((counted / forward - 1.0).abs() < 1e-3, "{counted} {forward}");
        let held = |step: &Simulation| step.memory_peak_bytes().unwrap() as f64;
        let copy = held(&with) - held(&without);
        assert!((copy - own_copy * 2.0 * parameters).abs() < 0.01 * parameters, "{copy}");
        assert!(with.record.step_end > without.record.step_end);
    }
    let sent = |reference: bool| {
        let pipeline = json!({"size": 2, "schedule": "1f1b"});
        let step = run(&[("parallelism.pipeline", pipeline), ("training.reference", json!(reference))]);
        let program = &step.plan.world.programs()[0];
        let infos = program.ops.iter().map(|op| &program.infos[op.info as usize]);
        let mut bytes = BTreeMap::<_, f64>::new();
        for info in infos.filter(|info| info.name.starts_with("send")) {
            *bytes.entry(info.name.to_string()).or_default() += info.bytes;
        }
        bytes
    };
    let (alone, both) = (sent(false), sent(true));
    assert!(!alone.is_empty() && alone.len() == both.len(), "{alone:?} {both:?}");
    alone.iter().for_each(|(name, bytes)| assert_eq!(both[name], 2.0 * bytes, "{name}"));
}

/// Weight gradients alone read the transposed copies of inputs and output gradients; those of weights serve input
/// gradients.
#[test]
fn beside_frozen_weights_operands_are_cast_once() {
    let casts = |more: &[(&str, Value)]| {
        let recipe = ("precision.recipe", json!("fp8-delayed"));
        let over: Vec<(&str, Value)> = [recipe].iter().chain(more).cloned().collect();
        let inputs = inputs(&over, "h100-superpod-8").unwrap_or_else(|e| panic!("{e}"));
        let run = Simulation::run(&inputs, &Options::default()).unwrap_or_else(|e| panic!("{e}"));
        let program = run.plan.world.programs()[0].clone();
        let mut bytes: BTreeMap<String, f64> = BTreeMap::new();
        for info in program.ops.iter().map(|op| &program.infos[op.info as usize]) {
            *bytes.entry(info.name.to_string()).or_default() += info.bytes;
        }
        bytes
    };
    let (whole, adapted) = (casts(&[]), casts(&[lora()]));
    assert!(whole["cast and transpose"] > 0.0 && whole["transpose"] > 0.0, "{whole:?}");
    // Weights cast and transposed once and for all, operands without a second copy.
    assert!(!adapted.contains_key("cast and transpose"), "{adapted:?}");
    assert!(!adapted.contains_key("transpose"), "{adapted:?}");
    assert!(adapted["cast"] > 0.0, "{adapted:?}");
}

#[test]
fn checkpoints_hold_what_is_trained() {
    let bytes = |over: &[(&str, Value)]| {
        let inputs = inputs(over, "h100-superpod-8").unwrap_or_else(|e| panic!("{e}"));
        let checkpoint = stepsim::spec::load::<stepsim::spec::reliability::Reliability>("llama3-h100", &[]);
        let of = checkpoint.unwrap().value.checkpoint;
        let of = stepsim::spec::reliability::Checkpoint { total_gb: None, ..of };
        let times = CheckpointTimes::new(&of, 8, Some(&inputs)).unwrap();
        (times.bytes.unwrap(), inputs)
    };
    let (whole, inputs) = bytes(&[]);
    let (adapted, _) = bytes(&[lora()]);
    let training: TrainingSpec = serde_json::from_value(lora().1).unwrap();
    let trained = trained_decoder_parameters(&inputs.model, &training, false) as f64;
    let all = stepsim::price::model::ParameterCount::of(&inputs.model).total() as f64;
    assert!((adapted / whole / (trained / all) - 1.0).abs() < 1e-9, "{adapted} of {whole}");
}
