//! What stayed open when files of other software were read into this one. It changes nothing of the step that is
//! played: it takes its range away, or widens it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What stayed open when files of other software were read into this one.
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
    /// Values that nothing says and that were assumed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub assumed: Option<u32>,
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
    /// What it may be beside what is simulated.
    pub values: Vec<Value>,
}

impl ReadingSpec {
    /// True if nothing stayed open.
    pub fn is_default(&self) -> bool {
        *self == ReadingSpec::default()
    }
}
