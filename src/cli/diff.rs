//! `stepsim diff`: two reports side by side.

use std::path::{Path, PathBuf};

use super::{Failure, run::write_json, say, width};
use crate::analysis::diff::{diff, diff_table};
use crate::analysis::report::Report;

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
    #[arg(long, value_name = "FILE")]
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
    let text = std::fs::read_to_string(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    let mut json = serde_json::Deserializer::from_str(&text);
    serde_path_to_error::deserialize(&mut json).map_err(|e| {
        let at = e.path().to_string();
        let place = if at == "." { String::new() } else { format!("at `{at}`: ") };
        wrong(format!("{place}{}", e.inner()))
    })
}
