//! A file of software that is not known: what it holds, and what it starts.

use std::collections::BTreeSet;
use std::path::Path;

use super::files;
use super::invocation::{self, Invocation};
use super::opened;
use super::recognise;
use super::syntax;

/// The words that tell whose a file of unknown software is: modules that it imports, names that it holds, or programs
/// that it runs.
pub fn told_by(text: &str, word: &str) -> Option<String> {
    let names = |syntax| syntax::names(&[syntax], text).unwrap_or_default();
    let told = |how: &str, words: Vec<String>| {
        (!words.is_empty()).then(|| format!("{how} {}", few(words.iter().map(String::as_str))))
    };
    let python = names(syntax::Syntax::Python);
    let modules = modules_of(&python);
    let keys = [syntax::Syntax::Yaml, syntax::Syntax::Json].into_iter().flat_map(names);
    let keys = keys.filter(|name| !name.starts_with('=')).collect();
    if text.lines().any(|line| line.starts_with("apiVersion:")) {
        return Some("is a job of Kubernetes that says no line which is known".to_string());
    }
    let is_file = text.starts_with(['{', '[']) || opened::is_configuration(word) && !word.ends_with(".toml");
    if is_file && !text.starts_with("#!") {
        let read = syntax::read(&[syntax::Syntax::Yaml, syntax::Syntax::Json], text, &Invocation::of(word));
        if let Some(error) = read.err() {
            return Some(error.problem);
        }
    }
    let is_script = !word.ends_with(".py");
    let programs = programs_of(text, word).into_iter().filter(|_| is_script);
    let mut programs: Vec<String> = programs.map(|words| invocation::program(&words)).collect();
    if programs.iter().any(|program| program.ends_with(".py")) {
        programs.retain(|program| program.ends_with(".py"));
    }
    programs.dedup();
    programs.iter_mut().for_each(|program| *program += &imports(program, word));
    let is_part = (word.ends_with(".sh") || text.starts_with("#!")) && python.is_empty();
    let nothing = || is_part.then(|| "starts no program: another script may take it in".to_string());
    let told = told("imports", modules)
        .or_else(|| told("holds", keys))
        .or_else(|| told("runs", programs))
        .or_else(nothing);
    let like = recognise::resembles(text, true)
        .map(|words| format!("has the words of {words} in sections of its own"));
    let project = project(word).map(|name| format!("is of the project {name}"));
    let all: Vec<String> = [told, like, project].into_iter().flatten().collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// The modules of a program that stands beside a script, in words.
fn imports(program: &str, word: &str) -> String {
    let file = Invocation::of(word).file;
    let beside = files::beside(Path::new(&file).parent().unwrap_or(Path::new("")), program);
    let names = beside.and_then(|(_, text)| syntax::names(&[syntax::Syntax::Python], &text));
    let modules = modules_of(&names.unwrap_or_default());
    let modules: BTreeSet<&str> = modules.iter().filter_map(|name| name.split('.').next()).collect();
    if modules.is_empty() { String::new() } else { format!(" with {}", few(modules.into_iter())) }
}

/// The modules among the names of a text of Python; Python's own are left out.
fn modules_of(names: &[String]) -> Vec<String> {
    let modules = names.iter().filter_map(|name| Some(name.strip_prefix('@')?.to_owned()));
    modules.filter(|name| !STANDARD.split(' ').any(|known| known == name)).collect()
}

/// Modules of Python itself, which tell no software.
const STANDARD: &str = "os sys re time math json glob random copy pickle pathlib typing functools dataclasses \
    argparse logging datetime collections itertools contextlib warnings shutil subprocess gc signal socket";

/// The project in whose folders a file stands, as that calls itself.
fn project(word: &str) -> Option<String> {
    let file = Invocation::of(word).file;
    let folder = Path::new(&file).parent().unwrap_or(Path::new(""));
    PROJECTS.iter().find_map(|(name, begin)| {
        let (path, text) = files::beside(folder, name)?;
        let is_above = path.is_absolute() == folder.is_absolute() && folder.starts_with(path.parent()?);
        let line = text.lines().filter(|_| is_above).find_map(|line| line.trim().strip_prefix(begin))?;
        let name = line.split('"').next()?.trim_matches(|c: char| !c.is_alphanumeric());
        (!name.is_empty() && !name.contains(' ')).then(|| name.to_string())
    })
}

/// Files in which a project says its name, with what stands before it.
const PROJECTS: [(&str, &str); 3] =
    [("pyproject.toml", "name = \""), ("setup.py", "name=\""), ("README.md", "# ")];

/// The programs that a script starts a training with, each as words that say something; all that it runs where it has
/// none of these.
fn programs_of(text: &str, word: &str) -> Vec<Vec<String>> {
    let all = syntax::shell::programs(text, &Invocation::of(word)).unwrap_or_default();
    let says = |words: Vec<String>| words.iter().filter_map(|word| syntax::shell::known(word)).collect();
    let all: Vec<Vec<String>> =
        all.into_iter().map(says).filter(|words: &Vec<String>| !words.is_empty()).collect();
    let starts = |words: &&Vec<String>| {
        words.iter().any(|word| word.ends_with(".py"))
            || words.iter().any(|word| invocation::is_launcher(word))
    };
    let started: Vec<Vec<String>> = all.iter().filter(starts).cloned().collect();
    if started.is_empty() { all } else { started }
}

/// The configurations that the programs of a script name and that are not beside it.
pub fn absent(text: &str, word: &str) -> Vec<String> {
    let folder = Path::new(word).parent().unwrap_or(Path::new(""));
    let is_absent = |path: &String| opened::is_configuration(path) && files::beside(folder, path).is_none();
    // An option of another name may say where a file is written.
    let takes =
        |option: &str| !option.starts_with('-') || option.contains("conf") || ["-c", "-f"].contains(&option);
    let mut found = Vec::new();
    for words in programs_of(text, word) {
        for (at, word) in words.iter().enumerate() {
            let before = at.checked_sub(1).map_or("", |at| words[at].as_str());
            let (option, path) = word.split_once('=').unwrap_or((before, word));
            found.extend(Some(path.to_string()).filter(|path| takes(option) && is_absent(path)));
        }
    }
    found
}

/// The variables that nothing sets and that a script starts as its programs.
pub fn open_programs(text: &str, word: &str) -> Vec<String> {
    syntax::shell::open_programs(text, &Invocation::of(word))
}

/// The first of many, and how many more there are.
pub(super) fn few<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let all: Vec<&str> = words.collect();
    match all.len() {
        0..=8 => all.join(", "),
        n => format!("{} and {} more", all[..8].join(", "), n - 8),
    }
}
