//! The critical path in a timeline: as one row and on the rows of ranks its slices are the step, whatever the step waited for.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// Nanoseconds of the slices of a category, and how many they are.
fn sum(trace: &Value, category: &str) -> (f64, f64) {
    let events = trace["traceEvents"].as_array().expect("events");
    let times =
        events.iter().filter(|e| e["ph"] == "X" && e["cat"] == category).filter_map(|e| e["dur"].as_f64());
    times.fold((0.0, 0.0), |(sum, count), us| (sum + 1e3 * us, count + 1.0))
}

fn traced(folder: &Path, workload: &str, sets: &[&str]) -> (Value, f64) {
    let [trace, report] = ["t.json", "r.json"].map(|name| folder.join(name));
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepsim"));
    command.args(["run", workload, "-q", "--trace-ranks", "all", "--detail", "op", "-o"]).arg(&trace);
    command.arg("--report").arg(&report);
    for set in sets {
        command.args(["--set", set]);
    }
    assert!(command.status().expect("a run").success(), "{workload} {sets:?}");
    let read = |path: &Path| -> Value {
        serde_json::from_str(&std::fs::read_to_string(path).expect("a file")).expect("JSON")
    };
    let step = read(&report)["step_time_s"].as_f64().expect("a number");
    (read(&trace), 1e9 * step)
}

/// Host, noise, sites, offload with a full tier, stragglers.
#[test]
fn the_path_is_the_step_in_every_timeline() {
    let cases: [(&str, &[&str]); 6] = [
        ("tiny-4", &["noise.compute_sigma=0.1", "parallelism.pipeline.size=2", "parallelism.data=2"]),
        ("gpt2-8", &["stack=fsdp2-eager", "batch.global=32"]),
        ("qwen3-30b-a3b-gb200", &["batch.global=64"]),
        (
            "examples/two-sites.json",
            &["topology.nodes=2", "batch.global=8", "parallelism.data=1", "model.layers=20"],
        ),
        ("llama3-70b-offload", &["model.layers=4", "offload.prefetch.depth=20"]),
        ("straggler-64", &["batch.global=16"]),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    for (workload, sets) in cases {
        let (trace, step) = traced(folder.path(), workload, sets);
        let (path, _) = sum(&trace, "path");
        assert!((path - step).abs() <= 1.0, "{workload}: the row is {path} ns of {step}");
        let (on_ranks, slices) = sum(&trace, "critical");
        // Each op is rounded to nanoseconds; those that are none are left out.
        assert!((on_ranks - step).abs() <= 1.0 + slices, "{workload}: ranks have {on_ranks} ns of {step}");
        assert!((on_ranks - step).abs() <= 1e-4 * step, "{workload}: ranks have {on_ranks} ns of {step}");
    }
}
