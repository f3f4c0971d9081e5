//! `stepsim compare`: the closed form beside the simulation.

use std::path::PathBuf;

use super::command_line::{EXAMPLE, command};
use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::screen::note_without_effect;
use super::timeline::{Also, TimelineSelection, traced, write_trace};
use super::write::{write_page, write_report};
use super::{Failure, calculon, outputs, say};
use stepsim_form::compare;
use stepsim_form::compare::tracks::TrackContents;
use stepsim_form::compare::{Estimators, Formula, FormulaReading, RankDrawing, table};
use stepsim_read::trace::{RunMeta, TimelineFormat};
use stepsim_simulate::Inputs;
use stepsim_simulate::behaviour::DrawnRank;

/// Compare the closed form of a step with its simulation.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim compare gpt3-175b
  stepsim compare llama3-8b-fsdp --set batch.global=512 --report compare.json
  stepsim compare llama3-70b --form megatron-3d
  stepsim compare app.json exe.json sys.json     Calculon's own arithmetic beside the same step, simulated
  stepsim compare gpt3-175b --form mine.json     a formula of your own:
    {\"name\": \"mine\", \"terms\": {\"bubble\": \"(pipeline - 1) * (forward_s + backward_s)\"}}

Own error is an effect that the closed form has a term for and gets wrong; effects have no term; the rest is
explained by no single switch. Each is the difference of two simulations that differ in one switch, less the form's
difference; they add up exactly to simulation minus closed form.")]
pub struct Args {
    /// Workload: the name of a shipped one, or a file of ours or of training software [default: gpt3-175b]; or
    /// Calculon's application, with its two other files behind it
    workload: Option<String>,
    /// Calculon's execution and system, behind its application: its own arithmetic
    #[arg(value_names = ["EXECUTION", "SYSTEM"], num_args = 2)]
    calculon: Vec<String>,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
    /// [default: the one the workload names]
    #[arg(short, long)]
    topology: Option<String>,
    /// Change a field: `batch.global=768`, `topology.nodes=16`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// A formula to hold beside both: calculon, megatron-3d, pipeline-bubbles, scaling-book, or a file of yours:
    /// .json, .csv
    #[arg(long, value_name = "FORMULA")]
    form: Option<PathBuf>,
    /// Write both sides' terms, own error, effects and rest as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
    /// Write a page with the terms, own error, effects and rest here: .html
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    html: Option<PathBuf>,
    /// Write a timeline with the closed form's terms under the simulated rank: .json, .json.gz, .pftrace, .pftrace.gz
    #[arg(short = 'o', long = "output", alias = "trace", value_name = "TRACE", help_heading = WRITTEN)]
    trace: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Wrong input (status 2); a run that fails or a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(path) = &args.trace {
        TimelineFormat::of(path).map_err(Failure::input)?;
    }
    if let Some(case) = calculon::case(args.workload.as_deref(), &args.calculon)? {
        // `--form calculon` says what stands there anyway.
        let form = args.form.clone().filter(|form| form.as_os_str() != "calculon");
        let asked = [&args.trace, &args.html, &form].map(Option::is_some);
        if asked.contains(&true) || args.topology.is_some() || !args.sets.is_empty() {
            return Err(Failure::input(
                "--output, --html, --form, --topology and --set are for a workload: `stepsim import calculon` makes \
                 one of Calculon's files",
            ));
        }
        return calculon::beside(&case, args.report.as_deref());
    }
    let (comparison, drawing) = workload(args)?;
    write_report(args.report.as_deref(), &comparison)?;
    write_page(args.html.as_deref(), || compare::page(&comparison, drawing, &command()))?;
    say(&table(&comparison))
}

/// Both sides, and the simulated rank over time where a page is asked for.
fn workload(args: &Args) -> Result<(compare::Comparison, Option<RankDrawing>), Failure> {
    let name = args.workload.as_deref().unwrap_or(EXAMPLE);
    let formula = args.form.as_deref().map(|form| Formula::load(&form.to_string_lossy())).transpose()?;
    let inputs = Inputs::load(name, args.topology.as_deref(), &args.sets)?;
    let bar = TerminalProgress::new("comparing");
    let compared = compare::workload::compare(&inputs, &mut |ops| bar.at(ops));
    bar.done();
    let (mut comparison, run, rank) = compared?;
    if let Some(formula) = &formula {
        let simulated = (comparison.simulated_s, comparison.terms.as_slice());
        let read = FormulaReading::new(formula, &Estimators::default(), &run.inputs, simulated)?;
        comparison.formula = Some(read);
    }
    note_without_effect(&run.inputs.without_effect());
    let written = [("--output", args.trace.as_deref()), ("--report", args.report.as_deref())];
    outputs::apart(&written, &run.inputs.files())?;
    if let Some(path) = &args.trace {
        let mut meta = RunMeta::default();
        meta.text("stepsim", env!("CARGO_PKG_VERSION"));
        meta.text("workload", &run.inputs.workload.name);
        meta.text("topology", &run.inputs.topology.name);
        meta.number("step time ms", comparison.simulated_s * 1e3);
        meta.number("closed form ms", comparison.closed_form_s * 1e3);
        let mut ranks = traced(Some("stages"), &run)?;
        if !ranks.iter().any(|drawn| drawn.rank == rank) {
            ranks.splice(0..0, DrawnRank::asked([rank]));
        }
        let rows = TrackContents { of: Some(&comparison), rank: &comparison.rank };
        write_trace(&run, &meta, &TimelineSelection::of(&ranks), path, Also::ClosedForm(rows))?;
    }
    let drawing = args.html.as_ref().map(|_| RankDrawing::of(&run, rank));
    Ok((comparison, drawing))
}
