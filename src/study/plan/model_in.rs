//! The model that a workload names or holds.

use serde_json::Value;

use stepsim_spec::{ModelSpec, load};

/// The model of a workload, where it can be read.
pub(super) fn model_in(workload: &Value) -> Option<ModelSpec> {
    let content = &workload["model"];
    let text = content.as_str().map_or_else(|| content.to_string(), str::to_owned);
    load::<ModelSpec>(&text, &[]).ok().map(|loaded| loaded.value)
}
