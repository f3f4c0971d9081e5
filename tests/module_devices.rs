//! An encoder on devices of its own, held to bytes worked out by hand and to the same step on a stage.

use serde_json::{Value, json};
use stepsim::price::model::module_parameters;
use stepsim::schedule::sharding;

use crate::modules::{inputs, report};

/// Tokens of the eight images of a sequence: 256 each, of width 3,584, in 16 bits.
const TOKENS: u64 = 8 * 256 * 3584 * 2;

/// Qwen2.5-VL-7B, eight images a sequence: two stages of the language model, tensor 2, data 2, and an encoder in front.
fn step(usage: &Value, devices: u64) -> Value {
    let mut module = json!({"items": 8});
    module.as_object_mut().expect("fields").extend(usage.as_object().expect("fields").clone());
    json!({
        "topology": format!("nodes:1*{devices},900,1,50,2"), "model": "qwen2.5-vl-7b", "sequence": 4096,
        "batch": {"global": 16, "micro_batch": 1}, "recompute": {"granularity": "full"},
        "parallelism": {
            "tensor": 2, "sequence_parallel": true, "pipeline": {"size": 3}, "data": 2, "sharding": {"kind": "zero1"},
        },
        "modules": {"vision": module},
    })
}

fn apart(tensor: u64, data: u64) -> Value {
    step(&json!({"devices": {"tensor": tensor, "data": data}}), 8 + tensor * data)
}

/// Bytes of a message of a rank of the first pipeline rank, and how many it has of all micro-batches.
fn messages(step: &Value, name: &str) -> (u64, usize) {
    let plan = inputs(step).plan().expect("its plan");
    let program = &plan.world.programs()[0];
    let info = program.infos.iter().position(|info| info.name == name).expect("a message");
    let count = program.ops.iter().filter(|op| op.info as usize == info).count();
    (program.infos[info].bytes as u64, count)
}

/// Two replicas have the tokens of eight images each in a micro-batch, of which there are eight. Four ranks of the
/// language model receive them: a quarter each, from one encoder that sends four times, from two that send twice, or
/// from eight that send an eighth.
#[test]
fn each_rank_sends_its_part_of_all_tokens() {
    let quarter = 2 * TOKENS / 4;
    for (tensor, data, bytes, count) in [
        (1, 1, quarter, 4 * 8),
        (1, 2, quarter, 2 * 8),
        (2, 1, quarter, 2 * 8),
        (2, 2, quarter, 8),
        (1, 8, quarter / 2, 8),
    ] {
        let step = apart(tensor, data);
        assert_eq!(messages(&step, "send activations"), (bytes, count), "{tensor} {data}");
        assert_eq!(messages(&step, "recv gradients"), (bytes, count), "{tensor} {data}");
    }
    // Both tensor-parallel ranks of an encoder have the gradients of all that it has encoded.
    assert_eq!(messages(&apart(2, 1), "all-gather received"), (2 * TOKENS, 8));
    assert_eq!(messages(&apart(2, 2), "all-gather received"), (TOKENS, 8));
}

/// As many devices as a stage has, one a replica's share: the step of a stage of its own whose ranks share images.
#[test]
fn as_many_devices_as_a_stage_are_a_stage() {
    let stage = report(&step(&json!({"stages": 1, "parallelism": "data"}), 12)).step_time_s;
    let own = report(&apart(1, 4)).step_time_s;
    assert!((own / stage - 1.0).abs() < 0.01, "{own} {stage}");
}

/// Whatever is cut over whom: optimizer state lies on the encoder's own ranks in equal parts (all kinds but one cut it).
#[test]
fn all_kinds_of_sharding_cut_a_module_on_devices_of_its_own() {
    for kind in sharding::ALL.iter().map(|facts| facts.name) {
        for data in [1, 4] {
            let mut step = apart(1, data);
            step["parallelism"]["sharding"]["kind"] = kind.into();
            let parts = if kind == "none" { 1 } else { data };
            let optimizer = 12 * module_parameters(&inputs(&step).model.modules[0]) / parts;
            let held = report(&step).stages[0].memory["hbm"].by_class["optimizer"];
            assert!(held.abs_diff(optimizer) <= 8, "{kind} over {data}: {held}, not {optimizer}");
        }
    }
}
