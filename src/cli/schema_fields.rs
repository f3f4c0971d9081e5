//! `stepsim schema KIND --find TEXT`: fields by a word of their path or meaning, as text.

use serde_json::Value;

/// A line a field whose path or meaning has `text`: path, type, meaning.
pub(super) fn find(schema: &Value, text: &str) -> String {
    let mut lines = Vec::new();
    walk(schema, schema, "", &mut Vec::new(), &mut lines);
    let wanted = text.to_lowercase();
    lines.retain(|line: &String| line.to_lowercase().contains(&wanted));
    lines.concat()
}

/// Visits the fields of an object: `inside` are the definitions that it stands in, for some hold themselves.
fn walk<'a>(root: &'a Value, at: &'a Value, path: &str, inside: &mut Vec<&'a str>, lines: &mut Vec<String>) {
    let definition = at["$ref"].as_str().and_then(|to| to.strip_prefix("#/$defs/"));
    if let Some(name) = definition.filter(|name| !inside.contains(name)) {
        inside.push(name);
        walk(root, &root["$defs"][name], path, inside, lines);
        inside.pop();
    }
    for kinds in ["anyOf", "oneOf", "allOf"] {
        at[kinds].as_array().into_iter().flatten().for_each(|one| walk(root, one, path, inside, lines));
    }
    if at["items"].is_object() {
        walk(root, &at["items"], &format!("{path}[0]"), inside, lines);
    }
    for (name, field) in at["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let meaning = field["description"].as_str().unwrap_or_default().replace('\n', " ");
        lines.push(format!("{path}  ({})  {meaning}\n", kind(field)));
        walk(root, field, &path, inside, lines);
    }
}

/// A field's type in a word or two, with its default.
fn kind(field: &Value) -> String {
    let name = match &field["type"] {
        Value::String(name) => name.clone(),
        Value::Array(names) => names.iter().filter_map(Value::as_str).filter(|n| *n != "null").collect(),
        _ => "object".into(),
    };
    match &field["default"] {
        Value::Null | Value::Object(_) | Value::Array(_) => name,
        default => format!("{name}, {default}"),
    }
}
