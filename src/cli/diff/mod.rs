//! `stepsim diff`: two steps side by side, simulated or measured.

mod side;

use std::fmt::Write;
use std::path::PathBuf;

use super::command_line::command;
use super::outputs::WRITTEN;
use super::write::{write_file, write_json};
use super::{Failure, say, width};
use side::DiffSide;
use stepsim_core::units::Bytes;
use stepsim_measure::page::difference::page;
use stepsim_measure::profile::RankEvents;
use stepsim_measure::summary::{RankSummary, beside};
use stepsim_read::analysis::cost::joules_in_words;
use stepsim_read::analysis::diff::{Line, Measure, diff};
use stepsim_read::analysis::table;

/// Lines of a section that are shown; all are in --report.
const MOST: usize = 16;

/// Layers that are shown.
const MOST_LAYERS: usize = 6;

/// A stage or a layer is shown where something on it changed by so much of the step.
const SMALL: f64 = 0.001;

/// Compare two steps: reports, workloads to simulate, or profiles of real steps.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim diff a.json b.json                          reports that `stepsim run --report` wrote
  stepsim diff gpt3-175b gpt3-175b --set-b parallelism.pipeline.schedule=zb-h1 --set-b parallelism.pipeline.chunks=null
  stepsim diff profile.json.gz report.json            measured against simulated, by work of the kernels
  stepsim diff profile.json.gz timeline.json --html both.html   both over time, on a page
  stepsim diff a.json b.json --html both.html         a page

A side is the name of a shipped workload, a workload file, a report, or a profile (its first rank). What differs in the
inputs comes first. The lines of `mean of a rank` and of each stage add up to the step time, those of `from peak to MFU`
and MFU to 100 %.")]
pub struct Args {
    /// The first step
    a: String,
    /// The second step
    b: String,
    /// Change a field of the first workload: `batch.micro_batch=2`; repeatable
    #[arg(long, value_name = "PATH=VALUE")]
    set_a: Vec<String>,
    /// Change a field of the second workload; repeatable
    #[arg(long, value_name = "PATH=VALUE")]
    set_b: Vec<String>,
    /// Also write the comparison as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    report: Option<PathBuf>,
    /// Also write the comparison as a page here: .html, one file that opens in any browser
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    html: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// A side cannot be read or is none of the above (status 2); it does not run, or a file cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let (a, b) = (DiffSide::read(&args.a, &args.set_a)?, DiffSide::read(&args.b, &args.set_b)?);
    let lines = match (&a, &b) {
        (DiffSide::Simulated { report: a, .. }, DiffSide::Simulated { report: b, .. }) => diff(a, b),
        _ => beside(&summary(&a), &summary(&b)),
    };
    let different = a.differences(&b);
    if let Some(path) = &args.html {
        let measured: Vec<RankEvents> = [&a, &b].into_iter().filter_map(DiffSide::profile).cloned().collect();
        let names = [a.name(), b.name()];
        let text =
            page([&names[0], &names[1]], &lines, &different, &measured, &command()).map_err(Failure::run)?;
        write_file(path, text.as_bytes())?;
    }
    if let Some(path) = &args.report {
        write_json(path, &lines)?;
    }
    let mut out = format!("A: {}\nB: {}\n", a.name(), b.name());
    for difference in different {
        let _ = writeln!(out, "{difference}");
    }
    say(&(out + &sections(&lines, width())))
}

fn summary(side: &DiffSide) -> RankSummary {
    match side {
        DiffSide::Simulated { report, .. } => RankSummary::from(&**report),
        DiffSide::Measured { rank, .. } => RankSummary::from(&**rank),
    }
}

/// The lines as tables, one a section. Stages and layers on which nothing changed much are left out.
fn sections(lines: &[Line], width: u16) -> String {
    let step = lines.first().map_or(0.0, |l| l.a.max(l.b));
    let mut out = String::new();
    let mut alike = 0;
    for section in lines.chunk_by(|a, b| a.section == b.section) {
        let name = section[0].section.as_str();
        let part = name.starts_with("stage") || name == "layers";
        let mut shown: Vec<&Line> = section.iter().collect();
        if part {
            shown.retain(|l| l.change().abs() >= SMALL * step);
        }
        if shown.is_empty() {
            alike += usize::from(part);
            continue;
        }
        let most = match name {
            "step" | "mean of a rank" => shown.len(),
            "layers" => MOST_LAYERS,
            _ => MOST,
        };
        shown.sort_by(|a, b| match name {
            "step" => std::cmp::Ordering::Equal,
            _ => b.change().abs().total_cmp(&a.change().abs()),
        });
        let rest = shown.len().saturating_sub(most);
        shown.truncate(most);
        let head = [name, "A", "B", "B − A", "change"].map(String::from).to_vec();
        let mut rows = table::new_table(width, head);
        shown.into_iter().for_each(|line| {
            rows.add_row(row(line));
        });
        let _ = writeln!(out, "\n{rows}");
        if rest > 0 {
            let _ = writeln!(out, "  and {rest} more that changed less");
        }
    }
    if alike > 0 {
        let _ =
            writeln!(out, "\n{alike} stages or tables of layers changed by less than {} %", 100.0 * SMALL);
    }
    out
}

fn row(line: &Line) -> [String; 5] {
    let sign = if line.change() < 0.0 { "−" } else { "+" };
    let (difference, change) = match line.change() {
        0.0 => ("·".to_string(), "·".to_string()),
        d if line.a == 0.0 => (format!("{sign}{}", show(d.abs(), line.unit)), "new".to_string()),
        d => (format!("{sign}{}", show(d.abs(), line.unit)), format!("{:+.1} %", 100.0 * d / line.a)),
    };
    [line.what.clone(), show(line.a, line.unit), show(line.b, line.unit), difference, change]
}

fn show(value: f64, unit: Measure) -> String {
    match unit {
        Measure::Seconds => table::seconds(value),
        Measure::Bytes => Bytes(value.round() as u64).to_string(),
        Measure::TokensPerSecond => format!("{value:.0}"),
        Measure::Fraction => table::percent(value),
        Measure::Count => format!("{}", (value * 10.0).round() / 10.0),
        Measure::Dollars => format!("{value:.4} $"),
        Measure::Joules => joules_in_words(value),
        Measure::Watts => format!("{value:.0} W"),
    }
}
