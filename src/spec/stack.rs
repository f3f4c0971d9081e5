//! The stack file: how a training software does its work, whatever the model and the machine.
//!
//! A stack says three things. `defaults` is a piece of a workload that is laid under every workload of this stack:
//! what the software does unless told otherwise. `attention`, `optimizer` and `tensor_overlap` name the kernels that
//! it runs. `host` says what the host does to launch them; without it kernels start as soon as the device may.
//!
//! Fields that a workload gives itself count more than those of its stack. A workload without a stack has
//! [`StackSpec::default`] (`simple`): full fusion, one update kernel, no launches.

mod host;
mod optimizer;
#[cfg(test)]
mod tests;

pub use host::{GraphScope, GraphSpec, HostRead, HostSpec, LaunchTimes};
pub use optimizer::{UpdateKernels, UpdatePass, UpdateSpec};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::json;
pub use super::kernel::AttentionGeneration;
use super::problem::Problem;
use super::workload::WorkloadSpec;
use super::{Kind, Spec, SpecError};

/// How a training software does its work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StackSpec {
    /// Which software and which release, one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where what it does is documented.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// On which measured rows its figures were fitted; empty: on none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fitted_on: String,
    /// A piece of a workload: what the software does where the workload does not say otherwise.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub defaults: Map<String, Value>,
    /// The attention kernel; default: the best that the device has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionGeneration>,
    /// How it comes from gradients to new weights.
    pub optimizer: UpdateSpec,
    /// What the host does to launch kernels; absent: nothing, and kernels start as soon as the device may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
}

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
        super::first(self.problems(""))
    }
}

impl StackSpec {
    /// Everything wrong with it but its defaults; `at` is its JSON path.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let prefix = |name: &str| if at.is_empty() { name.to_string() } else { format!("{at}.{name}") };
        let mut problems = self.optimizer.problems(&prefix("optimizer"));
        problems.extend(self.host.iter().flat_map(|host| host.problems(&prefix("host"))));
        problems
    }

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

/// Lays a workload, whose references are resolved, over the defaults of its stack.
///
/// # Errors
/// The stack is not one.
pub(super) fn lay_over(workload: &mut Value) -> Result<(), SpecError> {
    let Some(stack) = workload.get("stack").filter(|stack| stack.is_object()) else { return Ok(()) };
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
