//! `stepsim inspect`: what files expand to, without simulating.
//!
//! The machine (devices, links, tiers, routes), and with a workload the step on it: who is in which group, what each
//! stage's program holds, what fills its memory, and which algorithm carries out each collective. Memory peaks are an
//! estimate: allocations and frees summed in program order, each op ended before the next begins.

mod documents;
mod machine;
mod ranges;
mod step;

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::command_line::EXAMPLE;
use super::outputs::WRITTEN;
use super::screen::note_without_effect;
use super::write::{write_file, write_json};
use super::{Failure, say, width};
use machine::MachineView;
use step::StepView;
use stepsim_fabric::topology::Machine;
use stepsim_measure::score::learned_rows::kernels_of;
use stepsim_simulate::Inputs;

/// Show what a workload and a machine expand to, without simulating.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim inspect                                     the built-in example: GPT-3 175B on 1,024 H100s
  stepsim inspect llama3-70b --set parallelism.tensor=4 --set parallelism.data=4
  stepsim inspect --topology gb200-nvl72              a machine alone
  stepsim inspect mine.json --topology switch:16,450,1 --report expanded.json
  stepsim inspect llama3-8b-fsdp --kernels kernels.jsonl     what to time on a device, for `stepsim learn`")]
pub struct Args {
    /// Workload: the name of a shipped one, or a file of ours or of training software
    /// [default: gpt3-175b, or none with --topology]
    workload: Option<String>,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
    /// [default: the one the workload names]
    #[arg(short, long)]
    topology: Option<String>,
    /// Change a field: `batch.global=768`, `topology.nodes=16`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// The rank whose groups are shown
    #[arg(long, default_value_t = 0, value_name = "RANK")]
    rank: u32,
    /// Also write what is shown as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
    /// Also write the step's kernels here, each shape once, as rows that wait for a time
    /// (`measure_device.py --kernels` takes it)
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    kernels: Option<PathBuf>,
}

/// Everything that is shown.
#[derive(Debug, Serialize)]
struct Inspection {
    machine: MachineView,
    #[serde(skip_serializing_if = "Option::is_none")]
    step: Option<StepView>,
}

/// Runs the command.
///
/// # Errors
/// Wrong input (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let inspection = match (&args.workload, &args.topology) {
        (None, Some(_)) if args.kernels.is_some() => {
            let hint = "stepsim inspect llama3-8b-fsdp --kernels";
            return Err(Failure::input(format!("--kernels needs a workload\n  hint: {hint}")));
        }
        (None, Some(topology)) => alone(topology, &args.sets)?,
        (name, topology) => {
            let name = name.as_deref().unwrap_or(EXAMPLE);
            let inputs = Inputs::load(name, topology.as_deref(), &args.sets)?;
            note_without_effect(&inputs.without_effect());
            let step = StepView::of(&inputs, args.rank)?;
            if let Some(path) = &args.kernels {
                write_kernels(&inputs, path)?;
            }
            Inspection { machine: MachineView::of(&inputs.topology, &inputs.machine), step: Some(step) }
        }
    };
    if let Some(path) = &args.report {
        write_json(path, &inspection)?;
    }
    let mut text = inspection.machine.text(width());
    if let Some(step) = &inspection.step {
        text.push('\n');
        text += &step.text(width());
    }
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    say(&(lines.join("\n") + "\n"))
}

/// Writes the kernels of a step as rows without times, one a line.
fn write_kernels(inputs: &Inputs, path: &Path) -> Result<(), Failure> {
    let (rows, wordless) = kernels_of(inputs).map_err(Failure::input)?;
    let mut text = String::new();
    for row in &rows {
        let mut row = serde_json::to_value(row).map_err(Failure::run)?;
        if let Some(columns) = row.as_object_mut() {
            columns.retain(|_, value| !value.is_null() && value != "");
        }
        let _ = writeln!(text, "{row}");
    }
    if wordless > 0 {
        eprintln!(
            "note: {wordless} kernels have no row and keep the prices of their work (losses, routers, scans)"
        );
    }
    if path == Path::new("-") { say(&text) } else { write_file(path, text.as_bytes()) }
}

/// A machine without a workload; `topology.` may be left out of settings then.
fn alone(topology: &str, sets: &[String]) -> Result<Inspection, Failure> {
    let sets: Vec<String> =
        sets.iter().map(|s| s.strip_prefix("topology.").unwrap_or(s).to_string()).collect();
    let (loaded, machine) = Machine::load(topology, &sets).map_err(Failure::input)?;
    Ok(Inspection { machine: MachineView::of(&loaded, &machine), step: None })
}
