//! Nested names and values as a flat list.

use serde_json::Value;

use stepsim_spec::SpecError;

/// How deep files may be nested.
pub(super) const MAX_DEPTH: usize = 16;

/// `a: {b: 1}` as `a.b` = 1. Lists stay values; an empty map is a value too.
pub(in crate::imports) fn flatten(
    head: &str,
    value: Value,
    depth: usize,
    flat: &mut Vec<(String, Value)>,
) -> Result<(), SpecError> {
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
        value => flat.push((head.to_string(), numbered(value))),
    }
    Ok(())
}

/// `500_000` is a number.
fn numbered(value: Value) -> Value {
    let digits = |text: &str| {
        text.starts_with(|c: char| c.is_ascii_digit())
            && text.contains('_')
            && text.chars().all(|c| c.is_ascii_digit() || c == '_')
    };
    match value
        .as_str()
        .filter(|text| digits(text))
        .and_then(|text| text.replace('_', "").parse::<u64>().ok())
    {
        Some(number) => number.into(),
        None => value,
    }
}
