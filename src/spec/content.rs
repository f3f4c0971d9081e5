//! Hashes over the content of files: spelling and order of keys do not count.

use serde_json::{Value, json};

/// The content of a file, each field of it hashed: another value of one field is another hash at little cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    fields: Vec<(String, u64)>,
}

impl Content {
    /// Of a value whose keys are in the order of its type.
    pub fn of(value: &Value) -> Content {
        let of_field = |(name, value): (&String, &Value)| (name.clone(), fnv(&value.to_string()));
        match value {
            Value::Object(map) => Content { fields: map.iter().map(of_field).collect() },
            other => Content { fields: vec![(String::new(), fnv(&other.to_string()))] },
        }
    }
    /// The same with another value of a field that it has.
    pub fn with(&self, name: &str, value: &Value) -> Content {
        let mut content = self.clone();
        content.put(name, Content::of_field(value));
        content
    }
    /// Another value of a field that it has, by its hash.
    pub(super) fn put(&mut self, name: &str, hash: u64) {
        self.fields.iter_mut().filter(|field| field.0 == name).for_each(|field| field.1 = hash);
    }
    /// The hash of one field's value.
    pub(super) fn of_field(value: &Value) -> u64 {
        fnv(&value.to_string())
    }
    /// 16 hex digits.
    pub fn hash(&self) -> String {
        let all = self.fields.iter().fold(BASIS, |hash, (name, field)| {
            let of_name = more(hash, name.bytes());
            more(of_name, field.to_le_bytes())
        });
        format!("{all:016x}")
    }
}

/// 16 hex digits over the content of a value, as [`Content::hash`].
pub fn content_hash(value: &impl serde::Serialize) -> String {
    Content::of(&stepsim_located::to_value(value).unwrap_or(json!(null))).hash()
}

/// 16 hex digits over a text.
pub fn hash(text: &str) -> String {
    format!("{:016x}", fnv(text))
}

const BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, 64 bits.
fn fnv(text: &str) -> u64 {
    more(BASIS, text.bytes())
}

fn more(hash: u64, bytes: impl IntoIterator<Item = u8>) -> u64 {
    bytes.into_iter().fold(hash, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
