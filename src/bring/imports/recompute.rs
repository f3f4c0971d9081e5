//! Recomputation from the arguments that say it together: how much, by which method, how many layers, which parts.
//!
//! Facts (Megatron-LM, megatron/training/arguments.py and core/transformer/transformer_block.py): `uniform` keeps the
//! input of every n-th layer; `block` recomputes n layers of each model chunk and keeps the rest; parts count where
//! the granularity is `selective`, and attention's core alone is meant where none are named.

use serde_json::{Value, json};

use super::WorkloadDraft;

impl WorkloadDraft {
    pub(super) fn recompute(&mut self) {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).map(str::to_owned);
        let granularity = text(self.workload.pointer("/recompute/granularity"));
        let method = text(self.variables.get("recompute_method"));
        let layers = self.variable("recompute_layers").filter(|layers| *layers > 0);
        match (granularity.as_deref(), method.as_deref(), layers) {
            (Some("full"), Some("uniform"), Some(layers)) if layers > 1 => {
                self.put("recompute.every_layers", layers.into());
            }
            (Some("full"), Some("block"), Some(layers)) => {
                let chunks = self.number("parallelism.pipeline.chunks").unwrap_or(1).max(1);
                self.put("recompute.layers", layers.saturating_mul(chunks).into());
            }
            _ => {}
        }
        if let Some((each, layers)) = self.variable("recompute_one_in").zip(self.number("model.layers")) {
            self.put("recompute.layers", layers.div_ceil(each.max(1)).into());
        }
        if self.says("cut_inputs") && self.degree("parallelism.tensor") > 1 {
            let why = "kept inputs are cut over tensor ranks with sequence parallelism alone here";
            self.doubt("partition_activations", true.into(), why);
        }
        let Some(parts) = self.workload.pointer("/recompute/modules").cloned() else { return };
        let is_core = parts == json!(["attention-core"]) || parts == json!([]);
        if granularity.as_deref() == Some("selective") && !is_core {
            self.put("recompute.granularity", "modules".into());
        } else if granularity.as_deref() != Some("modules")
            && let Some(recompute) = self.workload.get_mut("recompute").and_then(Value::as_object_mut)
        {
            recompute.shift_remove("modules");
        }
    }
}
