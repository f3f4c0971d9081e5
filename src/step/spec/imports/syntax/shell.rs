//! A shell line or script: `--name value` wherever it stands, in the command or in arrays of arguments.
//!
//! Nothing is executed: variables are replaced where the text sets them to a plain value before (`N=8`, `N=${N:-8}`), a value
//! that is still open afterwards says nothing. Branches of `if` are all read; of an argument that stands twice the last counts.

use std::collections::BTreeMap;

use serde_json::Value;

use super::super::super::SpecError;

/// Whether a text has arguments of this kind: a word that begins with `--`.
pub(super) fn looks_like(text: &str) -> bool {
    text.lines().any(|line| {
        line.split('#')
            .next()
            .unwrap_or_default()
            .split_whitespace()
            .any(|w| w.trim_start_matches(['"', '\'']).starts_with("--"))
    })
}

pub(super) fn read(text: &str) -> Result<Vec<(String, Value)>, SpecError> {
    let mut variables: BTreeMap<String, String> = BTreeMap::new();
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    // Whether plain words belong to the argument before them.
    let mut open = false;
    for token in tokens(text)? {
        let Token::Word(raw) = token else {
            open = false;
            continue;
        };
        if let (false, Some((name, value))) = (raw.starts_with('-'), assignment(&raw)) {
            if let Some(value) = expand(value, &variables) {
                variables.insert(name.to_string(), value);
            }
            open = false;
            continue;
        }
        let word = expand(&raw, &variables);
        if let Some(name) =
            raw.strip_prefix("--").filter(|name| name.starts_with(|c: char| c.is_ascii_alphabetic()))
        {
            let (name, value) =
                name.split_once('=').map_or((name, None), |(name, value)| (name, Some(value)));
            let name = name.replace('-', "_");
            found.retain(|(other, _)| *other != name);
            open = value.is_none();
            let value = value.map(|v| expand(v, &variables).unwrap_or_default());
            found.push((name, value.into_iter().collect()));
        } else if raw.contains("[@]") || raw.contains("[*]") || raw.ends_with(".py") {
            open = false;
        } else if open && let Some((_, values)) = found.last_mut() {
            values.push(word.unwrap_or_default());
        }
    }
    Ok(found.into_iter().map(|(name, values)| (name, value(values))).collect())
}

/// No value: given. One: a number, a truth or a text. More: a list.
fn value(mut values: Vec<String>) -> Value {
    match values.len() {
        0 => Value::Bool(true),
        1 => scalar(values.remove(0)),
        _ => values.into_iter().map(scalar).collect(),
    }
}

fn scalar(text: String) -> Value {
    if let Ok(number) = text.parse::<f64>()
        && number.is_finite()
    {
        return crate::step::spec::json::whole(number);
    }
    match text.as_str() {
        "True" | "true" => true.into(),
        "False" | "false" => false.into(),
        _ => text.into(),
    }
}

/// `NAME=value` at the start of a word.
fn assignment(word: &str) -> Option<(&str, &str)> {
    let (name, value) = word.split_once('=')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(plain))
        .then_some((name, value))
}

/// A word with its variables replaced; `None` where one is not known.
fn expand(word: &str, variables: &BTreeMap<String, String>) -> Option<String> {
    let mut out = String::new();
    let mut rest = word;
    while let Some(at) = rest.find('$') {
        out += &rest[..at];
        rest = &rest[at + 1..];
        let (name, after, default) = if let Some(inner) = rest.strip_prefix('{') {
            let (inner, after) = inner.split_once('}')?;
            let (name, default) = inner.split_once(":-").map_or((inner, None), |(n, d)| (n, Some(d)));
            (name, after, default)
        } else {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            (&rest[..end], &rest[end..], None)
        };
        out += variables.get(name).map(String::as_str).or(default.map(|d| d.trim_matches('"')))?;
        rest = after;
    }
    Some(out + rest)
}

/// A word, or the end of a command or of a list.
enum Token {
    Word(String),
    End,
}

/// Words without their quotes and comments; quoted words that hold an argument and its value come apart.
fn tokens(text: &str) -> Result<Vec<Token>, SpecError> {
    let mut tokens = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    let end = |word: &mut String, tokens: &mut Vec<Token>| {
        if !word.is_empty() {
            tokens.push(Token::Word(std::mem::take(word)));
        }
    };
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                // A line goes on; anything else stands for itself.
                match chars.next() {
                    Some('\n') | None => {}
                    Some('\r') => drop(chars.next_if_eq(&'\n')),
                    Some(other) => word.push(other),
                }
            }
            '\'' | '"' => {
                let mut inside = String::new();
                loop {
                    match chars.next() {
                        Some(q) if q == c => break,
                        Some('\\') if c == '"' => inside.extend(chars.next()),
                        Some(other) => inside.push(other),
                        None => return Err(SpecError::at("", format!("a quote {c} is not closed"))),
                    }
                }
                match inside.split_once(char::is_whitespace) {
                    Some((name, value)) if word.is_empty() && name.starts_with("--") => {
                        tokens.push(Token::Word(name.to_string()));
                        word = value.trim().trim_matches(['\'', '"']).to_string();
                    }
                    _ => word += &inside,
                }
            }
            '#' if word.is_empty() => while chars.next_if(|c| *c != '\n').is_some() {},
            '$' if chars.peek() == Some(&'(') => {
                // A command or a sum: not known.
                let mut depth = 0;
                for c in chars.by_ref() {
                    depth += i32::from(c == '(') - i32::from(c == ')');
                    if depth == 0 {
                        break;
                    }
                }
                word += "$?";
            }
            '$' if chars.peek() == Some(&'{') => {
                word.push('$');
                for c in chars.by_ref() {
                    word.push(c);
                    if c == '}' {
                        break;
                    }
                }
            }
            ';' | '|' | '&' | ')' => {
                end(&mut word, &mut tokens);
                tokens.push(Token::End);
            }
            // An array begins: its name is no word.
            '(' => word.clear(),
            '\n' | '\r' => {
                end(&mut word, &mut tokens);
            }
            c if c.is_whitespace() => end(&mut word, &mut tokens),
            c => word.push(c),
        }
    }
    end(&mut word, &mut tokens);
    Ok(tokens)
}
