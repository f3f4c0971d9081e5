//! A model that is named: by the file, by the configuration that it begins with, or by the function that makes it.

use std::path::Path;

use serde_json::Value;

use super::draft::Doubt;
use super::table::FormatTable;
use super::{Argument, Beside, Invocation, Status, WorkloadDraft, files, syntax};
use crate::hugging_face;
use stepsim_spec::{Kind, catalog, names};

/// Quantities that may name a model, the most particular first; where there are none a module of Python may by its own.
const NAMES: [&str; 3] = ["model_name", "model_words", "recipe_words"];

/// Opens the files that arguments name, beside the file or above it, and puts their arguments behind those before; what
/// stands in the file itself counts. Files that a reader gave beside it are open already.
pub(super) fn open(
    table: &FormatTable,
    given: &mut Vec<(String, Value)>,
    beside: &Beside,
    file: &str,
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
            read |= beside.more.iter().any(|(other, _)| last(other) == last(&path));
            let Some((found, text)) = files::beside(&folder, &path).filter(|_| !read) else { continue };
            let Some(said) = syntax::names_and_values(&text, &path) else { continue };
            read = true;
            for (inner, value) in said {
                let inner = if prefix.is_empty() { inner } else { format!("{prefix}.{inner}") };
                if !given.iter().any(|(other, _)| *other == inner || says_the_same(table, other, &inner)) {
                    given.push((inner, value));
                }
            }
            let doubt = Doubt {
                name: name.clone(),
                value: value.clone(),
                why: format!("read from {}", found.display()),
            };
            opened.push(Argument { status: Status::NoEffect, ..Argument::doubted(doubt) });
        }
        if read {
            given.remove(at);
        } else {
            at += 1;
        }
    }
    opened
}

/// The configurations that the programs of a script are given as a word of their own (`axolotl train x.yml`), beside it:
/// the file of each and its text. One with options behind it is none of these: they would be lost.
pub fn launched(text: &str, word: &str) -> Vec<(String, String)> {
    const ENDINGS: [&str; 3] = [".yaml", ".yml", ".toml"];
    let typed = Invocation::of(word);
    let folder = Path::new(&typed.file).parent().unwrap_or(Path::new("")).to_path_buf();
    let programs = syntax::shell::programs(text, &typed).unwrap_or_default();
    let configuration = |words: &Vec<String>| {
        let at = words.iter().rposition(|word| ENDINGS.iter().any(|ending| word.ends_with(ending)))?;
        let is_bare = words[at + 1..].iter().all(|word| !word.starts_with("--") && !word.contains('='));
        let (path, text) = files::beside(&folder, &words[at]).filter(|_| is_bare)?;
        Some((path.display().to_string(), text))
    };
    programs.iter().filter_map(configuration).collect()
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

impl WorkloadDraft {
    /// The names that a file gives its model; a name without a number says no size, unless a hub has it.
    pub(super) fn model_names(&self, file: &str) -> Vec<String> {
        let flavor = self.variables.get("model_flavor").and_then(Value::as_str).unwrap_or_default();
        let name = |variable: &&str| {
            let text = self.variables.get(*variable)?.as_str()?;
            let flavor = if *variable == "model_name" { flavor } else { "" };
            Some(format!("{text} {flavor}").trim().to_string())
        };
        let sized = |name: &String| name.contains(|c: char| c.is_ascii_digit());
        let component = self.variables.get("component").and_then(Value::as_str).map(of_component);
        let components = component.into_iter().flatten();
        let hub = |name: &String| name.split('/').count() == 2 && !name.starts_with(['.', '/']);
        let is_name = |name: &String| sized(name) || hub(name);
        let said: Vec<String> = NAMES.iter().filter_map(name).chain(components).filter(is_name).collect();
        // A module of recipes is called after its model; any other file as somebody likes.
        let module = file.split_once(".py").is_some_and(|(_, behind)| !behind.contains('.'));
        let unsized_yet = module && !said.iter().any(sized);
        let file = Some(hugging_face::name_of(file)).filter(|file| unsized_yet && sized(file));
        said.into_iter().chain(file).collect()
    }

    /// A model by a name: a shipped one as it stands, or one of the names that are known.
    pub(super) fn known_model(&self, beside: &Beside, text: &str) -> Option<Value> {
        let shipped = names::shipped_exactly(text).and_then(|name| catalog::text(Kind::Model, name));
        let shipped = shipped.and_then(|text| serde_json::from_str(text).ok());
        shipped.or_else(|| beside.models.and_then(|models| models(text)))
    }

    /// The model that a name says, and the name; in the spelling of programs, too. A shipped model that is only a part
    /// of a name is meant where both say the same size.
    pub(super) fn named_model(&self, beside: &Beside, file: &str) -> Option<(Value, String)> {
        let spellings = |text: String| [names::spelled(&text), text];
        self.model_names(file).into_iter().flat_map(spellings).find_map(|text| {
            let size = names::billions(&text);
            let fits = |name: &&str| size.is_none() || names::billions(name) == size;
            let shipped = names::shipped_exactly(&text).or_else(|| names::shipped(&text).filter(fits));
            let known = shipped.map(Value::from).or_else(|| beside.models.and_then(|models| models(&text)));
            let name = |model: &Value| model["name"].as_str().or(model.as_str()).and_then(names::billions);
            // A model of another size is not meant, however its name begins.
            let is_other =
                |model: &Value| size.zip(name(model)).is_some_and(|(a, b)| a < b / 2.0 || a > b * 2.0);
            known.filter(|model| !is_other(model)).map(|model| (model, text))
        })
    }
}

/// `torchtune.models.llama3_1.lora_llama3_1_8b` as names of a model: Llama 3.1 8B, and with the point elsewhere, since
/// a version and a size are written alike (`qwen2_5_7b`, `qwen2_1_5b`).
pub fn of_component(path: &str) -> Vec<String> {
    let name = path.rsplit('.').next().unwrap_or_default();
    let heads = ["qlora_", "lora_", "qdora_", "dora_"];
    let name = heads.iter().find_map(|head| name.strip_prefix(head)).unwrap_or(name);
    let all: Vec<char> = name.chars().collect();
    let digit = |at: usize| all.get(at).is_some_and(char::is_ascii_digit);
    let points: Vec<usize> = (1..all.len())
        .filter(|at| all[*at] == '_' && digit(at - 1) && digit(at + 1))
        .take(MOST_POINTS)
        .collect();
    let of = |points: Vec<usize>| {
        (0..all.len()).map(|at| if points.contains(&at) { '.' } else { all[at] }).collect()
    };
    let choices = 1usize << points.len();
    (0..choices)
        .map(|choice| {
            points.iter().enumerate().filter(|(i, _)| choice >> i & 1 == 1).map(|(_, at)| *at).collect()
        })
        .filter(|chosen: &Vec<usize>| chosen.windows(2).all(|pair| pair[0] + 2 < pair[1]))
        .map(of)
        .collect()
}

/// Places of a name where a point may be meant.
const MOST_POINTS: usize = 3;
