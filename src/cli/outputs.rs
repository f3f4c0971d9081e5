//! Files that a command writes: none may be another's, or an input's.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{ArgMatches, Command};

use super::Failure;

/// The heading under which `--help` lists what a command writes. Every file named elsewhere is one that it reads.
pub(super) const WRITTEN: &str = "Output files";

/// Whether an output of this command is `-`.
static ON_STDOUT: AtomicBool = AtomicBool::new(false);

/// Whether standard output is taken by the one document that was asked for there.
pub(super) fn document_on_stdout() -> bool {
    ON_STDOUT.load(Ordering::Relaxed)
}

/// Looks at all files that a command line names: see [`apart`].
///
/// # Errors
/// As [`apart`].
pub(super) fn guard(mut command: &Command, mut matches: &ArgMatches) -> Result<(), Failure> {
    while let Some((name, inner)) = matches.subcommand() {
        let Some(next) = command.find_subcommand(name) else { break };
        (command, matches) = (next, inner);
    }
    let (mut outputs, mut inputs) = (Vec::new(), Vec::new());
    for argument in command.get_arguments() {
        let Ok(Some(values)) = matches.try_get_raw(argument.get_id().as_str()) else { continue };
        let option = format!("--{}", argument.get_long().unwrap_or_default());
        for value in values {
            match argument.get_help_heading() {
                Some(WRITTEN) => outputs.push((option.clone(), PathBuf::from(value))),
                _ => inputs.extend(files(value)),
            }
        }
    }
    ON_STDOUT.store(outputs.iter().any(|(_, path)| path == Path::new("-")), Ordering::Relaxed);
    let outputs: Vec<_> =
        outputs.iter().map(|(option, path)| (option.as_str(), Some(path.as_path()))).collect();
    apart(&outputs, &inputs)
}

/// The files that a value of the command line may mean: itself, what `path=value` sets, or those in the folder.
fn files(value: &OsStr) -> Vec<PathBuf> {
    let path = match value.to_str().and_then(|text| text.split_once('=')) {
        Some((_, set)) if !Path::new(value).exists() => Path::new(set),
        _ => Path::new(value),
    };
    match std::fs::read_dir(path) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(_) => vec![path.to_owned()],
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_compared_and_not_spellings() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        std::fs::write(file("in.json"), "{}").unwrap();
        let refused = |a: &Path, b: &Path| {
            apart(&[("--report", Some(a)), ("-o", Some(b))], &[file("in.json")]).err().map(|f| f.message)
        };
        assert_eq!(refused(&file("a.json"), &file("b.json")), None);
        let twice = refused(&file("a.json"), &file("./a.json")).unwrap();
        assert!(twice.contains("-o") && twice.contains("--report"), "{twice}");
        let destroyed = refused(&file("a.json"), &file("./in.json")).unwrap();
        assert!(destroyed.contains("the input"), "{destroyed}");
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(file("in.json"), file("link.json")).unwrap();
            assert!(refused(&file("link.json"), &file("b.json")).is_some(), "a link to the input");
        }
        assert_eq!(refused(Path::new("/dev/null"), Path::new("/dev/null")), None);
        assert!(refused(Path::new("-"), Path::new("-")).is_some());
    }
}
