//! The model that a workload names or holds.

use serde_json::Value;

use crate::step::spec::{ModelSpec, load};

/// The model of a workload, where it can be read.
pub(super) fn model_in(workload: &Value) -> Option<ModelSpec> {
    match &workload["model"] {
        Value::String(name) => load::<ModelSpec>(name, &[]).ok().map(|loaded| loaded.value),
        content => load::<ModelSpec>(&content.to_string(), &[]).ok().map(|loaded| loaded.value),
    }
}
