//! Short files are enough, and what is wrong in one is said in full.

use serde_json::{Value, json};
use stepsim_spec::problem::Problem;
use stepsim_spec::{SpecError, from_value, *};

fn small() -> Value {
    json!({
        "model": {
            "name": "small", "layers": 8, "hidden": 1024, "heads": 16, "kv_heads": 4, "ffn": 4096,
            "vocabulary": 32000, "sequence": 2048,
        },
        "batch": { "global": 32 },
    })
}
/// The small workload with settings, apart by spaces.
fn with(settings: &str) -> Result<WorkloadSpec, SpecError> {
    let sets: Vec<String> = settings.split_whitespace().map(String::from).collect();
    from_value(small(), "small".into(), "small.json".into(), &sets).map(|l| l.value)
}
fn on(workload: &WorkloadSpec, devices: u64) -> Vec<String> {
    workload.validate_on(devices, &["hbm", "host"]).iter().map(Problem::to_string).collect()
}

#[test]
fn a_short_file_is_enough() {
    let w = with("").expect("a right file");
    assert_eq!(w.data_parallel(8), 8);
    assert_eq!(w.micro_batches(8), 4);
    assert_eq!(w.bytes_per_parameter().total(), 18.0);
    assert!(on(&w, 8).is_empty());
    // The filled-in workload reads back as the same.
    let again: WorkloadSpec = serde_json::from_value(serde_json::to_value(&w).unwrap()).unwrap();
    assert_eq!(again, w);
}

#[test]
fn recipes_cost_the_bytes_of_their_papers() {
    let bytes = |settings: &str| with(settings).expect("a right file").bytes_per_parameter();
    // Megatron's table for its distributed optimizer: fp16 parameters and gradients 20 with fp32 gradients kept too.
    let fp16 = bytes("precision.weights=fp16 precision.gradients=fp16");
    assert_eq!((fp16.weights, fp16.gradients, fp16.optimizer()), (2.0, 2.0, 12.0));
    // DeepSeek-V3: bf16 moments.
    assert_eq!(bytes("precision.moments_bytes_per_parameter=4").total(), 14.0);
    // Two moments of one byte, and an fp32 scale for every 256 of each.
    assert_eq!(bytes("optimizer.kind=adam8bit").moments, 2.03125);
    assert_eq!(bytes("optimizer.kind=sgd").moments, 0.0);
}
