//! A file of software that is not known: what it holds, and what it starts.

use std::path::Path;

use super::files;
use super::invocation::{self, Invocation};
use super::opened;
use super::syntax;

/// The words that tell whose a file of unknown software is: modules that it imports, names that it holds, or programs
/// that it runs.
pub fn told_by(text: &str, word: &str) -> Option<String> {
    let names = |syntax| syntax::names(&[syntax], text).unwrap_or_default();
    let told = |how: &str, words: Vec<String>| {
        (!words.is_empty()).then(|| format!("{how} {}", few(words.iter().map(String::as_str))))
    };
    let python = names(syntax::Syntax::Python);
    let modules = python.iter().filter_map(|name| Some(name.strip_prefix('@')?.to_owned())).collect();
    let keys = [syntax::Syntax::Yaml, syntax::Syntax::Json].into_iter().flat_map(names);
    let keys = keys.filter(|name| !name.starts_with('=')).collect();
    if text.lines().any(|line| line.starts_with("apiVersion:")) {
        return Some("is a job of Kubernetes that says no line which is known".to_string());
    }
    let is_script = !word.ends_with(".py");
    let programs = programs_of(text, word).into_iter().filter(|_| is_script);
    let mut programs: Vec<String> = programs.map(|words| invocation::program(&words)).collect();
    programs.dedup();
    told("imports", modules).or_else(|| told("holds", keys)).or_else(|| told("runs", programs))
}

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
