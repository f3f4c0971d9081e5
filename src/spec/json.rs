//! JSON before it has a type: strict reading, merging over a base, setting a value at a path.

use serde::de::Deserialize;
use serde_json::{Map, Value};
use stepsim_located::{ReadFault, untyped};

use super::SpecError;
use super::error::nearest;

/// Reads JSON; refuses keys that stand twice in one object, numbers that overflow, and anything after the value. The
/// root's `$schema` is for editors and left out.
pub fn read(file: &str, text: &str) -> Result<Value, SpecError> {
    super::budget::check_json(file, text)?;
    // Some editors begin a file with a byte-order mark.
    let mut value =
        untyped(text.strip_prefix('\u{feff}').unwrap_or(text)).map_err(|fault| not_json(file, fault))?;
    if value["$schema"].is_string() {
        value.as_object_mut().map(|root| root.shift_remove("$schema"));
    }
    Ok(value)
}

fn not_json(file: &str, ReadFault { path, problem }: ReadFault) -> SpecError {
    let hint = if problem.contains("twice") {
        "keep one of the two"
    } else if problem.contains("number out of range") {
        "numbers end at 1.8e308"
    } else {
        "JSON has no comments, no trailing commas, no NaN and no Infinity; strings take double quotes"
    };
    let path = if path == "?" { String::new() } else { path };
    SpecError { file: file.into(), ..SpecError::at(path, problem) }.hint(hint)
}

/// Reads JSON as other programs write it: Python's `NaN` and `Infinity` are null, comments and trailing commas are
/// left out.
pub fn read_of_others(file: &str, text: &str) -> Result<Value, SpecError> {
    read(file, text).or_else(|error| read(file, &strict(text)).map_err(|_| error))
}

/// A text as strict JSON.
fn strict(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => {
                let end = string_end(rest);
                out.push_str(&rest[..end]);
                end
            }
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            ']' | '}' => {
                out.truncate(out.trim_end().trim_end_matches(',').len());
                out.push(c);
                1
            }
            c => match ["-Infinity", "Infinity", "NaN"].iter().find(|word| rest.starts_with(**word)) {
                Some(word) => {
                    out.push_str("null");
                    word.len()
                }
                None => {
                    out.push(c);
                    c.len_utf8()
                }
            },
        };
        rest = &rest[length..];
    }
    out
}

/// Behind the string that a text begins with.
fn string_end(text: &str) -> usize {
    let mut escaped = false;
    let end = text.char_indices().skip(1).find(|(_, c)| {
        let ends = *c == '"' && !escaped;
        escaped = *c == '\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |(at, _)| at + 1)
}

/// Lays `over` upon `base`: objects are merged key by key, null removes a key, everything else replaces.
pub fn merge(base: &mut Value, over: Value) {
    lay(base, over);
    remove_nulls(base);
}

/// As [`merge`], but null replaces as everything else does: for a value that is itself laid over another later, from
/// which it takes the key away too.
pub(crate) fn lay(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                lay(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// Removes the keys of an object, and of the objects in it, that are null.
pub fn remove_nulls(value: &mut Value) {
    let Value::Object(map) = value else { return };
    map.retain(|_, value| !value.is_null());
    map.values_mut().for_each(remove_nulls);
}

/// One step of a path: `.key` or `[index]`.
#[derive(Debug, PartialEq)]
enum Segment<'a> {
    Key(&'a str),
    Index(usize),
}

fn steps(path: &str) -> Option<Vec<Segment<'_>>> {
    let mut steps = Vec::new();
    for part in path.split('.') {
        let (key, mut rest) = part.split_at(part.find('[').unwrap_or(part.len()));
        if !key.is_empty() {
            steps.push(Segment::Key(key));
        } else if rest.is_empty() {
            return None;
        }
        while let Some(inner) = rest.strip_prefix('[') {
            let (index, after) = inner.split_once(']')?;
            steps.push(Segment::Index(index.parse().ok()?));
            rest = after;
        }
        if !rest.is_empty() {
            return None;
        }
    }
    Some(steps)
}

/// Splits `a.b[2].c=value` into path and value: JSON if it reads as such, else a string.
pub fn setting(text: &str) -> Result<(&str, Value), SpecError> {
    let form = || {
        SpecError::file(format!("--set {text}"), "not of the form path=value")
            .allowed("a path of keys and indices, `=`, a value")
            .hint("for example --set nodes=16 or --set node.memory[0].capacity_GiB=1024")
    };
    let (path, value) = text.split_once('=').ok_or_else(form)?;
    steps(path).ok_or_else(form)?;
    let value = match read("", value) {
        // `1e2` is 100.
        Ok(value) => value.as_f64().filter(|_| value.is_f64()).map_or(value, whole),
        Err(e) if e.problem.contains("out of range") || e.problem.contains("twice") => {
            return Err(SpecError { file: format!("--set {text}"), ..e });
        }
        Err(_) => Value::String(value.to_string()),
    };
    Ok((path, value))
}

/// Puts a value at a path, making objects on the way where there is nothing. The typed reading
/// checks that the fields exist.
pub fn set(root: &mut Value, path: &str, value: Value) -> Result<(), SpecError> {
    let mut at = root;
    for step in steps(path).unwrap_or_default() {
        if at.is_null() {
            *at = Value::Object(Map::new());
        }
        let step = match step {
            Segment::Key(key) => entry(at, key).map_or(Segment::Key(key), Segment::Index),
            index => index,
        };
        at = match (step, at) {
            (Segment::Key(key), Value::Object(map)) => map.entry(key).or_insert(Value::Null),
            (Segment::Index(i), Value::Array(list)) => {
                let length = list.len();
                list.get_mut(i).ok_or_else(|| {
                    SpecError::at(path, format!("the list has no entry [{i}]")).allowed(if length == 0 {
                        "none: it is empty".into()
                    } else {
                        format!("0 to {}", length - 1)
                    })
                })?
            }
            (Segment::Key(key), other) => {
                return Err(SpecError::at(path, format!("`{key}` is looked up in {}", kind(other)))
                    .hint("set the whole value instead, as JSON"));
            }
            (Segment::Index(i), other) => {
                return Err(SpecError::at(path, format!("[{i}] is looked up in {}", kind(other))));
            }
        };
    }
    *at = value;
    Ok(())
}

/// True if an error at `at` is about a setting at `set`: the same place, one inside it, or a name on the way.
pub(super) fn covers(set: &str, at: &str) -> bool {
    !at.is_empty() && (within(at, set) || within(set, at))
}

/// True if a path leads to a field, or to something in it.
pub fn within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The entry of a list that a key means: its number, or the name that the entry gives itself (`memory.host`).
fn entry(list: &Value, key: &str) -> Option<usize> {
    let list = list.as_array()?;
    key.parse().ok().or_else(|| list.iter().position(|entry| entry["name"] == key))
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reads a typed value; the error says path, value and what is allowed.
pub fn typed<T: for<'de> Deserialize<'de>>(value: &Value) -> Result<T, SpecError> {
    stepsim_located::typed(value).map_err(|fault| explain(fault.path, &fault.problem, value))
}

/// Turns serde's sentence into problem, allowed and hint.
fn explain(path: String, message: &str, root: &Value) -> SpecError {
    let quoted = |text: &str| text.split('`').skip(1).step_by(2).map(str::to_string).collect::<Vec<_>>();
    let (problem, expected) = message.split_once(", expected ").unwrap_or((message, ""));
    if let Some(rest) = problem.strip_prefix("unknown field ").or(problem.strip_prefix("unknown variant ")) {
        let name = quoted(rest).into_iter().next().unwrap_or_default();
        let names = quoted(expected);
        let what = if problem.starts_with("unknown field") { "no such field" } else { "no such choice" };
        let path = if path.rsplit(['.', ']']).next() == Some(&name) || path.is_empty() {
            if path.is_empty() { name.clone() } else { path }
        } else if what == "no such field" {
            format!("{path}.{name}")
        } else {
            path
        };
        let near = nearest(&name, names.iter().map(String::as_str));
        let hint = near.first().map(|near| format!("did you mean `{near}`?")).unwrap_or_default();
        return SpecError::at(path, format!("{what}: `{name}`")).allowed(names.join(", ")).hint(hint);
    }
    if let Some(rest) = problem.strip_prefix("missing field ") {
        let name = quoted(rest).into_iter().next().unwrap_or_default();
        return SpecError::at(path, format!("the field `{name}` is missing"))
            .hint(format!("add \"{name}\": …"));
    }
    let invalid = ["invalid type: ", "invalid value: ", "invalid length "];
    if let Some(found) = invalid.iter().find_map(|prefix| problem.strip_prefix(prefix)) {
        let shown = lookup(root, &path).map_or(found.to_string(), brief);
        let hint = match expected {
            ONE_KEY => "to change the kind over a `base`, set the base's kind to null",
            _ => "",
        };
        return SpecError::at(path, format!("{shown} is not allowed")).allowed(plain(expected)).hint(hint);
    }
    SpecError::at(path, message.to_string())
}

fn lookup<'a>(root: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = root;
    for step in steps(path)? {
        at = match step {
            Segment::Key(key) => at.get(key)?,
            Segment::Index(i) => at.get(i)?,
        };
    }
    Some(at)
}

/// A value as a message shows it: at most 60 characters.
fn brief(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// serde's word for an externally tagged enum.
const ONE_KEY: &str = "map with a single key";

/// serde's names of types in plain words.
fn plain(expected: &str) -> String {
    match expected {
        "f64" | "f32" => "a number".into(),
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number, not negative".into(),
        "a boolean" => "true or false".into(),
        ONE_KEY => "an object with exactly one field, which names the kind: {\"kind\": {…}}".into(),
        "a sequence" => "a list".into(),
        _ => match (expected.strip_prefix("struct "), expected.strip_prefix("a tuple of size ")) {
            (Some(name), _) => format!("an object ({})", name.split_whitespace().next().unwrap_or_default()),
            (_, Some(size)) => format!("a list of {size} values"),
            _ => expected.trim_start_matches("internally tagged ").to_string(),
        },
    }
}

/// A number as JSON, whole where it is.
pub fn whole(number: f64) -> Value {
    if number.fract() == 0.0 && number.abs() < 9e15 { (number as i64).into() } else { number.into() }
}
