//! A stack's defaults are a piece of a workload: the workload is laid over them.

use serde_json::{Map, Value};

use super::error::{SpecError, first};
use super::kernel::AttentionGeneration;
use super::kind::{Kind, Spec};
use super::stack::StackSpec;
use super::workload::WorkloadSpec;
use super::{dependents, json};
use stepsim_schedule::ScheduleChoice;

/// The parts of a workload that `defaults` may hold: all but the model, the batch and the machine.
const OF_A_WORKLOAD: [&str; 11] = [
    "parallelism",
    "precision",
    "optimizer",
    "gradient_buckets",
    "recompute",
    "offload",
    "fusion",
    "loss",
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
    /// Checks that `defaults` is a piece of a workload.
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

/// Lays a workload, whose references are resolved, over the defaults of its stack: with `null` it takes away what its
/// base or its stack has, and no null is left.
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
    dependents::settle_under(&mut whole, workload);
    let says_how = workload.pointer("/parallelism/pipeline/p2p").is_some();
    json::merge(&mut whole, workload.take());
    if !says_how {
        fit_exchanges(&mut whole);
    }
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

/// A stack sends and receives as the schedules need that it has. With a schedule that it does not have and that
/// cannot run so, its exchanges are as those software make them that have it: batched (Megatron's
/// `send_forward_recv_forward`) where that can run, else asynchronous.
fn fit_exchanges(workload: &mut Value) {
    let Some(pipeline) = workload.pointer_mut("/parallelism/pipeline") else { return };
    let named = pipeline.get("schedule").and_then(Value::as_str).and_then(ScheduleChoice::find);
    let ScheduleChoice::Named(schedule) = named.unwrap_or_default() else { return };
    let facts = schedule.facts();
    let fits = |exchange: &str| match exchange {
        "blocking" => facts.in_line(),
        "batched" => facts.batched && facts.prompt,
        _ => true,
    };
    let other = if fits("batched") { "batched" } else { "async" };
    if let Some(exchange) = pipeline.get_mut("p2p").filter(|e| !e.as_str().is_some_and(fits)) {
        *exchange = other.into();
    }
}
