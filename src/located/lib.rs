//! JSON read into types, with the place where it is wrong.
//!
//! [`typed`] reads a value, [`from_text`] a text, [`shipped`] one that is known to be right, [`untyped`] one that has no type yet. All types are read from one
//! deserializer, so that each is compiled once: a wrapper around another's visitors doubles a program.
//!
//! Invariant: it knows no type but JSON's.

mod key;
mod place;
mod typed;
mod untyped;

use std::cell::Cell;
use std::fmt;

use place::Place;
use serde::de::{Deserialize, DeserializeOwned};
use serde_json::Value;
pub use untyped::untyped;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Keys and indices from the root, as `a.b[2].c`; empty at the root. A key that cannot be read is `?`.
    pub path: String,
    /// What is wrong there, in serde's words.
    pub problem: String,
}

/// A value as a type.
///
/// # Errors
/// The value is none of the type.
pub fn typed<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, Fault> {
    let failed = Cell::new(None);
    let place = Place::Root(&failed);
    T::deserialize(typed::Located { value, place: &place }).map_err(|error| fault(failed.take(), &error))
}

/// A text as a type: one document, to its end; the problem says line and column.
///
/// # Errors
/// The text is no JSON, or its value none of the type.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    serde_json::from_str(text).map_err(|error| {
        let path = match untyped(text) {
            Err(fault) => fault.path,
            Ok(value) => typed::<T>(&value).err().unwrap_or_else(|| fault(None, &error)).path,
        };
        fault(Some(path), &error)
    })
}

/// A shipped text as a type, read as a value is: a type that files and the program share is compiled once.
///
/// # Errors
/// As [`from_text`], but the problem of a type says no line.
pub fn shipped<T: DeserializeOwned>(text: &str) -> Result<T, Fault> {
    let value: Value = serde_json::from_str(text).map_err(|error| fault(None, &error))?;
    typed(&value)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{place}{}", self.path, self.problem)
    }
}

fn fault(path: Option<String>, error: &serde_json::Error) -> Fault {
    Fault { path: path.unwrap_or_default(), problem: error.to_string() }
}
