//! Files that a file names: opened beside it, and read with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::argument::Argument;
use super::files;
use super::invocation::Invocation;
use super::jobs;
use super::recognise::ArgumentNames;
use super::syntax;
use super::table::FormatTable;

/// Opens the files that arguments name, beside the file or above it, and puts their arguments behind those before; what
/// stands in the file itself counts. Files that a reader gave beside it are open already.
pub(super) fn open(
    table: &FormatTable,
    given: &mut Vec<(String, Value)>,
    more: &[(String, String)],
    file: &str,
    written: &BTreeMap<String, String>,
) -> Vec<Argument> {
    let folder = Path::new(file).parent().unwrap_or(Path::new("")).to_path_buf();
    let mut opened = Vec::new();
    let mut at = 0;
    while at < given.len() && opened.len() < MOST_OPENED {
        let (name, value) = given[at].clone();
        let prefix = table.rule(&name).and_then(|rule| rule.opens);
        let mut read = false;
        for (path, prefix) in prefix.iter().flat_map(|prefix| files_of(&value, prefix)) {
            let last = |path: &str| path.rsplit('/').next().map(str::to_owned);
            read |= more.iter().any(|(other, _)| last(other) == last(&path));
            let own = || Some((PathBuf::from(file), jobs::written(written, &path)?.clone()));
            let found = own().or_else(|| files::beside(&folder, &path)).filter(|_| !read);
            let Some((found, text)) = found else { continue };
            let Some(said) = syntax::names_and_values(&text, &path) else { continue };
            read = true;
            for (inner, value) in said {
                let inner = if prefix.is_empty() { inner } else { format!("{prefix}.{inner}") };
                if !given.iter().any(|(other, _)| *other == inner || says_the_same(table, other, &inner)) {
                    given.push((inner, value));
                }
            }
            let why = format!("read from {}", found.display());
            opened.push(Argument::doubted(&name, value.clone(), why));
        }
        if read {
            given.remove(at);
        } else {
            at += 1;
        }
    }
    opened
}

/// Adds what the configuration of a program says of a step where the line that runs it does not.
pub(super) fn usual(
    table: &FormatTable,
    names: &ArgumentNames,
    given: &mut Vec<(String, Value)>,
    file: &str,
) -> Option<Argument> {
    let (_, path) = table.configurations.iter().find(|(mark, _)| names.get(mark).is_some())?;
    let (found, text) = files::beside(Path::new(file).parent().unwrap_or(Path::new("")), path)?;
    for (name, value) in syntax::names_and_values(&text, path)? {
        let is_said = given.iter().any(|(other, _)| *other == name || says_the_same(table, other, &name));
        if !is_said && table.rule(&name).is_some_and(|rule| rule.targets().next().is_some()) {
            given.push((name, value));
        }
    }
    let why = format!("read from {}", found.display());
    Some(Argument::doubted("configuration", path.as_str().into(), why))
}

/// The configurations that programs of a script are given (`axolotl train x.yml`), beside it: the file of each and its
/// text, which the script may have written itself. Options behind one lie over what it says; one that is not `alone`
/// may be the value of an option.
pub(super) fn launched(text: &str, word: &str, alone: bool) -> Vec<(String, String)> {
    let typed = Invocation::of(word);
    let folder = Path::new(&typed.file).parent().unwrap_or(Path::new("")).to_path_buf();
    let (programs, written) = syntax::shell::run(text, &typed).unwrap_or_default();
    let configuration = |words: &Vec<String>| {
        let own = |path: &str| jobs::written(&written, path).cloned();
        let at = words.iter().rposition(|word| is_configuration(word) || own(word).is_some())?;
        // `--config=FILE` is an option with its value.
        let path = words[at].rsplit_once('=').filter(|_| !alone).map_or(words[at].as_str(), |(_, path)| path);
        let before = at.checked_sub(1).filter(|at| !alone || !words[*at].starts_with('-'))?;
        // The name of a value in a file of names and values is no program.
        if words[before].ends_with(':') {
            return None;
        }
        let own = own(path).map(|text| (word.to_string(), text));
        let beside = || files::beside(&folder, path).map(|(path, text)| (path.display().to_string(), text));
        let (path, text) = own.or_else(beside)?;
        // The launcher's own configuration says how weights are cut.
        let launch = words[..=before].windows(2).find(|pair| pair[0] == "--config_file");
        let launch = launch.map(|pair| format!("--config_file={}", pair[1]));
        let options: Vec<String> = launch.into_iter().chain(words[at + 1..].iter().cloned()).collect();
        Some((path, over(text, &options)?))
    };
    programs.iter().filter_map(configuration).collect()
}

/// A configuration with options over it (`--a.b=1`, `--a-b 1`, `a.b=1`); `None` for other words, or another syntax.
fn over(text: String, words: &[String]) -> Option<String> {
    if words.is_empty() {
        return Some(text);
    }
    let toml: Option<serde_yaml_ng::Value> = toml::from_str(&text).ok();
    let is_toml = toml.is_some();
    let mut whole = toml.or_else(|| serde_yaml_ng::from_str(&text).ok())?;
    let mut words = words.iter().peekable();
    while let Some(word) = words.next() {
        let option = word.strip_prefix("--");
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name.trim_start_matches("--"), value.to_owned()),
            // A switch by itself is on.
            None if is_toml && words.peek().is_none_or(|next| next.starts_with("--")) => {
                (option?, "true".into())
            }
            None => (option?, words.next()?.clone()),
        };
        let name = name.replace('-', "_");
        let mut at = &mut whole;
        for part in name.split('.') {
            at = at
                .as_mapping_mut()?
                .entry(part.into())
                .or_insert_with(|| serde_yaml_ng::Mapping::new().into());
        }
        *at = serde_yaml_ng::from_str(&value).unwrap_or_else(|_| value.clone().into());
    }
    if is_toml { toml::to_string(&whole).ok() } else { serde_yaml_ng::to_string(&whole).ok() }
}

/// True if a word is called like a configuration that a program is given.
pub(super) fn is_configuration(word: &str) -> bool {
    [".yaml", ".yml", ".toml"].iter().any(|ending| word.ends_with(ending))
}

/// True if two arguments set the same one thing.
fn says_the_same(table: &FormatTable, one: &str, other: &str) -> bool {
    let rules = table.rule(one).zip(table.rule(other));
    rules.is_some_and(|(one, other)| one.targets().count() == 1 && one.targets().eq(other.targets()))
}

/// Files that a file names, and those that they name, at most.
const MOST_OPENED: usize = 16;

/// The files that a value names, with what stands before their names: a path, a list of paths, or groups with the
/// choice of each as Hydra has them.
fn files_of(value: &Value, prefix: &str) -> Vec<(String, String)> {
    let ended = |path: &str| {
        if path.rsplit('/').next().is_some_and(|name| name.contains('.')) {
            path.to_owned()
        } else {
            format!("{path}.yaml")
        }
    };
    match value {
        Value::String(path) if !path.is_empty() && path != "_self_" => vec![(ended(path), prefix.to_owned())],
        Value::Array(all) => all.iter().flat_map(|value| files_of(value, prefix)).collect(),
        Value::Object(groups) => {
            let choice = |(group, choice): (&String, &Value)| {
                Some((ended(&format!("{group}/{}", choice.as_str()?)), group.clone()))
            };
            groups.iter().filter_map(choice).collect()
        }
        _ => Vec::new(),
    }
}
