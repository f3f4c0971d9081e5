//! JSON read into types, with the place where it is wrong.
//!
//! [`typed()`] reads a value, [`from_text`] a text, [`shipped`] one that is known to be right, [`untyped()`] one
//! without a type. All types are read from one deserializer, so that each is compiled once: a wrapper around
//! another's visitors doubles a program. [`to_value`] is the way back.
//!
//! Invariant: it knows no type but JSON's.

mod fault;
mod key;
mod place;
mod typed;
mod untyped;

use std::cell::Cell;

pub use fault::ReadFault;
use fault::fault;
use place::ValuePlace;
use serde::Serialize;
use serde::de::{Deserialize, DeserializeOwned};
use serde_json::Value;
pub use untyped::untyped;

/// A value as a type.
///
/// # Errors
/// The value is none of the type.
pub fn typed<'de, T: Deserialize<'de>>(value: &'de Value) -> Result<T, ReadFault> {
    let failed = Cell::new(None);
    let place = ValuePlace::Root(&failed);
    T::deserialize(typed::ValueAt { value, place: &place }).map_err(|error| fault(failed.take(), &error))
}

/// A type as a value, as serde_json makes it. In a browser by way of a text: a type that is written too is compiled
/// for writing alone then, and the page is smaller.
///
/// # Errors
/// The type cannot be written as JSON.
pub fn to_value(of: impl Serialize) -> serde_json::Result<Value> {
    if cfg!(target_family = "wasm") {
        serde_json::from_slice(&serde_json::to_vec(&of)?)
    } else {
        serde_json::to_value(of)
    }
}

/// A text as a type: one document, to its end; the problem says line and column.
///
/// # Errors
/// The text is no JSON, or its value none of the type.
pub fn from_text<T: DeserializeOwned>(text: &str) -> Result<T, ReadFault> {
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
pub fn shipped<T: DeserializeOwned>(text: &str) -> Result<T, ReadFault> {
    let value: Value = serde_json::from_str(text).map_err(|error| fault(None, &error))?;
    typed(&value)
}
