//! `stepsim import megatron ... maxtext`: an argument or recipe file as a workload, and what became of each argument.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{ArgMatches, Args as _, Command, FromArgMatches};

use super::super::outputs::WRITTEN;
use super::super::{Failure, say};
use crate::write::{write_json, write_report};
use stepsim_bring::describe::{model_named, model_of_word};
use stepsim_bring::import;
use stepsim_bring::imports::{Argument, Beside, FormatTable, Import, Invocation, Status};
use stepsim_simulate::Inputs;

/// The arguments.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file; `-` is the standard input
    file: PathBuf,
    /// The model: a name (`stepsim list models`, `list names`), or the path of a model file or config.json
    /// [default: what the file says]
    #[arg(long)]
    model: Option<String>,
    /// Devices of the job [default: what the file says]
    #[arg(long, value_name = "N", value_parser = crate::asked::whole::<u64>(1..=1 << 24))]
    devices: Option<u64>,
    /// The machine: it is written into the workload, which must fit it
    #[arg(short, long)]
    topology: Option<String>,
    /// A field of the workload that the file does not say: `model.vocabulary=50304`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// Write the workload here; without it the workload goes to the standard output
    #[arg(short, long, value_name = "WORKLOAD.json", help_heading = WRITTEN)]
    output: Option<PathBuf>,
    /// Write what became of each argument here as JSON
    #[arg(long, value_name = "FILE.json", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// A command for each format that has a table.
#[derive(Debug)]
pub struct FormatImport {
    pub format: &'static str,
    pub args: Args,
}

impl clap::Subcommand for FormatImport {
    /// Tables are read where `import` is asked for, not by every command.
    fn augment_subcommands(command: Command) -> Command {
        command.defer(with_formats)
    }
    fn augment_subcommands_for_update(command: Command) -> Command {
        FormatImport::augment_subcommands(command)
    }
    fn has_subcommand(name: &str) -> bool {
        FormatTable::all().contains_key(name)
    }
}

fn with_formats(command: Command) -> Command {
    FormatTable::all().iter().fold(command, |command, (format, table)| {
        let mut about = format!("{} as a workload", table.words);
        about[..1].make_ascii_uppercase();
        let long = format!("{about}\n\n{}", table.description);
        command.subcommand(Args::augment_args(Command::new(*format)).about(about).long_about(long))
    })
}

impl FromArgMatches for FormatImport {
    fn from_arg_matches(matches: &ArgMatches) -> Result<FormatImport, clap::Error> {
        let (format, words) = matches
            .subcommand()
            .and_then(|(name, words)| Some((*FormatTable::all().get_key_value(name)?.0, words)))
            .ok_or_else(|| clap::Error::new(ErrorKind::MissingSubcommand))?;
        Ok(FormatImport { format, args: Args::from_arg_matches(words)? })
    }
    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = FormatImport::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the command for one format.
///
/// # Errors
/// A wrong file, or one that makes no workload (status 2); a file that cannot be written (status 1).
pub fn run(format: &str, args: &Args) -> Result<(), Failure> {
    let file = args.file.display().to_string();
    let path = &Invocation::of(&file).file;
    let text = crate::inputs::text(Path::new(path))?;
    let beside = Beside {
        model: args.model.as_deref().map(model_of_word),
        devices: args.devices,
        topology: args.topology.clone(),
        sets: args.sets.clone(),
        models: Some(model_named),
        ..Beside::default()
    };
    let made = import(format, &text, &file, &beside)?;
    if args.topology.is_some() {
        Inputs::load(&made.workload.to_string(), None, &[]).map_err(|e| e.in_file(&file))?;
    }
    write_report(args.report.as_deref(), &made)?;
    match &args.output {
        Some(path) => {
            write_json(path, &made.workload)?;
            say(&(summary(&made) + &format!("wrote {0}\nnext: stepsim inspect {0}\n", path.display())))
        }
        None if args.report.is_some() => say(&summary(&made)),
        None => {
            let text =
                serde_json::to_string_pretty(&made.workload).map_err(|e| Failure::run(e.to_string()))?;
            say(&format!("{text}\n"))
        }
    }
}

/// How many arguments were taken, what followed, and each that matters and has no counterpart.
fn summary(made: &Import) -> String {
    let count = |status| made.of(status).count();
    let mut out = format!(
        "{}: {} arguments: {} taken, {} without effect on a step, {} not given\n",
        made.format,
        made.arguments.len(),
        count(Status::Taken),
        count(Status::NoEffect),
        count(Status::NotGiven)
    );
    for line in &made.assumed {
        let _ = writeln!(out, "  assumed: {line}");
    }
    let line = |a: &Argument| format!("{} = {}", a.name, a.value);
    for a in made.of(Status::Matters) {
        let _ = writeln!(out, "  no counterpart, and it matters: {}: {}", line(a), a.why);
    }
    for a in made.of(Status::Unknown) {
        let _ = writeln!(out, "  not known: {}", line(a));
    }
    out
}
