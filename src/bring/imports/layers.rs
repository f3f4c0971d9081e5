//! Layers that differ, as Megatron writes them: a letter for each layer, or a list of the layers with experts.

use serde_json::{Value, json};

use super::WorkloadDraft;
use stepsim_spec::SpecError;

impl WorkloadDraft {
    /// `M-M*-E`: what each layer holds (megatron/core/models/hybrid/hybrid_layer_allocation.py). Behind a slash stand
    /// the layers of prediction modules, a bar parts pipeline stages.
    pub(super) fn hybrid_layers(&mut self) -> Result<(), SpecError> {
        let Some(pattern) = self.variables.get("hybrid_layers").and_then(Value::as_str) else {
            return Ok(());
        };
        let letters = pattern.split('/').next().unwrap_or_default().replace('|', "");
        let kind = |letter: char| match letter {
            'M' => Ok("mamba"),
            '*' | '+' => Ok("attention"),
            '-' => Ok("mlp"),
            'E' => Ok("experts"),
            other => {
                let problem = format!("'{other}' of the layers {letters} is no kind that is known");
                Err(SpecError::at("model.layer_pattern", problem).allowed("M, *, +, - and E"))
            }
        };
        let kinds = letters.chars().map(kind).collect::<Result<Vec<_>, _>>()?;
        let number = |draft: &WorkloadDraft, name, usual| draft.variable(name).unwrap_or(usual);
        let head_size = number(self, "mamba_head_size", 64).max(1);
        let heads = number(self, "mamba_heads", 2 * self.number("model.hidden").unwrap_or(0) / head_size);
        let mamba = json!({"mamba2": {
            "heads": heads, "head_size": head_size,
            "groups": number(self, "mamba_groups", 8), "state": number(self, "mamba_state", 128),
            "convolution": 4, "convolution_bias": true, "chunk": 128,
        }});
        let all = [
            ("mamba", json!({"mixer": mamba, "mlp": "none"})),
            ("attention", json!({"mlp": "none"})),
            ("mlp", json!({"mixer": "none", "mlp": "dense"})),
            ("experts", json!({"mixer": "none", "mlp": "experts"})),
        ];
        let used: serde_json::Map<String, Value> = all
            .into_iter()
            .filter(|(name, _)| kinds.contains(name))
            .map(|(name, kind)| (name.to_string(), kind))
            .collect();
        if let Some(experts) =
            self.number("model.moe.experts").filter(|n| *n > 1 && !kinds.contains(&"experts"))
        {
            let problem = format!("{experts} experts, and no layer of {letters} has any");
            return Err(SpecError::at("model.layer_pattern", problem).allowed("E for layers of experts"));
        }
        self.put("model.layers", kinds.len().into());
        self.put("model.layer_kinds", Value::Object(used));
        self.put("model.layer_pattern", kinds.iter().map(|kind| json!([kind, 1])).collect());
        Ok(())
    }

    /// `[0]*3+[1]*58`, or every how many layers have experts.
    pub(super) fn expert_layers(&mut self) {
        let Some(given) = self.variables.get("expert_layers").cloned() else { return };
        let list = match &given {
            Value::Number(every) => {
                return self.put("model.moe.every_layers", every.clone().into());
            }
            Value::String(text) => sum_of_lists(text),
            Value::Array(values) => values.iter().map(Value::as_u64).collect(),
            _ => None,
        };
        let Some((first, every)) = list.as_deref().and_then(regular) else {
            return self.doubt(
                "expert_layers",
                given,
                "no pattern that is followed: experts in every layer here",
            );
        };
        self.put("model.moe.first_dense_layers", first.into());
        self.put("model.moe.every_layers", every.into());
    }
}

/// The values of `[0]*3+[1]*58`.
pub fn sum_of_lists(text: &str) -> Option<Vec<u64>> {
    let bare: String = text.chars().filter(|c| !" ()'\"".contains(*c)).collect();
    let mut values = Vec::new();
    for part in bare.split('+') {
        let (list, times) = part.split_once(']')?;
        let list: Vec<u64> =
            list.strip_prefix('[')?.split(',').map(|n| n.parse().ok()).collect::<Option<_>>()?;
        let times = if times.is_empty() { 1 } else { times.strip_prefix('*')?.parse::<usize>().ok()? };
        values.extend(list.repeat(times.min(10_000)));
    }
    Some(values)
}

/// How many zeros stand first, and every how many there is a one from then on.
pub fn regular(list: &[u64]) -> Option<(u64, u64)> {
    let first = list.iter().position(|n| *n == 1)?;
    let every = list[first + 1..].iter().position(|n| *n == 1).map_or(1, |n| n + 1);
    let expected = |at: usize| u64::from(at >= first && (at - first).is_multiple_of(every));
    let is_so = list.iter().enumerate().all(|(at, n)| *n == expected(at));
    is_so.then_some((first as u64, every as u64))
}
