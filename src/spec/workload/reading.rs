//! The doubts of reading files of other software into a workload. They change nothing of the step that is played: they
//! take its range away, or widen it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The doubts of reading files of other software into a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ReadingSpec {
    /// Words that were not understood, or have no counterpart: each may change the step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_understood: Vec<String>,
    /// Words that only limit what happens: the step takes at most its simulated time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub at_most: Vec<String>,
    /// Fields that words leave open.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub open: Vec<OpenField>,
    /// Where each part comes from: stated, from the model, the software's default, or assumed.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, Vec<String>>,
}

/// A field that words leave open.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OpenField {
    /// The words.
    pub words: String,
    /// The field.
    pub path: String,
    /// Its other values beside the simulated one.
    pub values: Vec<Value>,
}

impl ReadingSpec {
    /// True if nothing stayed open.
    pub fn is_default(&self) -> bool {
        *self == ReadingSpec::default()
    }
}
