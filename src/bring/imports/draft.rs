//! A workload on its way from a file of other software.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::Argument;

/// A workload on its way.
#[derive(Debug, Default)]
pub(super) struct Draft {
    /// What fields hold so far; the model's under `model`.
    pub(super) workload: Value,
    /// The software's defaults of a model that a file writes out; a model by name has its own.
    pub(super) model: Value,
    /// Quantities that several arguments share.
    pub(super) variables: BTreeMap<String, Value>,
    /// Those that arguments say.
    pub(super) said: BTreeSet<String>,
    /// What followed from several arguments or was assumed, in words.
    pub(super) assumed: Vec<String>,
    /// What is not in the workload and may change the step.
    pub(super) doubts: Vec<Argument>,
}
