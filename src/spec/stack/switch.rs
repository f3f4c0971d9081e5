//! The switches of a software: what its users turn on with a word or two.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A switch of a software.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    /// Its name.
    pub name: String,
    /// The fields of a workload that it sets: `path=value` texts.
    pub sets: Vec<String>,
}
