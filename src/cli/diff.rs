//! `stepsim diff`: two reports side by side.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use super::outputs::WRITTEN;
use super::{Failure, run::write_json, say, width};
use crate::analysis::diff::{Unit, diff};
use crate::analysis::report::Report;
use crate::analysis::table;
use crate::spec::{Disk, Files};
use crate::units::Bytes;

/// Compare two reports that `stepsim run --report` wrote.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  stepsim run gpt3-175b --report a.json
  stepsim run gpt3-175b --set parallelism.pipeline.schedule=zb-h1 --set parallelism.pipeline.chunks=null --report b.json
  stepsim diff a.json b.json

The lines `compute` and `stall: …` are means over all ranks; they add up to the step time.")]
pub struct Args {
    /// The first report
    a: PathBuf,
    /// The second report
    b: PathBuf,
    /// Also write the comparison as JSON here
    #[arg(long, value_name = "FILE", help_heading = WRITTEN)]
    json: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// A file cannot be read or is no report (status 2); a file cannot be written (status 1).
pub fn run(args: &Args) -> Result<(), Failure> {
    let (a, b) = (read(&args.a)?, read(&args.b)?);
    if let Some(path) = &args.json {
        write_json(path, &diff(&a, &b))?;
    }
    say(&diff_table(&a, &b, width()))
}

fn read(path: &Path) -> Result<Report, Failure> {
    let wrong = |problem: String| {
        Failure::input(format!(
            "{}: {problem}\n  allowed: a report as `stepsim run --report FILE.json` writes it",
            path.display()
        ))
    };
    let text = Disk.read(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    let mut json = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let at = e.path().to_string();
        let place = if at == "." { String::new() } else { format!("at `{at}`: ") };
        wrong(format!("{place}{}", e.inner()))
    })
}

/// The comparison as text of at most `width` columns.
fn diff_table(a: &Report, b: &Report, width: u16) -> String {
    let head = ["", "A", "B", "B − A", "change"].map(String::from).to_vec();
    let mut rows = table::new_table(width, head);
    for line in diff(a, b) {
        let change = match line.a {
            0.0 => "new".to_string(),
            from => format!("{:+.1} %", 100.0 * line.change() / from),
        };
        let sign = if line.change() < 0.0 { "−" } else { "+" };
        let difference = match line.change() {
            0.0 => "·".to_string(),
            d => format!("{sign}{}", show(d.abs(), line.unit)),
        };
        let change = if line.change() == 0.0 { "·".to_string() } else { change };
        rows.add_row([
            line.what.clone(),
            show(line.a, line.unit),
            show(line.b, line.unit),
            difference,
            change,
        ]);
    }
    let mut out = String::new();
    let _ = writeln!(out, "A: {} on {}\nB: {} on {}", a.workload, a.topology, b.workload, b.topology);
    for (what, in_a, in_b) in a.run.differences(&b.run) {
        let _ = writeln!(out, "{what}: {in_a} -> {in_b}");
    }
    let _ = writeln!(out, "{rows}");
    out
}

fn show(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => table::seconds(value),
        Unit::Bytes => Bytes(value.round() as u64).to_string(),
        Unit::TokensPerSecond => format!("{value:.0}"),
        Unit::Fraction => table::percent(value),
        Unit::Count => format!("{value}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::report::tests::of_random;

    #[test]
    fn the_table_names_both() {
        let (a, b) = (of_random(5, |_| 1), of_random(8, |_| 3));
        let text = diff_table(&a, &b, 100);
        assert!(text.starts_with("A: a workload on a machine\nB: a workload"));
        assert!(text.contains("step time"));
    }
}
