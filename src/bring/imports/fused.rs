//! Parts of a model that have a kernel of their own, each said by an argument of its own.

use serde_json::{Value, json};

use super::adapters::model_of;
use super::draft::WorkloadDraft;

impl WorkloadDraft {
    /// Puts the parts that arguments name over the stack, whichever stands first in the file.
    pub(super) fn fused(&mut self) {
        let Some(parts) = self.variables.get("fused").cloned() else { return };
        let mut stack = match self.workload.get("stack") {
            Some(Value::String(base)) => json!({"base": base}),
            Some(stack) => stack.clone(),
            None => json!({}),
        };
        stack["fused"] = parts;
        if self.makes_logits_in_tiles() {
            stack["copies"] = json!({"logits": false});
        }
        self.put("stack", stack);
    }

    fn makes_logits_in_tiles(&self) -> bool {
        self.variables.contains_key("loss_kernel")
    }

    /// Logits of Liger's fused linear cross-entropy: few enough tokens at a time that they take no more memory than
    /// the head's input (Liger-Kernel, ops/fused_linear_cross_entropy.py). Cut cross-entropy keeps them on the chip,
    /// and takes as long as three products (Wijmans et al. 2024, arXiv 2411.09009, table 1: 145 ms of Gemma 2 2B on
    /// A100).
    pub(super) fn tiled_loss(&mut self) {
        let Some(model) = model_of(&self.workload).filter(|_| self.makes_logits_in_tiles()) else { return };
        let length =
            self.number("sequence").unwrap_or(model.sequence) / self.degree("parallelism.context.size");
        let tokens = self.degree("batch.micro_batch").saturating_mul(length.max(1)).min(1 << 40);
        let wider = model.vocabulary.div_ceil(model.hidden.max(1)).max(1);
        let tokens_of_tile = tokens.div_ceil(wider).next_power_of_two();
        let tiles = tokens.div_ceil(tokens_of_tile);
        self.put("loss.tiles", tiles.into());
        self.assumed.push(format!(
            "loss.tiles = {tiles}: {tokens_of_tile} tokens at a time, as a loss fused with the head takes them"
        ));
    }
}
