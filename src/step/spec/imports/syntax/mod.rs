//! How arguments are written: each syntax gives a flat list of names and values.

mod python;
mod shell;

pub(super) use python::function;

use serde::Deserialize;
use serde_json::Value;

use super::super::SpecError;

/// How deep files may be nested.
const MAX_DEPTH: usize = 16;

/// How arguments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Syntax {
    /// `--name value` in a shell line or script; or YAML.
    ShellOrYaml,
    /// YAML.
    Yaml,
    /// YAML, or a function of Python that sets attributes of a configuration.
    PythonOrYaml,
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

/// Reads a text.
pub(super) fn read(syntax: Syntax, text: &str) -> Result<Vec<(String, Value)>, SpecError> {
    let text = text.trim_start_matches('\u{feff}');
    let value = match syntax {
        Syntax::ShellOrYaml if shell::looks_like(text) => return shell::read(text),
        Syntax::PythonOrYaml if python::looks_like(text) => return python::read(text),
        Syntax::ShellOrYaml | Syntax::PythonOrYaml | Syntax::Yaml => yaml(text)?,
        Syntax::Toml => toml::from_str::<Value>(text).map_err(|e| not("TOML", e.message()))?,
        Syntax::Json => super::json::read("", text)?,
    };
    if !value.is_object() {
        return Err(not("a file of names and values", "it holds one value"));
    }
    let mut flat = Vec::new();
    flatten("", value, 0, &mut flat)?;
    Ok(flat)
}

/// The names of a text's arguments, as tables write them; `None` where it is not of the syntax.
pub(super) fn names(syntax: Syntax, text: &str) -> Option<Vec<String>> {
    let of_python = syntax == Syntax::PythonOrYaml && python::looks_like(text);
    let read = match syntax.suits(text) {
        false => return None,
        true if of_python => python::all(text),
        true => read(syntax, text).ok()?,
    };
    Some(read.into_iter().map(|(name, _)| name.to_ascii_lowercase().replace('-', "_")).collect())
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
