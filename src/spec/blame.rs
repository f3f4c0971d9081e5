//! The setting that an error is about, and the place of a field that was looked for elsewhere.

use super::{Kind, SpecError, Topology, json};

/// Fields of a workload by the names that launch scripts and papers have for them.
const SHORT: [(&str, &str); 24] = [
    ("tp", "parallelism.tensor"),
    ("tensor_parallel", "parallelism.tensor"),
    ("pp", "parallelism.pipeline.size"),
    ("pipeline_parallel", "parallelism.pipeline.size"),
    ("vp", "parallelism.pipeline.chunks"),
    ("vpp", "parallelism.pipeline.chunks"),
    ("dp", "parallelism.data"),
    ("data_parallel", "parallelism.data"),
    ("cp", "parallelism.context.size"),
    ("ep", "parallelism.expert"),
    ("etp", "parallelism.expert_tensor"),
    ("sp", "parallelism.sequence_parallel"),
    ("mbs", "batch.micro_batch"),
    ("micro_batch_size", "batch.micro_batch"),
    ("gbs", "batch.global"),
    ("global_batch_size", "batch.global"),
    ("batch_size", "batch.global"),
    ("seq", "sequence"),
    ("seq_len", "sequence"),
    ("seq_length", "sequence"),
    ("zero", "parallelism.sharding.kind"),
    ("fsdp", "parallelism.sharding.kind"),
    ("dtype", "precision.compute"),
    ("software", "stack"),
];

/// A field that was looked for in the wrong place of a workload, or is one of the machine: says where it is.
pub(super) fn meant_elsewhere(kind: Kind, error: SpecError) -> SpecError {
    if kind != Kind::Workload || !error.problem.starts_with("no such field") {
        return error;
    }
    let last = error.path.rsplit('.').next().unwrap_or_default();
    let model =
        || ["layers", "hidden", "heads", "kv_heads", "ffn", "vocabulary"].contains(&error.path.as_str());
    let short = SHORT.iter().find(|(name, _)| *name == last).map(|(_, path)| (*path).to_string());
    if let Some(path) = short.or_else(|| model().then(|| format!("model.{}", error.path))) {
        return error.hint(format!("`--set {path}=…`"));
    }
    let name = error.path.split(['.', '[']).next().unwrap_or_default().to_string();
    // A machine that has nothing but this field is wrong too; a field that no machine has is its first fault.
    let alone: Result<Topology, _> = json::typed(&serde_json::json!({ &name: null }));
    if alone.is_err_and(|e| e.problem.starts_with("no such field")) {
        return error;
    }
    let hint =
        format!("`{name}` is the machine's: `--set topology.{name}=…`, or a field of the machine's file");
    error.hint(hint)
}

/// Names the setting that an error is about, if it is about one: the last that touches its path.
pub(super) fn blame(error: SpecError, settings: &[(&str, &String)]) -> SpecError {
    match settings.iter().rev().find(|(path, _)| json::covers(path, &error.path)) {
        Some((_, text)) => error.in_file(&format!("--set {text}")),
        None => error,
    }
}

/// The same for settings as they were given: for errors that show only when the value meets another.
pub fn blame_setting(error: SpecError, sets: &[String]) -> SpecError {
    let settings: Vec<_> = sets.iter().filter_map(|text| Some((text.split_once('=')?.0, text))).collect();
    blame(error, &settings)
}
