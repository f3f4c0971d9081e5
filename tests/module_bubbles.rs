//! An encoder in the bubbles of the language model: its passes stand in front of a rank's first and behind its last,
//! its tokens go to the first stage, and all is done once.

use serde_json::{Value, json};

use crate::modules::{extended, inputs, report};

/// Qwen2.5-VL-7B on eight devices in four pipeline ranks, eight images a sequence, sixteen micro-batches.
fn step(usage: &Value, more: &Value) -> Value {
    let parallelism = extended(&json!({"tensor": 2, "pipeline": {"size": 4}}), more);
    let module = extended(&json!({"items": 8}), usage);
    json!({
        "topology": "h100-superpod-8", "model": "qwen2.5-vl-7b", "sequence": 4096,
        "batch": {"global": 16, "micro_batch": 1}, "recompute": {"granularity": "full"},
        "parallelism": parallelism, "modules": {"vision": module},
    })
}

/// Tokens of sixteen micro-batches, 8 · 256 rows of 3,584 in 16 bits, go from the ranks that encode them to the first
/// stage, and as many gradients back; of a frozen encoder none do, and nothing is summed over stages.
#[test]
fn tokens_go_to_the_first_stage_and_gradients_back() {
    let sent = |step: &Value, name: &str| -> Vec<usize> {
        let plan = inputs(step).plan().expect("its plan");
        let tokens = f64::from(8 * 256 * 3584 * 2);
        let of = |p: &stepsim::core::program::Program| {
            let is =
                |info: u32| p.infos[info as usize].name == name && p.infos[info as usize].bytes == tokens;
            p.ops.iter().filter(|op| is(op.info)).count()
        };
        plan.world.programs().iter().map(|program| of(program)).collect()
    };
    let trained = step(&json!({"bubbles": true}), &json!({}));
    let [there, back] = ["recv activations", "recv gradients"].map(|name| sent(&trained, name));
    assert!(there[0] > 0 && there[1..].iter().all(|n| *n == 0), "{there:?}");
    assert_eq!(there[0], back.iter().sum::<usize>());
    assert!(there[0] <= 16 && back[0] == 0 && back[3] > back[1], "{back:?}");
    let frozen = step(&json!({"bubbles": true, "trained": "nothing"}), &json!({}));
    assert_eq!(sent(&frozen, "recv activations"), there);
    assert!(sent(&frozen, "recv gradients").iter().all(|n| *n == 0));
}

/// The step is shorter than with the encoder on the first stage. An encoder that runs forward alone and shares images
/// is short: beside a last stage with the head it costs the first nothing.
#[test]
fn bubbles_are_filled() {
    for usage in [json!({}), json!({"trained": "nothing"})] {
        let [inside, first] = [true, false].map(|bubbles| {
            let usage = extended(&usage, &json!({"bubbles": bubbles}));
            report(&step(&usage, &json!({"sharding": {"kind": "zero1"}}))).step_time_s
        });
        assert!(inside < first, "{usage}: {inside} s in bubbles, {first} s on the first stage");
    }
}
