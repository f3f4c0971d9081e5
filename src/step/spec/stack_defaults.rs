//! A stack's defaults are a piece of a workload: the workload is laid over them.

use serde_json::{Map, Value};

use super::error::{SpecError, first};
use super::json;
use super::kernel::AttentionGeneration;
use super::kind::{Kind, Spec};
use super::stack::StackSpec;
use super::workload::WorkloadSpec;

/// What `defaults` may hold: everything of a workload that is not the model, the batch or the machine.
const OF_A_WORKLOAD: [&str; 10] = [
    "parallelism",
    "precision",
    "optimizer",
    "gradient_buckets",
    "recompute",
    "offload",
    "fusion",
    "expert_load",
    "fidelity",
    "noise",
];

impl Spec for StackSpec {
    const KIND: Kind = Kind::Stack;

    fn validate(&self) -> Result<(), SpecError> {
        self.check_defaults().map_err(|e| e.under("defaults"))?;
        first(self.problems(""))
    }
}

impl StackSpec {
    /// Whether `defaults` is a piece of a workload.
    fn check_defaults(&self) -> Result<(), SpecError> {
        if let Some(key) = self.defaults.keys().find(|key| !OF_A_WORKLOAD.contains(&key.as_str())) {
            return Err(SpecError::at(key.as_str(), format!("no such field: `{key}`"))
                .allowed(OF_A_WORKLOAD.join(", "))
                .hint("the model, the batch and the machine are the workload's"));
        }
        let mut whole = serde_json::json!({"model": "any", "batch": {"global": 1}});
        json::merge(&mut whole, Value::Object(self.defaults.clone()));
        json::typed::<WorkloadSpec>(&whole).map(drop)
    }
}

/// Lays a workload, whose references are resolved, over the defaults of its stack: with `null` it takes away what its base or
/// its stack has, and no null is left.
///
/// # Errors
/// The stack is not one.
pub(super) fn lay_over(workload: &mut Value) -> Result<(), SpecError> {
    if let Some(stack) = workload.get_mut("stack") {
        json::remove_nulls(stack);
    }
    let Some(stack) = workload.get("stack").filter(|stack| stack.is_object()) else {
        json::remove_nulls(workload);
        return Ok(());
    };
    let stack: StackSpec = json::typed(stack).map_err(|e| e.under("stack"))?;
    stack.validate().map_err(|e| e.under("stack"))?;
    let mut whole = Value::Object(stack.defaults);
    json::merge(&mut whole, workload.take());
    if let Some(attention) = stack.attention
        && let Some(model) = whole.get_mut("model").and_then(Value::as_object_mut)
    {
        let unfused = attention == AttentionGeneration::Unfused;
        let written = model.entry("attention").or_insert_with(|| Value::Object(Map::new()));
        if let Some(written) = written.as_object_mut() {
            written.entry("kernel").or_insert(if unfused { "standard" } else { "flash" }.into());
        }
    }
    *workload = whole;
    Ok(())
}
