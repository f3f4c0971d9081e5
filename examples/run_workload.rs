//! A shipped workload, run from a program: where the time goes.
//!
//! `cargo run --example run_workload -- llama3-8b-fsdp batch.global=256`

use stepsim::simulate::{Inputs, Options, Simulation};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    stepsim::register_shipped()?;
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "gpt2-8".to_string());
    let sets: Vec<String> = arguments.collect();
    let run = Simulation::run(&Inputs::load(&name, None, &sets)?, &Options::default())?;
    let report = run.report(false);
    println!("{name}: {:.3} s, MFU {:.1} %", report.step_time_s, 100.0 * report.mfu);
    for (cause, seconds) in &report.mean.stalls_s {
        println!("  {:<28} {:>6.2} %", cause.name(), 100.0 * seconds / report.step_time_s);
    }
    Ok(())
}
