//! How arguments are written: each syntax gives a flat list of names and values.

mod python;
mod said;
mod shell;

pub(super) use python::job;
pub(super) use said::{Open, Said};

use serde::Deserialize;
use serde_json::Value;

use super::super::SpecError;
use super::invocation::Invocation;

/// How deep files may be nested.
const MAX_DEPTH: usize = 16;

/// A way in which arguments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Syntax {
    /// Arguments of programs in a shell line or script.
    Shell,
    /// A function of Python that puts a configuration together.
    Python,
    Yaml,
    Toml,
    Json,
}

impl Syntax {
    /// Whether a text looks like it; YAML, TOML and JSON are known by their first character alone.
    fn suits(self, text: &str) -> bool {
        match self {
            Syntax::Shell => shell::looks_like(text),
            Syntax::Python => python::looks_like(text),
            Syntax::Yaml | Syntax::Toml => !text.starts_with('{'),
            Syntax::Json => text.starts_with('{'),
        }
    }
    fn name(self) -> &'static str {
        match self {
            Syntax::Shell => "a shell script",
            Syntax::Python => "Python",
            Syntax::Yaml => "YAML",
            Syntax::Toml => "TOML",
            Syntax::Json => "JSON",
        }
    }
}

/// The first of some syntaxes that a text suits.
fn suiting(syntaxes: &[Syntax], text: &str) -> Option<Syntax> {
    syntaxes.iter().copied().find(|syntax| syntax.suits(text))
}

/// Reads a text of one of some syntaxes, as the line that runs it has it.
pub(super) fn read(syntaxes: &[Syntax], text: &str, typed: &Invocation) -> Result<Said, SpecError> {
    let text = text.trim_start_matches('\u{feff}');
    let Some(syntax) = suiting(syntaxes, text) else {
        let names: Vec<&str> = syntaxes.iter().map(|syntax| syntax.name()).collect();
        return Err(SpecError::at("", format!("is not {}", names.join(" or "))));
    };
    let value = match syntax {
        Syntax::Shell => return shell::read(text, typed),
        Syntax::Python => {
            let arguments = python::read(text, typed.function.as_deref())?;
            return Ok(Said { arguments, open: Vec::new() });
        }
        Syntax::Yaml => yaml(text)?,
        Syntax::Toml => toml::from_str::<Value>(text).map_err(|e| not("TOML", e.message()))?,
        Syntax::Json => super::json::read("", text)?,
    };
    if !value.is_object() {
        return Err(not("a file of names and values", "it holds one value"));
    }
    let mut arguments = Vec::new();
    flatten("", value, 0, &mut arguments)?;
    Ok(Said { arguments, open: Vec::new() })
}

/// The names of a text's arguments, as tables write them; `None` where it is of none of the syntaxes.
pub(super) fn names(syntaxes: &[Syntax], text: &str) -> Option<Vec<String>> {
    let names = match suiting(syntaxes, text)? {
        Syntax::Python => python::all(text).into_iter().map(|(name, _)| name).collect(),
        Syntax::Shell => shell::names(text),
        _ => {
            let said = read(syntaxes, text, &Invocation::default()).ok()?;
            said.arguments.into_iter().map(|(name, _)| name).collect::<Vec<String>>()
        }
    };
    Some(names.into_iter().map(|name| name.to_ascii_lowercase().replace('-', "_")).collect())
}

fn not(what: &str, why: impl std::fmt::Display) -> SpecError {
    SpecError::at("", format!("is not {what}: {why}"))
}

fn yaml(text: &str) -> Result<Value, SpecError> {
    let mut value: serde_yaml_ng::Value = serde_yaml_ng::from_str(text).map_err(|e| not("YAML", e))?;
    value.apply_merge().map_err(|e| not("YAML", e))?;
    serde_json::to_value(value).map_err(|e| not("YAML of texts, numbers, lists and maps", e))
}

/// `a: {b: 1}` as `a.b` = 1. Lists stay values; an empty map is a value too.
fn flatten(head: &str, value: Value, depth: usize, flat: &mut Vec<(String, Value)>) -> Result<(), SpecError> {
    if depth > MAX_DEPTH {
        return Err(SpecError::at(head, format!("more than {MAX_DEPTH} levels stand in one another")));
    }
    match value {
        Value::Object(map) if depth == 0 || !map.is_empty() => {
            for (key, value) in map {
                let name = if head.is_empty() { key } else { format!("{head}.{key}") };
                flatten(&name, value, depth + 1, flat)?;
            }
        }
        value => flat.push((head.to_string(), interpolated(value))),
    }
    Ok(())
}

/// What refers to another place of a configuration that is not here (OmegaConf's `${...}`) says nothing.
fn interpolated(value: Value) -> Value {
    match &value {
        Value::String(text) if text.contains("${") => Value::Null,
        _ => value,
    }
}
