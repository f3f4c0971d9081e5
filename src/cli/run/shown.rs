//! What `run` says of itself and of its results.

use super::super::{Failure, say, width};
use super::args::Args;
use crate::cli::command_line::command;
use crate::lab::simulate::Head;
use crate::read::analysis::report::Report;
use crate::read::analysis::table::table;
use crate::read::analysis::waterfall_table;

/// The head of a report with what only the command line knows.
pub(in crate::cli) fn head(args: &Args, of_inputs: Head) -> Head {
    Head {
        stepsim: env!("CARGO_PKG_VERSION").to_string(),
        command: command(),
        settings: args.sets.clone(),
        seed: args.seed,
        ..of_inputs
    }
}

pub(in crate::cli) fn print(report: &Report, args: &Args) -> Result<(), Failure> {
    let mut text = table(report, width());
    if args.why {
        waterfall_table::full(&mut text, report, width());
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if let Some(path) = &args.output {
        text += &format!("timeline: {} (open it at ui.perfetto.dev)\n", path.display());
    } else if args.workload.is_none() {
        text += "add `-o step.pftrace` for a timeline; `stepsim run --help` for more\n";
    }
    say(&text)
}
