//! The lines of `run` about itself and its results.

use super::super::screen::say_report;
use super::super::{Failure, width};
use super::args::Args;
use crate::command_line::{EXAMPLE, command};
use stepsim_read::analysis::digest::{ReadingContext, digest};
use stepsim_read::analysis::report::Report;
use stepsim_read::analysis::table::{in_full, table};
use stepsim_simulate::page::sheet::quoted;
use stepsim_simulate::{Head, Inputs};

/// The head of a report with what only the command line knows.
pub(crate) fn head(args: &Args, of_inputs: Head) -> Head {
    Head {
        stepsim: env!("CARGO_PKG_VERSION").to_string(),
        command: command(),
        settings: args.sets(),
        seed: args.seed(),
        ..of_inputs
    }
}

/// Prints a report: on one screen, or with --full and --why whole.
pub(crate) fn print(report: &Report, inputs: Option<&Inputs>, args: &Args) -> Result<(), Failure> {
    let whole = args.full || args.why;
    let own = inputs.map_or(&[][..], |inputs| &inputs.readings);
    let mut text = if whole {
        table(report, own, width())
    } else {
        let whatif = inputs.map(|_| whatif(args));
        digest(report, own, ReadingContext { whatif: whatif.as_deref() }, width())
    };
    if args.why {
        text += &in_full(report, own, width());
    }
    if !text.ends_with('\n') {
        text.push('\n');
    }
    if let Some(path) = &args.output {
        text += &format!("timeline: {} (open it at ui.perfetto.dev)\n", path.display());
    } else if args.workload.is_none() {
        text += "add `-o step.pftrace` for a timeline; `stepsim run --help` for more\n";
    }
    if !whole {
        text += "All tables: --full   bar by bar: --why   a page: --html step.html\n";
    }
    say_report(&text)
}

/// The command that changes one thing of the same step.
fn whatif(args: &Args) -> String {
    let mut words = vec!["stepsim whatif".to_string()];
    words.push(args.workload.clone().unwrap_or_else(|| EXAMPLE.into()));
    let mut add = |option: &str, value: &str| words.push(format!("{option} {}", quoted(value)));
    args.topology.iter().for_each(|name| add("-t", name));
    args.sets().iter().for_each(|set| add("--set", set));
    words.join(" ")
}
