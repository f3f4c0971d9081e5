//! One event of the Trace Event Format, with its numbers still as text.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

/// A JSON object as its members, in their order; of equal names the last one counts.
#[derive(Default)]
pub struct Members<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

impl<'a> Members<'a> {
    /// The value of a member as JSON text; null is none.
    pub fn raw(&self, name: &str) -> Option<&'a str> {
        let found = self.0.iter().rev().find(|m| m.0 == name)?;
        Some(found.1.get().trim()).filter(|text| *text != "null")
    }
    /// The value of a member: the content of a string, the JSON text of anything else.
    pub fn text(&self, name: &str) -> Option<Cow<'a, str>> {
        self.raw(name).map(plain)
    }
    /// The value of a member as a whole number, be it a number or a string that holds one.
    pub fn whole(&self, name: &str) -> Option<i64> {
        let text = self.text(name)?;
        text.parse().ok().or_else(|| text.strip_suffix(".0")?.parse().ok())
    }
    /// The members of a member.
    pub fn members(&self, name: &str) -> Members<'a> {
        self.raw(name).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }
}

/// The content of a string, the JSON text of anything else.
pub(super) fn plain(json: &str) -> Cow<'_, str> {
    match json.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        None => Cow::Borrowed(json),
        Some(inner) if !inner.contains('\\') => Cow::Borrowed(inner),
        // An escape that is no character (half of a surrogate pair) leaves the text as it stands.
        Some(inner) => serde_json::from_str(json).map_or(Cow::Borrowed(inner), Cow::Owned),
    }
}

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Collect;
        impl<'de> Visitor<'de> for Collect {
            type Value = Members<'de>;
            fn expecting(&self, f: &mut fmt::Formatter) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::with_capacity(8);
                while let Some(NameKey(name)) = map.next_key()? {
                    members.push((name, map.next_value()?));
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Collect)
    }
}

/// A name that is borrowed where it holds no escape.
#[derive(serde::Deserialize)]
struct NameKey<'a>(#[serde(borrow)] Cow<'a, str>);

/// Reads an event.
pub fn parse(bytes: &str) -> Result<Members<'_>, serde_json::Error> {
    serde_json::from_str(bytes)
}

/// The text of an event that strict JSON can read, if it can be had: control characters in strings become spaces,
/// bytes that are no UTF-8 and escapes that JSON lacks their plain look, `NaN`, `nan`, `Infinity` and `inf` null.
pub fn mended(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    let mut in_string = false;
    while let Some(c) = rest.next() {
        match c {
            '"' => {
                in_string = !in_string;
                out.push(c);
            }
            '\\' if in_string => match rest.next() {
                Some(e @ ('"' | '\\' | '/' | 'b' | 'f' | 'n' | 'r' | 't' | 'u')) => out.extend([c, e]),
                Some(other) => out.extend(["\\\\", &other.to_string()]),
                None => {}
            },
            _ if in_string => out.push(if c < ' ' { ' ' } else { c }),
            'N' | 'n' | 'I' | 'i' => {
                let mut word = String::from(c);
                while let Some(letter) = rest.next_if(char::is_ascii_alphabetic) {
                    word.push(letter);
                }
                match word.to_ascii_lowercase().as_str() {
                    "nan" | "inf" | "infinity" => {
                        if out.ends_with('-') {
                            out.pop();
                        }
                        out.push_str("null");
                    }
                    _ => out.push_str(&word),
                }
            }
            _ => out.push(c),
        }
    }
    serde_json::from_str::<IgnoredAny>(&out).is_ok().then_some(out)
}
