//! Files that a command writes: none may be another's, or an input's.

use std::borrow::Cow;
use std::cell::Cell;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::{Arg, ArgMatches, Command};

use super::Failure;
use stepsim_read::trace::guard_inputs;
use stepsim_spec::files::{keep_reads, was_read};

/// The heading under which `--help` lists what a command writes. Every file named elsewhere is one that it reads.
pub(super) const WRITTEN: &str = "Output files";

thread_local! {
    /// True if an output of this command is `-`.
    static ON_STDOUT: Cell<bool> = const { Cell::new(false) };
}

/// True if standard output is taken by the one document that was asked for there.
pub(super) fn document_on_stdout() -> bool {
    ON_STDOUT.get()
}

/// The command that is run, with its own arguments. Commands that are only made where they are asked for (formats of
/// `import`) are there once the command before them is built.
fn innermost<'a>(command: &Command, mut matches: &'a ArgMatches) -> (Command, &'a ArgMatches) {
    let mut command = Cow::Borrowed(command);
    while let Some((name, inner)) = matches.subcommand() {
        if command.find_subcommand(name).is_none() {
            command.to_mut().build();
        }
        let Some(next) = command.find_subcommand(name).cloned() else { break };
        (command, matches) = (Cow::Owned(next), inner);
    }
    (command.into_owned(), matches)
}

/// True if an argument is a path.
fn is_path(argument: &Arg) -> bool {
    argument.get_value_parser().type_id() == clap::builder::ValueParser::path_buf().type_id()
}

/// Looks at all files that a command line names: see [`apart`].
///
/// # Errors
/// As [`apart`].
pub(super) fn guard(command: &Command, matches: &ArgMatches) -> Result<(), Failure> {
    let (command, matches) = innermost(command, matches);
    keep_reads();
    guard_inputs(was_read);
    let (mut outputs, mut formats, mut inputs) = (Vec::new(), Vec::new(), Vec::new());
    let as_folder = matches!(matches.try_get_raw("format"), Ok(Some(_))) && command.get_name() == "run";
    for argument in command.get_arguments() {
        let id = argument.get_id().as_str();
        let Ok(Some(values)) = matches.try_get_raw(id) else { continue };
        let option = format!("--{}", argument.get_long().unwrap_or_default());
        let is_path = is_path(argument);
        for value in values {
            match argument.get_help_heading() {
                Some(WRITTEN) if is_path => {
                    let meant =
                        if as_folder && id == "output" { &[][..] } else { meant(command.get_name(), id) };
                    outputs.push((option.clone(), PathBuf::from(value)));
                    formats.push(meant);
                }
                Some(WRITTEN) => {}
                _ => inputs.extend(files(value, is_path)),
            }
        }
    }
    ON_STDOUT.set(outputs.iter().any(|(_, path)| path == Path::new("-")));
    let outputs: Vec<_> =
        outputs.iter().map(|(option, path)| (option.as_str(), Some(path.as_path()))).collect();
    apart(&outputs, &inputs)?;
    let mut named = outputs.iter().zip(formats);
    named.try_for_each(|((option, path), formats)| means(option, path.unwrap_or(Path::new("-")), formats))
}

/// Endings of names that mean a format.
const FORMATS: [&str; 15] = [
    "json",
    "jsonl",
    "pftrace",
    "perfetto-trace",
    "html",
    "csv",
    "tsv",
    "parquet",
    "arrow",
    "xlsx",
    "pdf",
    "svg",
    "png",
    "et",
    "yaml",
];

/// The formats in which an argument is written; none: a folder.
fn meant(command: &str, id: &str) -> &'static [&'static str] {
    match (command, id) {
        (_, "html") => &["html"],
        ("sweep" | "merge", "output") => &["jsonl", "json", "csv"],
        (_, "rows") => &["jsonl", "json"],
        ("inspect", "kernels") => &["jsonl"],
        ("run", "output") => &["json", "pftrace", "perfetto-trace", "svg"],
        (_, "output" | "trace") => &["json", "pftrace", "perfetto-trace"],
        _ => &["json"],
    }
}

/// A name that means another format than is written is refused.
fn means(option: &str, path: &Path, formats: &[&str]) -> Result<(), Failure> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
    let stem = name.strip_suffix(".gz").unwrap_or(&name);
    let ending = stem.rsplit_once('.').map_or("", |(_, ending)| ending);
    if !FORMATS.contains(&ending) || formats.contains(&ending) {
        return Ok(());
    }
    let allowed = match formats {
        [] => "the name of a folder: a file a rank is written".to_owned(),
        formats => formats.iter().map(|f| format!(".{f}")).collect::<Vec<_>>().join(", "),
    };
    Err(Failure::input(format!(
        "{option} {}: the name means .{ending}\n  allowed: {allowed}",
        path.display()
    )))
}

/// The files that a value of the command line may mean: itself, what `path=value` sets, the workload of `JOB@0-7`; of
/// an argument that is a path also those in the folder.
fn files(value: &OsStr, is_path: bool) -> Vec<PathBuf> {
    let whole = Path::new(value);
    if is_path {
        return match std::fs::read_dir(whole) {
            Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
            Err(_) => vec![whole.to_owned()],
        };
    }
    let text = value.to_str().unwrap_or_default();
    let set = text.split_once('=').map(|(_, set)| set);
    let job = text.rsplit_once('@').map(|(job, _)| job);
    [Some(text), set, job].into_iter().flatten().map(PathBuf::from).collect()
}

/// Outputs must differ from each other and from every input: the second would replace the first, or the input. Files
/// are compared, not spellings.
///
/// # Errors
/// Two of them are one file (status 2).
pub(super) fn apart(outputs: &[(&str, Option<&Path>)], inputs: &[PathBuf]) -> Result<(), Failure> {
    let mut taken: Vec<(String, PathBuf)> = Vec::new();
    for input in inputs.iter().filter(|path| path.is_file()) {
        taken.push((format!("the input {}", input.display()), place(input)));
    }
    for (option, path) in outputs {
        let Some(path) = path.filter(|path| !is_device(path)) else { continue };
        let at = place(path);
        if let Some((what, _)) = taken.iter().find(|(_, other)| *other == at) {
            return Err(Failure::input(format!(
                "{option} {}: names the same file as {what}\n  hint: give each its own name",
                path.display()
            )));
        }
        taken.push((format!("{option} {}", path.display()), at));
    }
    Ok(())
}

/// Devices take any number of writers; two documents on the standard output would be none.
fn is_device(path: &Path) -> bool {
    path.to_str() != Some("-") && path.exists() && !path.is_file()
}

/// Where a file is or will be, links followed.
fn place(path: &Path) -> PathBuf {
    let folder = match path.parent() {
        Some(parent) if parent != Path::new("") => parent,
        _ => Path::new("."),
    };
    path.canonicalize().unwrap_or_else(|_| {
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        path.file_name().map_or(folder.clone(), |name| folder.join(name))
    })
}
