//! An encoder on pipeline stages of its own, held to bytes worked out by hand, to its closed form, and to what it must
//! say.

use serde_json::{Value, json};
use stepsim::form::compare::workload::closed_form;
use stepsim::price::model::module_parameters;
use stepsim::simulate::{Options, Simulation};

use crate::modules::{extended, inputs, report, sent};

/// Qwen2.5-VL-7B on eight devices in four pipeline ranks: eight images a sequence.
fn step(usage: &Value, more: &Value) -> Value {
    let parallelism = extended(&json!({"tensor": 2, "pipeline": {"size": 4}}), more);
    let module = extended(&json!({"items": 8}), usage);
    json!({
        "topology": "h100-superpod-8", "model": "qwen2.5-vl-7b", "sequence": 4096,
        "batch": {"global": 8, "micro_batch": 1}, "recompute": {"granularity": "full"},
        "parallelism": parallelism, "modules": {"vision": module},
    })
}

/// 8 images of 1,024 patches of width 1,280 between stages of the encoder; 8 · 256 tokens of width 3,584 to the
/// language model; then 4,096 tokens of it. All in 16 bits.
#[test]
fn stages_send_patches_then_tokens_then_the_sequence() {
    let [patches, tokens, sequence] =
        [8 * 1024 * 1280 * 2, 8 * 256 * 3584 * 2, 4096 * 3584 * 2].map(f64::from);
    let whole = step(&json!({"stages": 2}), &json!({}));
    assert_eq!(sent(&whole, "send activations"), [patches, tokens, sequence]);
    assert_eq!(sent(&whole, "send gradients"), [patches, tokens, sequence]);
    // Two tensor-parallel ranks share images, and gather tokens where they arrive; the sequence is cut there.
    let shared = step(&json!({"stages": 2, "parallelism": "data"}), &json!({"sequence_parallel": true}));
    assert_eq!(sent(&shared, "send activations"), [patches, tokens, sequence].map(|bytes| bytes / 2.0));
    assert_eq!(sent(&shared, "vision all-gather tokens"), [tokens]);
    assert_eq!(sent(&shared, "vision all-gather token gradients"), [tokens]);
    // Equal messages are cut and gathered; those of ranks that hold other images or tokens are not.
    let scatter = json!({"pipeline": {"size": 4, "scatter_gather": true}});
    let cut = step(&json!({"stages": 2}), &scatter);
    assert_eq!(sent(&cut, "send activations"), [patches, tokens, sequence].map(|bytes| bytes / 2.0));
}

/// Qwen3-VL: 14 and 13 layers, projectors behind layers 8, 16 and 24. With the positions go the tokens of the first
/// one, and all four sets of 256 tokens of width 4,096 to the language model.
#[test]
fn tokens_of_projectors_behind_layers_pass_the_stages_behind_them() {
    let mut deep = step(&json!({"stages": 2}), &json!({}));
    deep["model"] = "qwen3-vl-8b".into();
    let [patches, tokens, sequence] =
        [8 * 1024 * 1152 * 2, 8 * 256 * 4096 * 2, 4096 * 4096 * 2].map(f64::from);
    assert_eq!(sent(&deep, "send activations"), [patches + tokens, 4.0 * tokens, sequence]);
    let estimate = closed_form(&inputs(&deep)).unwrap_or_else(|e| panic!("{e}"));
    let run = report(&deep);
    let off = estimate.terms.total() / run.step_time_s - 1.0;
    assert!(off.abs() < 0.05, "{off}");
    assert_eq!(run.impossible(), None);
}

/// No gradient goes to stages that train nothing.
#[test]
fn frozen_stages_get_no_gradients() {
    let tokens = f64::from(8 * 256 * 3584 * 2);
    let sequence = f64::from(4096 * 3584 * 2);
    let projector = step(&json!({"stages": 2, "trained": "projector"}), &json!({}));
    assert_eq!(sent(&projector, "send gradients"), [0.0, tokens, sequence]);
    let nothing = step(&json!({"stages": 2, "trained": "nothing"}), &json!({}));
    assert_eq!(sent(&nothing, "send gradients"), [0.0, 0.0, sequence]);
    let time = |usage: Value| report(&step(&usage, &json!({}))).step_time_s;
    let all = time(json!({"stages": 2}));
    assert!(
        report(&nothing).step_time_s < report(&projector).step_time_s && report(&projector).step_time_s < all
    );
}

/// Weights in 16 bits on two tensor-parallel ranks: the encoder's and projector's alone on its stages, and the table on
/// the third.
#[test]
fn stages_hold_their_own_weights() {
    let inputs = inputs(&step(&json!({"stages": 2, "parallelism": "data"}), &json!({})));
    let module = &inputs.model.modules[0];
    let stages = Simulation::run(&inputs, &Options::default()).expect("a step").report(false).stages;
    let weights = |stage: usize| stages[stage].memory["hbm"].by_class["weights"];
    assert_eq!(weights(0) + weights(1), 2 * module_parameters(module));
    assert_eq!(weights(0), 2 * (16 * 19_702_200 + 1176 * 1280));
    assert!(weights(2) > 2 * 14 * 200_000_000 / 2 && weights(3) > 2 * 14 * 200_000_000 / 2);
}
