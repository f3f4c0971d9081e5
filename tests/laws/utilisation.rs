//! What is counted of a step was executed: HFU is at least MFU, by either count of attention, whatever mixes the
//! tokens.

use serde_json::{Value, json};

use super::steps::Draws;
use crate::slow::slow;
use stepsim::simulate::Inputs;
use stepsim::spec::{Disk, Kind, catalog};

/// Ceilings and rows of a border.
const ROUNDING: f64 = 1e-9;

/// Model and executed FLOPs of a step, attention in full and by half; `None` where it is refused.
fn counted(workload: &Value) -> Option<[[f64; 2]; 2]> {
    let inputs = Inputs::from_json(&workload.to_string(), None, &[], &Disk).ok()?;
    let plan = inputs.plan().ok()?;
    let executed = plan.hardware_flops as f64;
    let full = executed + plan.skipped_flops as f64;
    Some([[plan.model_flops.model, full], [plan.model_flops.model_causal, executed]])
}

/// Shipped models, each with one of the kernels of attention and a window or none, at lengths up to 2 M tokens.
#[test]
fn what_is_counted_was_executed() {
    let mut draws = Draws(0x5eed_f10b);
    let names: Vec<&str> = catalog::names(Kind::Model).collect();
    let lengths: &[u64] = if slow() { &[1024, 8192, 131_072, 2_097_152] } else { &[1024, 524_288] };
    let mut held = 0;
    for (name, sequence) in names.iter().flat_map(|name| lengths.iter().map(move |s| (*name, *s))) {
        let kernel = draws.of(&["flash", "flash", "standard"]);
        let mut model = json!({"base": name});
        if kernel == "standard" && sequence <= 8192 {
            model["attention"] = json!({"kernel": "standard", "window": draws.of(&[64, 512, 100_000])});
        }
        let workload = json!({
            "topology": "switch:1,100,1", "model": model, "sequence": sequence,
            "batch": {"global": 1, "micro_batch": 1},
            "recompute": {"granularity": draws.of(&["none", "full"])},
        });
        let Some(both) = counted(&workload) else { continue };
        for [model, executed] in both {
            assert!(executed >= model * (1.0 - ROUNDING), "{workload}: {executed} of {model}");
        }
        held += 1;
    }
    println!("{held} held");
    assert!(held >= names.len(), "{held} of {} models", names.len());
}
