//! A function of Python that sets attributes of a configuration: `cfg.model.tensor_model_parallel_size = 4`.
//!
//! Nothing is executed. An attribute that is set to a plain value is an argument by its path behind the configuration's name;
//! of a call with one plain value that value is taken. The recipe that the function begins with is the argument `recipe`, and
//! what its own name says of the job (`..._64gpu_h100_...`) are `recipe.devices` and `recipe.device`.

use serde_json::Value;

use super::super::super::SpecError;

/// Whether a text is of this kind.
pub(super) fn looks_like(text: &str) -> bool {
    text.lines().any(|line| line.starts_with("def ")) && text.lines().any(|line| set(line).is_some())
}

/// The arguments of the one function that sets any.
pub(super) fn read(text: &str) -> Result<Vec<(String, Value)>, SpecError> {
    let mut functions = functions(text);
    match functions.len() {
        1 => Ok(functions.remove(0).1),
        _ => {
            let names: Vec<&str> = functions.iter().map(|(name, _)| name.as_str()).collect();
            Err(SpecError::at("", format!("holds {} recipes: which?", names.len()))
                .allowed(names.join(", "))
                .hint(format!("name one behind the file: `FILE.py:{}`", names.first().unwrap_or(&"NAME"))))
        }
    }
}

/// The arguments of all functions.
pub(super) fn all(text: &str) -> Vec<(String, Value)> {
    functions(text).into_iter().flat_map(|(_, arguments)| arguments).collect()
}

/// The text of one function, where there is one of that name.
pub(in crate::step::spec::imports) fn function(text: &str, name: &str) -> Option<String> {
    let head = |line: &&str| defined(line) == Some(name);
    let mut lines = text.lines().skip_while(|line| !head(line));
    let first = lines.next()?;
    let body = lines.take_while(|line| !line.starts_with(|c: char| !c.is_whitespace() && c != ')'));
    Some(std::iter::once(first).chain(body).collect::<Vec<_>>().join("\n"))
}

/// Functions that set attributes, with their arguments; the last value of an attribute counts.
fn functions(text: &str) -> Vec<(String, Vec<(String, Value)>)> {
    let mut all: Vec<(String, Vec<(String, Value)>)> = Vec::new();
    for line in text.lines() {
        if let Some(name) = defined(line) {
            all.push((name.to_string(), of_name(name)));
        }
        let Some((_, arguments)) = all.last_mut() else { continue };
        for (name, value) in set(line).into_iter().chain(of_call(line)) {
            arguments.retain(|(other, _)| *other != name);
            arguments.push((name, value));
        }
    }
    all.retain(|(name, arguments)| arguments.len() > of_name(name).len());
    all
}

/// The name behind `def`.
fn defined(line: &str) -> Option<&str> {
    line.strip_prefix("def ")?.split('(').next().map(str::trim)
}

/// `NAME.path.of.attribute = value`, or `NAME = recipe()`.
fn set(line: &str) -> Option<(String, Value)> {
    let (target, value) = line.strip_prefix([' ', '\t'])?.trim().split_once(" = ")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    if !target.chars().all(plain) {
        return None;
    }
    let (_, path) = target.split_once('.').unwrap_or(("", ""));
    if path.is_empty() {
        let recipe = value.split('(').next().filter(|name| name.ends_with("_config"))?;
        return Some(("recipe".into(), recipe.into()));
    }
    literal(value.trim()).map(|value| (path.to_string(), value))
}

/// `NAME.path = Call(a=1, b=False)` sets `path.a` and `path.b`.
fn of_call(line: &str) -> Vec<(String, Value)> {
    let call = || {
        let (target, value) = line.strip_prefix([' ', '\t'])?.trim().split_once(" = ")?;
        let (_, path) = target.split_once('.')?;
        Some((path, value.strip_suffix(')')?.split_once('(')?.1))
    };
    let Some((path, inside)) = call() else { return Vec::new() };
    let named = inside.split(',').filter_map(|part| part.trim().split_once('='));
    named.filter_map(|(name, value)| Some((format!("{path}.{name}"), literal(value.trim())?))).collect()
}

/// A number, a truth, a text, `None`, a list of these, or a call with one of them.
fn literal(text: &str) -> Option<Value> {
    let text = text.split("  #").next().unwrap_or_default().trim();
    if let Some((name, inside)) = text.strip_suffix(')').and_then(|call| call.split_once('(')) {
        let called = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.'));
        return if called { literal(inside).filter(Value::is_string) } else { None };
    }
    let text = match text {
        "True" => "true",
        "False" => "false",
        "None" => "null",
        other => other,
    };
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&text.replace('\'', "\"")))
        .ok()
        .filter(|value: &Value| !value.is_object())
}

/// What a recipe's name says: `llama3_70b_pretrain_64gpu_h100_bf16_config`.
fn of_name(name: &str) -> Vec<(String, Value)> {
    let words: Vec<&str> = name.split('_').collect();
    let at = words.iter().position(|w| w.strip_suffix("gpu").is_some_and(|n| n.parse::<u64>().is_ok()));
    let Some(at) = at else { return Vec::new() };
    let devices = words[at].trim_end_matches("gpu").parse::<u64>().ok();
    let device = words.get(at + 1).map(|device| ("recipe.device".to_string(), Value::from(*device)));
    devices.map(|n| ("recipe.devices".to_string(), Value::from(n))).into_iter().chain(device).collect()
}
