//! A workload on its way from a file of other software.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::argument::Argument;
use super::readable::UnreadNumber;

/// A workload on its way.
#[derive(Debug, Default)]
pub(super) struct WorkloadDraft {
    /// The fields so far; the model's under `model`.
    pub(super) workload: Value,
    /// The software's defaults of a model that a file writes out; a model by name has its own.
    pub(super) model: Value,
    /// Quantities that several arguments share.
    pub(super) variables: BTreeMap<String, Value>,
    /// Those that arguments say.
    pub(super) said: BTreeSet<String>,
    /// Values that followed from several arguments or were assumed, in words.
    pub(super) assumed: Vec<String>,
    /// Facts outside of the workload that may change the step.
    pub(super) doubts: Vec<Argument>,
    /// Numbers that cannot be read.
    pub(super) unread: Vec<UnreadNumber>,
}

/// A workload with what became of it on the way.
pub(super) struct DraftResult {
    pub(super) workload: Value,
    /// Values that followed from several arguments or were assumed, in words.
    pub(super) assumed: Vec<String>,
    pub(super) doubts: Vec<Argument>,
}
