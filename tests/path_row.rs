//! The critical path in a timeline: as one row and on the rows of ranks its slices are the step, whatever the step
//! waited for.

use serde_json::Value;

use crate::command::Folder;
use crate::slow::tried;

/// Nanoseconds of the slices of a category, and how many they are.
fn sum(trace: &Value, category: &str) -> (f64, f64) {
    let events = trace["traceEvents"].as_array().expect("events");
    let times =
        events.iter().filter(|e| e["ph"] == "X" && e["cat"] == category).filter_map(|e| e["dur"].as_f64());
    times.fold((0.0, 0.0), |(sum, count), us| (sum + 1e3 * us, count + 1.0))
}

fn traced(workload: &str, sets: &str) -> (Value, f64) {
    let folder = Folder::new();
    let sets: String = sets.split_whitespace().map(|set| format!(" --set {set}")).collect();
    let all = "-q --trace-ranks all --detail op -o t.json --report r.json";
    folder.stepsim(&format!("run {workload} {all}{sets}")).ok();
    let step = folder.json("r.json")["step_time_s"].as_f64().expect("a number");
    (folder.json("t.json"), 1e9 * step)
}

/// Host, noise, sites, offload with a full tier, stragglers.
#[test]
fn the_path_is_the_step_in_every_timeline() {
    let two_sites = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/two-sites.json");
    let steps = [
        ("tiny-4", "noise.compute_sigma=0.1 parallelism.pipeline.size=2 parallelism.data=2"),
        ("gpt2-8", "stack=fsdp2-eager batch.global=32"),
        ("qwen3-30b-a3b-gb200", "batch.global=64"),
        (two_sites, "topology.nodes=2 batch.global=8 parallelism.data=1 model.layers=20"),
        ("llama3-70b-offload", "model.layers=4 offload.prefetch.depth=20"),
        ("straggler-64", "batch.global=16"),
    ];
    for (workload, sets) in steps.into_iter().filter(|(name, _)| tried(name) || *name == two_sites) {
        let (trace, step) = traced(workload, sets);
        let (path, _) = sum(&trace, "path");
        assert!((path - step).abs() <= 1.0, "{workload}: the row is {path} ns of {step}");
        let (on_ranks, slices) = sum(&trace, "critical");
        // Each op is rounded to nanoseconds; those that are none are left out.
        assert!((on_ranks - step).abs() <= 1.0 + slices, "{workload}: ranks have {on_ranks} ns of {step}");
        assert!((on_ranks - step).abs() <= 1e-4 * step, "{workload}: ranks have {on_ranks} ns of {step}");
    }
}
