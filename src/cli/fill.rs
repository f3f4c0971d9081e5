//! `stepsim fill`: what a step must give up so that it fits.

use super::asked::LayoutOptions;
use super::progress::TerminalProgress;
use super::tables::gib;
use super::{Failure, say, width};
use stepsim_read::analysis::table::new_table;
use stepsim_study::{FillReport, fill};

/// Find the least recomputation or offload with which a step fits, and the largest micro-batch.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The layout is the workload's own; its recomputation, and the places of its activations and optimizer state, do not
count. For each micro-batch, smallest first, the step is played as it is. Where it does not fit, one thing is given
up, as little of it as will do: recomputation (selective, or of some layers of each stage), or eighths of the
activations or of the optimizer state, which then live on another tier of the machine. Where none of these is
enough, one is given up whole and another as little as will do. Settings of --fix are not turned.

Examples:
  stepsim fill llama3-70b
  stepsim fill llama3-70b --max-memory 40 --fix offload.optimizer=[]
  stepsim fill examples/qwen2.5-72b.json --fix batch.micro_batch=2 -o fits.json")]
pub struct Args {
    /// Workload: the name of a shipped one, or a file of ours or of training software
    workload: String,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
    /// [default: the one the workload names]
    #[arg(short, long)]
    topology: Option<String>,
    #[command(flatten)]
    asked: LayoutOptions,
}

/// Runs the command.
///
/// # Errors
/// Wrong input, or nothing fits (status 2); a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let topology = args.topology.as_deref();
    args.asked.check_outputs(&args.workload, topology)?;
    let found = TerminalProgress::over("simulated", |tell| {
        fill(&args.workload, topology, &args.asked.options(), tell)
    });
    let (report, best) = found.map_err(Failure::input)?;
    args.asked.write_report(&report)?;
    let Some(best) = best else {
        let why = report.refused.clone().unwrap_or_else(|| {
            format!("nothing fits, in {} steps: cut it among more devices", report.simulated)
        });
        return Err(Failure::input(why));
    };
    let sets = report.fits.first().map_or(&[][..], |first| &first.sets);
    args.asked.write_best(best, topology, sets)?;
    say(&text(&report))
}

/// The steps that fit, and the settings that turn the workload into the first.
fn text(report: &FillReport) -> String {
    let mut text = format!(
        "{} on {} ({} devices): the largest micro-batch that fits is {}; {} steps simulated\n\n",
        report.workload,
        report.topology,
        report.devices,
        report.largest_micro_batch.unwrap_or_default(),
        report.simulated,
    );
    let mut table =
        new_table(width(), ["given up", "micro-batch", "memory", "MFU", "step"].map(String::from).to_vec());
    for filled in &report.fits {
        let outcome = &filled.outcome;
        table.add_row([
            filled.gives_up.clone().unwrap_or_else(|| "nothing".to_string()),
            filled.micro_batch.to_string(),
            format!("{:.1} GiB", gib(outcome.memory_peak_bytes.unwrap_or_default() as f64)),
            format!("{:.1} %", 100.0 * outcome.mfu.unwrap_or_default()),
            format!("{:.4} s", outcome.step_time_s.unwrap_or_default()),
        ]);
    }
    text += &format!("{table}\n\nthe first:\n");
    for set in report.fits.iter().take(1).flat_map(|first| &first.sets) {
        let quote = if set.contains(['{', '[', '"', ' ']) { "'" } else { "" };
        text += &format!("  --set {quote}{set}{quote}\n");
    }
    text
}
