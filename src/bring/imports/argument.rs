//! What became of an argument of a file.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

/// An argument of a file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Argument {
    /// Its name as the file has it; parts of nested files joined by dots.
    pub name: String,
    /// Its value.
    pub value: Value,
    /// Its outcome.
    pub status: Status,
    /// Fields of the workload that it set.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
    /// Why it has no counterpart, or of what it is only a limit.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// Fields that it leaves open, with what they may be.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub open: BTreeMap<String, Vec<Value>>,
}

impl Argument {
    /// Something that a file says, or leaves open: it is not in the workload, and may change the step.
    pub(super) fn doubted(name: impl Into<String>, value: Value, why: impl Into<String>) -> Argument {
        let (name, why, fields, open) = (name.into(), why.into(), Vec::new(), BTreeMap::new());
        Argument { name, value, status: Status::Matters, fields, why, open }
    }
    /// A limit of what happens, or what is left open.
    pub(super) fn limit(self, open: BTreeMap<String, Vec<Value>>) -> Argument {
        Argument { status: Status::Taken, open, ..self }
    }
}

/// The outcome of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// It is in the workload.
    Taken,
    /// Its value is a file that is not here; the workload has what the name of the file tells.
    Assumed,
    /// It has no counterpart and does not change the time or memory of a step.
    NoEffect,
    /// It says nothing (null, auto): the software's own default holds.
    NotGiven,
    /// It has no counterpart, or its value has none, and it matters.
    Matters,
    /// The table does not know it.
    Unknown,
}
