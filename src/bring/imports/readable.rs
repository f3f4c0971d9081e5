//! Numbers that a file says in a way that nobody can read: no default takes their place.

use serde_json::Value;

use super::table::plain;
use stepsim_spec::SpecError;
use stepsim_spec::json::whole;

/// A number, of an argument, that cannot be read.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct UnreadNumber {
    /// The field, or quantity with `$`, that it is for.
    to: String,
    name: String,
    value: Value,
    allowed: &'static str,
}

impl UnreadNumber {
    /// True if it counts devices, which may be said beside the file.
    pub(super) fn is_of_machine(&self) -> bool {
        has(MACHINE, &self.to)
    }
    /// The refusal of the file that says it.
    pub(super) fn error(&self, file: &str) -> SpecError {
        let problem = format!("{} = {} cannot be read", self.name, plain(&self.value));
        let error = match self.to.starts_with('$') {
            true => SpecError::file(file, problem),
            false => SpecError::at(&self.to, problem).in_file(file),
        };
        error.allowed(self.allowed).hint("write the number that the run has")
    }
}

/// Quantities and fields that are counts, from which others follow.
const COUNTS: &str = "accumulation adapter_rank chunks decoder_sequence ffn_given ffn_multiple ffn_rounded_to \
    layers_per_chunk mamba_groups mamba_head_size mamba_heads mamba_state micro_batch_of_all micro_batch_tokens \
    pad_vocabulary pipeline_micro_batch pipeline_micro_batches prompt_length recompute_layers recompute_one_in \
    replica_batch replica_batch_over_stages replicate response_length rollout_batch sequences sequences_a_sample \
    shard steps_per_rollout tensor context pipeline expert tokens_per_gpu tokens_per_step model.layers model.hidden \
    model.ffn model.heads model.kv_heads model.vocabulary model.moe.experts sequence batch.global batch.micro_batch \
    first_stage_layers last_stage_layers parallelism.tensor parallelism.context.size parallelism.pipeline.size \
    parallelism.expert parallelism.data";
/// Those that may have a fraction.
const AMOUNTS: &str = "ffn_ratio ffn_multiplier offload_fraction per_device_batch";
/// Those of a machine.
const MACHINE: &str = "devices gpus_per_node nodes";
/// Words by which a launcher counts devices itself.
const COUNTED: &str = "auto cpu cuda gpu hpu max mps npu xpu";
/// Those that −1 leaves to the software.
const LEFT: &str = "parallelism.data replicate shard tensor context pipeline expert chunks replica_batch sequences \
    batch.global";

fn has(list: &str, to: &str) -> bool {
    list.split_whitespace().any(|known| known == to.trim_start_matches('$'))
}

/// True if a quantity or field is a number that others follow from.
pub(super) fn is_number(to: &str) -> bool {
    has(COUNTS, to) || has(AMOUNTS, to)
}

/// The value of a quantity or field as an argument says it.
///
/// # Errors
/// A number is needed, and this is none that counts or measures anything.
pub(super) fn read(to: &str, name: &str, value: Value) -> Result<Value, UnreadNumber> {
    let is_machine = has(MACHINE, to);
    if !is_number(to) && !is_machine || value.is_null() {
        return Ok(value);
    }
    let text = value.as_str().unwrap_or_default();
    if is_machine && (has(COUNTED, text) || text.contains(':')) {
        return Ok(value);
    }
    let number = match &value {
        Value::String(text) => text.replace(['_', ','], "").trim().parse().ok(),
        other => other.as_f64(),
    };
    let is_left = |n: f64| n == -1.0 && (is_machine || has(LEFT, to));
    let measures = has(AMOUNTS, to);
    match number.filter(|n: &f64| n.is_finite() && (*n >= 0.0 || is_left(*n))) {
        Some(n) if measures => Ok(n.into()),
        Some(n) if n.fract() == 0.0 => Ok(whole(n)),
        _ => {
            let allowed = if measures { "a number, not negative" } else { "a whole number, not negative" };
            Err(UnreadNumber { to: to.to_owned(), name: name.to_owned(), value, allowed })
        }
    }
}
