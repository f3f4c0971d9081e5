//! `stepsim whatif`: what a faster resource, or the absence of a cost, would buy.

mod page;

use std::fmt::Write;
use std::path::PathBuf;

use super::outputs::WRITTEN;
use super::screen::note_without_effect;
use super::write::{write_page, write_report};
use super::{Failure, outputs, say, width};
use stepsim_core::units::Time;
use stepsim_read::analysis::table::{new_table, percent};
use stepsim_simulate::whatif::{Base, Change, Parts, Subject, WhatIf, WhatIfs};
use stepsim_simulate::{Inputs, Options};
use stepsim_step::spec::{SpecError, Topology};

/// Say what a faster resource, or the absence of a cost, would buy.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim whatif gpt3-175b                                   what 10 % on each resource buys, by simulation
  stepsim whatif gpt3-175b --scale nic=2 --scale memory=1.5  two at once
  stepsim whatif gpt3-175b --without bubble                  no rank waits for another stage
  stepsim whatif gpt3-175b --html whatif.html                a page: every change as a bar

`path` is the time that the critical path of the unchanged step spends on the resource, `foretold` what that promises to
first order. Where simulation and promise part, `*` says that the path became another, `+` that its ops are bound by other
things too.")]
pub struct Args {
    /// Workload: the name of a shipped one, or a file of ours or of training software
    workload: String,
    /// Machine: a count and a name (`64xh100`), a name, a path, or a simple one like `switch:8,450,1` [default: the one the workload names]
    #[arg(short, long)]
    topology: Option<String>,
    /// Change a field first: `batch.global=768`, `topology.nodes=16`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// A resource so many times as fast (latency: as long): matrix, memory, latency, host, `rank.0-3`, a class of links or
    /// kernels; repeatable
    #[arg(long, value_name = "WHAT=FACTOR")]
    scale: Vec<String>,
    /// Take away what costs time: tp, cp, ep, pp, dp, h2d, d2h, exposed, bubble, imbalance, stage.N (levelled to the others), tail,
    /// stragglers, jitter, slow-links, recomputation, interference, full-tier, host, a class of links or kernels; repeatable
    #[arg(long, value_name = "WHAT")]
    without: Vec<String>,
    /// How much faster each resource is in the table of all
    #[arg(long, default_value_t = 1.1, value_name = "FACTOR")]
    by: f64,
    /// Write the result as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
    /// Write the result as a page here: .html, one file that opens in any browser
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    html: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// The input or a change is wrong (status 2); the step does not run, or a file cannot be written.
pub fn run(args: &Args) -> Result<(), Failure> {
    let inputs = Inputs::load(&args.workload, args.topology.as_deref(), &args.sets)?;
    let written = [("--report", args.report.as_deref()), ("--html", args.html.as_deref())];
    outputs::apart(&written, &inputs.files())?;
    let machine = &inputs.topology.value;
    let by = factor("--by", args.by)?;
    let mut asked: Vec<Change> = args.scale.iter().map(|s| scale(s, machine)).collect::<Result<_, _>>()?;
    for name in &args.without {
        asked.push(without(name, machine)?);
    }
    let base = Base::new(&inputs, Options::default())?;
    let mut result = base.each(if asked.is_empty() { base.all(by) } else { asked.clone() }.as_slice())?;
    if asked.len() > 1 {
        result.changes.push(base.with(&asked)?);
    }
    write_report(args.report.as_deref(), &result)?;
    write_page(args.html.as_deref(), || page::page(&result, &inputs.head(Options::default().seed)))?;
    note_without_effect(&inputs.without_effect());
    say(&table(&result))
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
        SpecError::file(format!("--without {name}"), "nothing of this name costs time")
            .allowed(Subject::costs(machine).join(", "))
    })
}

fn table(result: &WhatIfs) -> String {
    let head = ["what if", "step", "change", "on the path", "foretold", ""];
    let mut rows = new_table(width(), head.map(String::from).to_vec());
    let time = |s: f64| Time::from_s(s).to_string();
    let signed = |x: f64| if x == 0.0 { "·".to_string() } else { format!("{:+.2} %", 100.0 * x) };
    let row = |w: &WhatIf| {
        let parts = match w.parts {
            Some(Parts::PathChanged) => "*",
            Some(Parts::BoundByMore) => "+",
            None => "",
        };
        [
            w.what.clone(),
            time(w.step_time_s),
            signed(w.change),
            w.path_s.map_or(String::new(), |s| percent(s / result.step_time_s)),
            w.foretold.map_or(String::new(), signed),
            parts.to_string(),
        ]
    };
    result.changes.iter().for_each(|w| {
        rows.add_row(row(w));
    });
    let mut out = String::new();
    let step = time(result.step_time_s);
    let _ = writeln!(out, "{} on {}: step {step}\n{rows}", result.workload, result.topology);
    let has = |parts| result.changes.iter().any(|w| w.parts == Some(parts));
    if has(Parts::PathChanged) {
        out += "* the critical path became another\n";
    }
    if has(Parts::BoundByMore) {
        out += "+ the path is the same, and its ops are bound by other things too\n";
    }
    out
}
