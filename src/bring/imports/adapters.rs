//! Low-rank adapters, where arguments say them together: whether there are any, their rank, which matrices have them.

use serde_json::{Value, json};

use super::draft::WorkloadDraft;
use super::table::plain;
use stepsim_spec::model::MoeSpec;
use stepsim_spec::{ModelSpec, load};

/// Matrices by the names of software that trains adapters.
const MATRICES: &str = "q_proj=query k_proj=key v_proj=value o_proj=projection output_proj=projection \
    gate_proj=gate up_proj=up down_proj=down linear_proj=projection query_key_value=query";

impl WorkloadDraft {
    /// Puts the adapters, where the file has any; a list without matrices that are known here means all.
    pub(super) fn adapters(&mut self) {
        let says =
            |value: &Value| value.as_str().is_some_and(|kind| kind.to_ascii_lowercase().contains("lora"));
        let told = self.said.contains("adapter");
        if !told
            && self.variables.contains_key("adapter_by_rank")
            && self.said.contains("adapter_rank")
            && !self.variables.get("adapter").is_some_and(says)
        {
            self.by_rank();
        }
        if !self.variables.get("adapter").is_some_and(says) {
            return;
        }
        let rank = self.variable("adapter_rank").unwrap_or(8);
        self.put("training.adapters.rank", rank.into());
        let known = |name: &str| {
            let mut pairs = MATRICES.split_whitespace().filter_map(|pair| pair.split_once('='));
            pairs.find(|(known, _)| *known == name).map(|(_, matrix)| matrix)
        };
        let said = self.variables.get("adapter_matrices").map(names).unwrap_or_default();
        let all: Option<Vec<&str>> = said.iter().map(|name| known(name)).collect();
        let mut of = Vec::new();
        all.into_iter().flatten().for_each(|matrix| of.extend(Some(matrix).filter(|new| !of.contains(new))));
        if !of.is_empty() {
            self.put("training.adapters.of", json!(of));
        }
    }

    /// Adapters that are named by their rank alone, by programs of their own: the frozen weights are in the format of
    /// products, as a model is loaded for them.
    fn by_rank(&mut self) {
        self.variables.insert("adapter".into(), "lora".into());
        self.put("training.adapters.format", "fp32".into());
        let compute = self.workload.pointer("/precision/compute").cloned();
        if let Some(format) = compute.filter(|format| format != "fp32") {
            self.assumed.push(format!(
                "frozen weights in {}: adapters are named by their rank alone",
                format.as_str().unwrap_or_default()
            ));
            self.put("precision.weights", format.clone());
            self.put("precision.gradients", format);
        }
    }
}

/// The model of a workload, where it can be read.
pub(super) fn model_of(workload: &Value) -> Option<ModelSpec> {
    let content = &workload["model"];
    load::<ModelSpec>(&plain(content), &[]).ok().map(|loaded| loaded.value)
}

/// Leaves out what is said of experts, or of a shared one, where the model has none, as the software does.
pub(super) fn without_experts(workload: &mut Value) {
    let shared = |moe: &MoeSpec| moe.shared_experts > 0 || moe.shared_ffn.is_some();
    let dense = |model: ModelSpec| model.layer_counts().iter().all(|(layer, _)| layer.moe.is_none());
    if !workload["expert"].is_null() && model_of(workload).is_some_and(dense) {
        workload.as_object_mut().and_then(|fields| fields.shift_remove("expert"));
    }
    let asks = workload.pointer("/expert/overlap").is_some_and(|overlap| overlap == "shared-expert");
    if asks && model_of(workload).is_some_and(|model| !model.moe.as_ref().is_some_and(shared)) {
        workload["expert"]["overlap"] = Value::Null;
        stepsim_spec::json::remove_nulls(&mut workload["expert"]);
    }
}

/// Leaves out adapters of matrices that the model has not, and of experts, which are not simulated; why, where some
/// are left out.
pub(super) fn of_what_is_there(workload: &mut Value) -> Option<String> {
    let model = model_of(workload)?;
    let adapters = workload.pointer("/training/adapters").filter(|adapters| !adapters.is_null())?;
    let experts = model.layer_counts().iter().any(|(layer, _)| layer.moe.is_some());
    let all = ["query", "key", "value", "projection", "gate", "up", "down"];
    let of = adapters.get("of").filter(|of| of.is_array());
    let stated = of.map_or_else(|| all.map(str::to_owned).to_vec(), names);
    let is_there = |matrix: &str| match matrix {
        "gate" => model.gated_mlp && !experts,
        "up" | "down" => !experts,
        _ => true,
    };
    let kept: Vec<&String> = stated.iter().filter(|matrix| is_there(matrix)).collect();
    if kept.len() == stated.len() || kept.is_empty() {
        return None;
    }
    workload["training"]["adapters"]["of"] = json!(kept);
    let why = "adapters of experts are left out (a matrix of all of them is no linear layer): attention alone has some";
    experts.then(|| why.to_owned())
}

/// The words of a list, or of a text with blanks or commas between.
fn names(value: &Value) -> Vec<String> {
    let words =
        |text: &str| text.split([' ', ',']).filter(|w| !w.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    match value {
        Value::Array(list) => list.iter().filter_map(Value::as_str).flat_map(words).collect(),
        Value::String(text) => words(text),
        _ => Vec::new(),
    }
}
