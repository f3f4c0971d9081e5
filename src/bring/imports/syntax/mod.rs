//! How arguments are written: each syntax gives a flat list of names and values.

mod flat;
pub mod python;
mod said;
pub mod shell;

pub(super) use flat::flatten;
pub(super) use python::expression::is_unknown;
pub(super) use python::job;
pub(super) use said::{Open, TextStatements};
pub(super) use shell::PROGRAM;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::budget;
use super::invocation::Invocation;
use flat::MAX_DEPTH;
use stepsim_spec::SpecError;

/// A way in which arguments are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Syntax {
    /// Arguments of programs in a shell line or script.
    Shell,
    /// A function of Python that puts a configuration together.
    Python,
    /// Constructors that a script of Python calls.
    Calls,
    /// YAML.
    Yaml,
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Syntax {
    /// True if a text looks like it; TOML and JSON are known by their first character alone, YAML may begin as JSON
    /// does.
    fn suits(self, text: &str) -> bool {
        match self {
            Syntax::Shell => shell::looks_like(text),
            Syntax::Python => python::looks_like(text),
            Syntax::Calls => python::calls::looks_like(text),
            Syntax::Yaml => !text.starts_with('{') || super::json::read_of_others("", text).is_err(),
            Syntax::Toml => !text.starts_with('{'),
            Syntax::Json => text.starts_with('{'),
        }
    }
    fn name(self) -> &'static str {
        match self {
            Syntax::Shell => "a shell script",
            Syntax::Python | Syntax::Calls => "Python",
            Syntax::Yaml => "YAML",
            Syntax::Toml => "TOML",
            Syntax::Json => "JSON",
        }
    }
}

/// The first of some syntaxes that a text suits.
pub(super) fn suiting(syntaxes: &[Syntax], text: &str) -> Option<Syntax> {
    syntaxes.iter().copied().find(|syntax| syntax.suits(text))
}

/// Reads a text of one of some syntaxes, as the line that runs it has it.
pub fn read(syntaxes: &[Syntax], text: &str, typed: &Invocation) -> Result<TextStatements, SpecError> {
    let text = text.trim_start_matches('\u{feff}');
    budget::check(text)?;
    let Some(syntax) = suiting(syntaxes, text) else {
        let names: Vec<&str> = syntaxes.iter().map(|syntax| syntax.name()).collect();
        return Err(SpecError::at("", format!("is not {}", names.join(" or "))));
    };
    let value = match syntax {
        Syntax::Shell => return shell::read(text, typed),
        Syntax::Calls => return python::calls::read(text),
        Syntax::Python => {
            let arguments = python::read(text, &typed.file, typed.function.as_deref())?;
            return Ok(TextStatements { arguments, open: Vec::new() });
        }
        Syntax::Yaml => yaml(text)?,
        Syntax::Toml => toml::from_str::<Value>(text).map_err(|e| not("TOML", e.message()))?,
        Syntax::Json => super::json::read_of_others("", text)?,
    };
    if !value.is_object() {
        return Err(not("a file of names and values", "it holds one value"));
    }
    let whole = value.clone();
    let mut arguments = Vec::new();
    flatten("", value, 0, &mut arguments)?;
    for (_, value) in &mut arguments {
        resolve(value, &whole);
    }
    Ok(TextStatements { arguments, open: Vec::new() })
}

/// The names and values of a configuration that another file names; none where it is none.
pub(super) fn names_and_values(text: &str, file: &str) -> Option<Vec<(String, Value)>> {
    let syntax = match () {
        () if file.ends_with(".toml") => Syntax::Toml,
        () if text.trim_start().starts_with('{') => Syntax::Json,
        () => Syntax::Yaml,
    };
    let typed = Invocation { file: file.to_string(), ..Invocation::default() };
    Some(read(&[syntax], text, &typed).ok()?.arguments)
}

/// The names of a text's arguments, as tables write them, and behind `=` the texts of a file of names and values;
/// `None` where it is of none of the syntaxes.
pub(super) fn names(syntaxes: &[Syntax], text: &str) -> Option<Vec<String>> {
    budget::check(text).ok()?;
    let names = match suiting(syntaxes, text)? {
        Syntax::Python => python::names(text),
        Syntax::Shell => shell::names(text),
        _ => {
            let said = read(syntaxes, text, &Invocation::default()).ok()?;
            let packages =
                python::calls::packages(text).filter(|_| suiting(syntaxes, text) == Some(Syntax::Calls));
            let value = |value: &Value| value.as_str().map(|text| format!("={text}"));
            let said =
                said.arguments.into_iter().flat_map(|(name, said)| [Some(name), value(&said)]).flatten();
            said.chain(packages).collect()
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

/// Puts in what a text refers to: another place of the same configuration (OmegaConf's `${train.batch}`), or what a
/// variable of the surroundings is unasked (`${NAME:8}`, `${oc.env:NAME,8}`). A reference that cannot be followed says
/// nothing.
fn resolve(value: &mut Value, whole: &Value) {
    for _ in 0..MAX_DEPTH {
        let Value::String(text) = &*value else { return };
        let Some(start) = text.rfind("${") else { return };
        let Some(length) = text[start..].find('}') else { break };
        let end = start + length + 1;
        let Some(found) = reference(&text[start + 2..end - 1], whole) else { break };
        *value = if start == 0 && end == text.len() {
            found
        } else {
            let plain = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
            format!("{}{plain}{}", &text[..start], &text[end..]).into()
        };
    }
    if value.as_str().is_some_and(|text| text.contains("${")) {
        *value = Value::Null;
    }
}

/// The value at a path, or the default of a variable.
fn reference(name: &str, whole: &Value) -> Option<Value> {
    let environment = name.strip_prefix("oc.env:").or(name.strip_prefix("env:"));
    let unasked = environment.map_or_else(|| name.split_once(':'), |rest| rest.split_once(','));
    if let Some((_, usual)) = unasked {
        return Some(serde_yaml_ng::from_str(usual.trim()).unwrap_or_else(|_| usual.trim().into()));
    }
    let at = whole.pointer(&format!("/{}", name.replace('.', "/")))?;
    (!at.is_object()).then(|| at.clone())
}
