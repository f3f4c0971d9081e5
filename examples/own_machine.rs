//! A machine and a workload made in the program, without files: how the step time follows the port's bandwidth.
//!
//! `cargo run --example own_machine`

use stepsim::simulate::{Inputs, Options, Simulation};
use stepsim::spec::Device;
use stepsim::spec::topology::{Link, Topology};
use stepsim::spec::workload::WorkloadSpec;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    stepsim::register_shipped()?;
    let text = r#"{"model": "llama3-8b", "batch": {"global": 16, "micro_batch": 1},
        "parallelism": {"data": 8, "sharding": {"kind": "zero3"}}, "recompute": {"granularity": "full"}}"#;
    let workload: WorkloadSpec = serde_json::from_str(text)?;
    for port in [100.0, 200.0, 400.0] {
        let device = Device::of("mine", 500.0, 96.0, 3000.0);
        let topology = Topology::of(device).switch(8, Link::of(port, 1.0));
        let run = Simulation::run(&Inputs::of(&workload, &topology)?, &Options::default())?;
        let report = run.report(false);
        println!("ports of {port} GB/s: {:.3} s, MFU {:.1} %", report.step_time_s, 100.0 * report.mfu);
    }
    Ok(())
}
