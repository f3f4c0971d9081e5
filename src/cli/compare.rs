//! `stepsim compare`: the closed form beside the simulation.

use std::path::PathBuf;

use super::command_line::EXAMPLE;
use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::screen::note_without_effect;
use super::write::write_report;
use super::{Failure, calculon, outputs, say};
use stepsim_form::compare;
use stepsim_form::compare::{Estimators, Formula, FormulaReading, table};
use stepsim_simulate::Inputs;

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
    /// A formula to hold beside both: calculon, megatron-3d, pipeline-bubbles, scaling-book, or a file of
    /// yours
    #[arg(long, value_name = "FORMULA")]
    form: Option<PathBuf>,
    /// Write both sides' terms, own error, effects and rest as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// Wrong input (status 2); a run that fails or a file that cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    if let Some(case) = calculon::case(args.workload.as_deref(), &args.calculon)? {
        // `--form calculon` says what stands there anyway.
        let form = args.form.as_ref().filter(|form| form.as_os_str() != "calculon");
        if form.is_some() || args.topology.is_some() || !args.sets.is_empty() {
            return Err(Failure::input(
                "--form, --topology and --set are for a workload: `stepsim import calculon` makes one of \
                 Calculon's files",
            ));
        }
        return calculon::beside(&case, args.report.as_deref());
    }
    let name = args.workload.as_deref().unwrap_or(EXAMPLE);
    let formula = args.form.as_deref().map(|form| Formula::load(&form.to_string_lossy())).transpose()?;
    let inputs = Inputs::load(name, args.topology.as_deref(), &args.sets)?;
    let bar = TerminalProgress::new("comparing");
    let compared = compare::workload::compare(&inputs, &mut |ops| bar.at(ops));
    bar.done();
    let (mut comparison, run) = compared?;
    if let Some(formula) = &formula {
        let simulated = (comparison.simulated_s, comparison.terms.as_slice());
        let read = FormulaReading::new(formula, &Estimators::default(), &run.inputs, simulated)?;
        comparison.formula = Some(read);
    }
    note_without_effect(&run.inputs.without_effect());
    outputs::apart(&[("--report", args.report.as_deref())], &run.inputs.files())?;
    write_report(args.report.as_deref(), &comparison)?;
    say(&table(&comparison))
}
