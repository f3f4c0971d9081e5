//! Words as patterns see them: case, dashes and underscores do not count, and a text may be a list of phrases.

use serde_json::Value;

use super::{glob, names};

/// A text, normalised, with its phrases.
#[derive(Clone, Debug, Default)]
pub struct Text {
    whole: String,
    /// Where each phrase begins and ends.
    phrases: Vec<(usize, usize)>,
}

impl Text {
    /// The text of a value; empty for null.
    pub fn of(value: &Value) -> Text {
        let whole = match value {
            Value::Null => String::new(),
            Value::String(text) => normal(text),
            Value::Array(list) if list.iter().all(Value::is_string) => {
                normal(&list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
            }
            other => normal(&other.to_string()),
        };
        let phrases = phrases(&whole);
        Text { whole, phrases }
    }

    /// The phrases without a known part.
    pub fn unknown(&self, known: &[(usize, usize)]) -> Vec<String> {
        let apart = |(start, end): &(usize, usize)| known.iter().all(|(from, to)| to <= start || from >= end);
        self.phrases
            .iter()
            .filter(|p| apart(p))
            .map(|(start, end)| self.whole[*start..*end].to_string())
            .collect()
    }
}

/// Lower case, one space for runs of spaces, dashes and underscores. A minus before a figure stays.
pub fn normal(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.trim().chars().flat_map(char::to_lowercase).peekable();
    while let Some(c) = letters.next() {
        let minus =
            c == '-' && out.ends_with(['=', '<', '>']) && letters.peek().is_some_and(char::is_ascii_digit);
        match c {
            '-' | '_' | '\u{2010}'..='\u{2014}' if !minus => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c if c.is_whitespace() => {
                if !out.ends_with(' ') {
                    out.push(' ');
                }
            }
            c => out.push(c),
        }
    }
    out.trim().to_string()
}

/// Where the phrases of a list stand: between commas, semicolons, slashes, plus signs and colons before a space,
/// outside of parentheses.
fn phrases(text: &str) -> Vec<(usize, usize)> {
    let (mut found, mut start, mut depth) = (Vec::new(), 0, 0i32);
    let mut push = |start: usize, end: usize| {
        let piece = &text[start..end];
        let body = piece.trim_matches(|c: char| c.is_whitespace() || c == '.');
        if !body.is_empty() {
            let from = start + piece.find(body).unwrap_or(0);
            found.push((from, from + body.len()));
        }
    };
    for (at, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ':' if depth <= 0 && text[at + 1..].starts_with(' ') => {
                push(start, at);
                start = at + 1;
            }
            // `w/o` and `w/` are words.
            '/' if text[..at].ends_with('w') => {}
            ',' | ';' | '+' | '/' | '&' if depth <= 0 => {
                push(start, at);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    push(start, text.len());
    found
}

/// The parts of a text that a pattern knows, if one of its alternatives is the whole text or one of its phrases: `*`
/// stands for anything, `~` before words means that they stand anywhere as whole words, `@` that the text says this
/// name of a model ([`names`]), and behind ` but ` stands a pattern that must not fit. The pattern is normalised.
pub fn fits(pattern: &str, text: &Text) -> Option<Vec<(usize, usize)>> {
    if let Some((body, but)) = pattern.split_once(" but ") {
        return fits(body, text).filter(|_| fits(but, text).is_none());
    }
    let mut known = Vec::new();
    let mut any = false;
    for one in pattern.split('|').map(str::trim) {
        let found = match one.split_at_checked(1) {
            Some(("~", words)) => as_words(words, &text.whole),
            Some(("@", name)) => names::says(&text.whole, name).then(|| vec![(0, text.whole.len())]),
            _ => glob::parts(one, &text.whole).or_else(|| {
                let phrase = |(start, end): &(usize, usize)| {
                    let parts = glob::parts(one, &text.whole[*start..*end])?;
                    Some(parts.into_iter().map(|(a, b)| (a + start, b + start)).collect())
                };
                text.phrases.iter().filter(|_| text.phrases.len() > 1 && !one.is_empty()).find_map(phrase)
            }),
        };
        if let Some(parts) = found {
            any = true;
            known.extend(parts);
        }
    }
    any.then_some(known)
}

/// Where words stand in a text with nothing of another word around them.
fn as_words(words: &str, text: &str) -> Option<Vec<(usize, usize)>> {
    let edge = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let whole =
        |at: usize| edge(text[..at].chars().next_back()) && edge(text[at + words.len()..].chars().next());
    let found: Vec<(usize, usize)> =
        text.match_indices(words).filter(|(at, _)| whole(*at)).map(|(at, w)| (at, at + w.len())).collect();
    (!found.is_empty()).then_some(found)
}
