//! `stepsim import FILE`: the kind is told by the content.

use std::path::{Path, PathBuf};

use clap::Parser;

use super::super::outputs::WRITTEN;
use super::super::{Failure, inputs};
use super::from::ImportSource;
use stepsim_bring::imports::{FileKind, FormatTable, Invocation, recognise};
use stepsim_spec::SpecError;

/// Files whose kind is not said.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(super) struct Args {
    /// Files of other tools; what they are is told by their content
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The model beside arguments: a shipped one, a model file, or a config.json
    #[arg(long)]
    model: Option<String>,
    /// Devices of the job [default: what the file says]
    #[arg(long, value_name = "N")]
    devices: Option<u64>,
    /// The machine
    #[arg(short, long)]
    topology: Option<String>,
    /// A field that the file does not say: `model.vocabulary=50304`; repeatable
    #[arg(long = "set", value_name = "PATH=VALUE")]
    sets: Vec<String>,
    /// The file that is written; without it what is made goes to the standard output, where that is one document
    #[arg(short, long, visible_alias = "out", value_name = "FILE", help_heading = WRITTEN)]
    output: Option<PathBuf>,
    /// Write what became of each argument here as JSON
    #[arg(long, value_name = "FILE.json", help_heading = WRITTEN)]
    report: Option<PathBuf>,
}

/// The command of one kind.
#[derive(Debug, clap::Parser)]
struct KindCommand {
    #[command(subcommand)]
    from: ImportSource,
}

/// The command of the kind that the files are of.
///
/// # Errors
/// Nothing is known of a file, it needs no import, or its kind needs more than was said (status 2).
pub(super) fn command(args: &Args) -> Result<ImportSource, Failure> {
    let first = args.files[0].display().to_string();
    let path = &Invocation::of(&first).file;
    let Some(kind) = recognise(&inputs::bytes(Path::new(path))?) else {
        let mut known: Vec<&str> = FormatTable::all().values().map(|table| table.words.as_str()).collect();
        known.extend(["a Hugging Face config.json", "an output of nccl-tests"]);
        let error = SpecError::file(first, "is of no known kind").allowed(known.join("; "));
        return Err(error.hint(stepsim_bring::FOREIGN).into());
    };
    let Some(name) = kind.import() else {
        let (already, next) = match kind {
            FileKind::Machine => (" already", "inspect -t"),
            FileKind::Kineto => (", which becomes no workload", "analyze"),
            _ => (" already", "plan"),
        };
        let hint = format!("stepsim {next} {first}");
        return Err(SpecError::file(first, format!("is {}{already}", kind.words())).hint(hint).into());
    };
    let words = words(name, kind, args);
    KindCommand::try_parse_from(&words).map(|parsed| parsed.from).map_err(|_| {
        let problem = format!("is {}, which needs more than that", kind.words());
        Failure::from(SpecError::file(first, problem).hint(format!("{} --out out.json", words.join(" "))))
    })
}

/// The words of the command of one kind.
fn words(name: &str, kind: FileKind, args: &Args) -> Vec<String> {
    let mut words = vec!["stepsim import".to_string(), name.to_string()];
    words.extend(args.files.iter().map(|file| file.display().to_string()));
    let mut option = |name: &str, value: Option<String>| {
        words.extend(value.into_iter().flat_map(|value| [format!("--{name}"), value]));
    };
    let path = |path: &Option<PathBuf>| path.as_ref().map(|path| path.display().to_string());
    option("model", args.model.clone());
    option("devices", args.devices.map(|n| n.to_string()));
    option("topology", args.topology.clone());
    args.sets.iter().for_each(|set| option("set", Some(set.clone())));
    option(if kind == FileKind::Calculon { "out" } else { "output" }, path(&args.output));
    option("report", path(&args.report));
    words
}
