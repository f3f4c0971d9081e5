//! JSON text in, JSON text out: what a service or another language needs. Nothing is read from the disk.
//!
//! `cargo run --example json_to_report`

use std::collections::BTreeMap;

use stepsim::simulate::{Fault, Inputs, Options, Simulation, SimulationError};

/// The report of a workload, or the parts of the error, as JSON.
fn answer(workload: &str, topology: &str, sets: &[String]) -> serde_json::Value {
    let no_files = BTreeMap::new();
    let report = Inputs::from_json(workload, Some(topology), sets, &no_files)
        .map_err(SimulationError::from)
        .and_then(|inputs| Simulation::run(&inputs, &Options::default()))
        .map(|run| run.report(false));
    match report {
        Ok(report) => serde_json::json!(report),
        Err(error) => serde_json::json!(Fault::from(&error)),
    }
}

fn main() {
    stepsim::register_shipped().expect("the shipped files");
    let workload = r#"{"model": "gpt2-1.5b", "batch": {"global": 32, "micro_batch": 4}}"#;
    let machine = r#"{"base": "h100-superpod-8", "description": "a node of ours", "nodes": 1}"#;
    let good = answer(workload, machine, &[]);
    println!("step_time_s {}\nmfu {}", good["step_time_s"], good["mfu"]);
    let wrong = answer(workload, machine, &["parallelism.tensor=3".to_string()]);
    println!("{wrong:#}");
}
