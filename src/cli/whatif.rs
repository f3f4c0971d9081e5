//! `stepsim whatif`: what could be otherwise, and what a change that is named would make of the step.

use std::fmt::Write;
use std::path::PathBuf;

use super::outputs::WRITTEN;
use super::progress::TerminalProgress;
use super::screen::note_without_effect;
use super::write::write_report;
use super::{Failure, outputs, say, width};
use stepsim_core::units::Time;
use stepsim_read::analysis::table::{new_table, percent};
use stepsim_simulate::jump::glanced;
use stepsim_simulate::page::sheet::quoted;
use stepsim_simulate::whatif::{Change, Subject, WhatIf, WhatIfBase, WhatIfs};
use stepsim_simulate::{Inputs, Options};
use stepsim_spec::{SpecError, Topology};
use stepsim_study::otherwise::{self, Depth, FORM_ERROR};

/// Say what could be otherwise and what it would make of the step.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim whatif gpt3-175b                                   all that could be otherwise, each played
  stepsim whatif gpt3-175b --choices                         the choices beside those made, and the best together
  stepsim whatif gpt3-175b --scale nic=2 --scale memory=1.5  two at once
  stepsim whatif gpt3-175b --without bubble                  no rank waits for another stage

Every step is a run: where a field makes the change, `how` has the setting, and `stepsim run` with it takes that
long.")]
pub struct Args {
    /// Workload: the name of a shipped one, or a file of ours or of training software
    workload: String,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1`
    /// [default: the one the workload names]
    #[arg(short, long)]
    topology: Option<String>,
    /// Change a field first: `batch.global=768`, `topology.nodes=16`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// A resource and its factor in speed (latency: in length): matrix, memory, latency, host, `rank.0-3`, a class of
    /// links or kernels; repeatable
    #[arg(long, value_name = "WHAT=FACTOR")]
    scale: Vec<String>,
    /// Take away what costs time, or deal it out evenly: tp, cp, ep, pp, dp, h2d, d2h, exposed, bubble, imbalance,
    /// stage.N (levelled to the others), tail, stragglers, jitter, slow-links, experts, documents, images,
    /// device-classes, recomputation, interference, full-tier, host, a class of links or kernels; repeatable
    #[arg(long, value_name = "WHAT")]
    without: Vec<String>,
    /// Only the choices beside those that the workload makes, and the best of them together
    #[arg(long, conflicts_with_all = ["scale", "without"])]
    choices: bool,
    /// Threads [default: one a processor]
    #[arg(long, value_name = "N", value_parser = crate::asked::whole::<u16>(1..=u16::MAX.into()))]
    threads: Option<u16>,
    /// Write the result as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The input or a change is wrong (status 2); the step does not run, or a file cannot be written.
pub fn run(args: &Args) -> Result<(), Failure> {
    let inputs = Inputs::load(&args.workload, args.topology.as_deref(), &args.sets)?;
    outputs::apart(&[("--report", args.report.as_deref())], &inputs.files())?;
    let machine = &inputs.topology.value;
    let mut asked: Vec<Change> = args.scale.iter().map(|s| scale(s, machine)).collect::<Result<_, _>>()?;
    for name in &args.without {
        asked.push(without(name, machine)?);
    }
    let options = Options { threads: args.threads.map(usize::from), ..Options::default() };
    let result = match asked.as_slice() {
        [] => all(&inputs, &options, args.choices)?,
        asked => named(&inputs, options, asked)?,
    };
    write_report(args.report.as_deref(), &result)?;
    note_without_effect(&inputs.without_effect());
    say(&table(&result))
}

/// Changes that were named, each by itself and all together.
fn named(inputs: &Inputs, options: Options, asked: &[Change]) -> Result<WhatIfs, Failure> {
    let base = WhatIfBase::new(inputs, options)?;
    let mut result = base.each(asked)?;
    if asked.len() > 1 {
        result.changes.push(base.with(asked)?);
    }
    Ok(result)
}

/// All candidates, or choices alone.
fn all(inputs: &Inputs, options: &Options, choices: bool) -> Result<WhatIfs, Failure> {
    let report = glanced(inputs, options)?;
    let bar = TerminalProgress::new("playing what could be otherwise");
    let depth = if choices { Depth::Choices } else { Depth::All };
    let report = otherwise::answer(inputs, options, report, depth)?;
    bar.done();
    let result = WhatIfs::of(report);
    Ok(if choices { WhatIfs { answer: None, ..result } } else { result })
}

fn scale(text: &str, machine: &Topology) -> Result<Change, SpecError> {
    let argument = || format!("--scale {text}");
    let (name, by) = text.split_once('=').ok_or_else(|| {
        SpecError::file(argument(), "is no name with a factor").allowed("WHAT=FACTOR, like `nic=2`")
    })?;
    let subject = Subject::rate(name, machine).ok_or_else(|| {
        SpecError::file(argument(), format!("`{name}` is no resource of this machine"))
            .allowed(Subject::rates(machine).join(", "))
    })?;
    let number = by
        .parse()
        .map_err(|_| SpecError::file(argument(), format!("`{by}` is no number")).allowed("0.001 to 1000"))?;
    Ok(Change { subject, factor: factor(&argument(), number)? })
}

fn factor(argument: &str, factor: f64) -> Result<f64, SpecError> {
    match (0.001..=1000.0).contains(&factor) {
        true => Ok(factor),
        false => Err(SpecError::file(argument, format!("{factor} is not allowed")).allowed("0.001 to 1000")),
    }
}

fn without(name: &str, machine: &Topology) -> Result<Change, SpecError> {
    Subject::without(name, machine).ok_or_else(|| {
        SpecError::file(format!("--without {name}"), "no cost of time has this name")
            .allowed(Subject::costs(machine).join(", "))
    })
}

fn table(result: &WhatIfs) -> String {
    let step = Time::from_s(result.step_time_s);
    let head = format!("{} on {}: step {step}", result.workload, result.topology);
    let rows = if result.changes.is_empty() { candidates(result) } else { changes(result) };
    let answer = result.answer.as_ref().map_or(String::new(), |answer| format!("{}\n", answer.hangs_on));
    format!("{answer}{head}\n{rows}\n")
}

fn changes(result: &WhatIfs) -> String {
    let mut rows = new_table(width(), ["what if", "step", "change"].map(String::from).to_vec());
    let signed = |x: f64| if x == 0.0 { "·".to_string() } else { format!("{:+.2} %", 100.0 * x) };
    for WhatIf { what, step_time_s, change } in &result.changes {
        rows.add_row([what.clone(), Time::from_s(*step_time_s).to_string(), signed(*change)]);
    }
    rows.to_string()
}

/// Candidates with their settings below, those without a field by their name.
fn candidates(result: &WhatIfs) -> String {
    let left_out = match result.candidates_left_out {
        0 => String::new(),
        n => format!("\n{n} choices were not played: in closed form over {} % longer", 100.0 * FORM_ERROR),
    };
    if result.candidates.is_empty() {
        return format!("no change makes the step shorter{left_out}");
    }
    let heads = ["what", "otherwise", "step", "less", "itself", "others wait", "memory"];
    let mut rows = new_table(width(), heads.map(String::from).to_vec());
    let share = |s: f64| percent(s / result.step_time_s);
    for c in &result.candidates {
        let memory = c.memory_peak_bytes.map_or(String::new(), |b| format!("{:.1} GiB", b as f64 / GIB));
        let step = Time::from_s(c.step_s).to_string();
        let [less, own, induced] = [c.cost_s(), c.own_s, c.induced_s].map(share);
        rows.add_row([c.what.clone(), c.otherwise.clone(), step, less, own, induced, memory]);
    }
    let mut out = format!("{rows}\n\nHow\n");
    for c in &result.candidates {
        let _ = writeln!(out, "  {}; {}:  {}", c.what, c.otherwise, c.arguments(quoted));
    }
    format!("{}{left_out}", out.trim_end())
}

const GIB: f64 = (1u64 << 30) as f64;
