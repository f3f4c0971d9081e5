//! The statements of a file and its settings beyond the defaults, and those without effect.

use serde_json::Value;

use super::load::LoadedSpec;
use super::model::ModelSpec;
use super::topology::Topology;
use super::workload::{NoEffect, WorkloadSpec};
use super::{dependents, json, stack_defaults};

/// Parts of a workload that stand for themselves: what they say has an effect, or is checked where it is read.
const APART: [&str; 8] =
    ["name", "description", "topology", "model", "sequence", "batch", "documents", "stack"];

impl LoadedSpec<WorkloadSpec> {
    /// The statements without effect on `devices`: settings that others replace, fields that a kind has left behind,
    /// and fields that do not act.
    pub fn without_effect(&self, model: &ModelSpec, devices: u64) -> Vec<NoEffect> {
        let mut stated = (*self.own).clone();
        let sets: Vec<_> = self.sets.iter().filter_map(|set| json::setting(set).ok()).collect();
        let paths: Vec<&str> = sets.iter().map(|(path, _)| *path).collect();
        sets.into_iter().for_each(|(path, new)| drop(json::set(&mut stated, path, new)));
        let left = dependents::settle(&mut stated, &paths);
        let fields = self.beyond_defaults(&stated);
        let inert = self.value.inert(&fields, model, devices);
        replaced(&self.sets).into_iter().chain(left).chain(inert).collect()
    }

    /// The fields of a value whose content is not what the workload would have without them.
    fn beyond_defaults(&self, stated: &Value) -> Vec<String> {
        let as_json = |value: &WorkloadSpec| serde_json::to_value(value).unwrap_or_default();
        let whole = as_json(&self.value);
        let mut bare = serde_json::json!({"model": "any", "batch": whole["batch"], "stack": whole["stack"]});
        let laid = stack_defaults::lay_over(&mut bare);
        let usual = laid.and_then(|()| json::typed(&bare)).as_ref().map(as_json).unwrap_or_default();
        let mut fields = Vec::new();
        for (name, value) in stated.as_object().into_iter().flatten() {
            if !APART.contains(&name.as_str()) {
                collect(value, &whole[name], &usual[name], name, &mut fields);
            }
        }
        fields
    }
}

/// The paths of an object's values, of those in it too, where `whole` is not as `usual`.
fn collect(stated: &Value, whole: &Value, usual: &Value, path: &str, fields: &mut Vec<String>) {
    match stated {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| {
                collect(value, &whole[key], &usual[key], &format!("{path}.{key}"), fields);
            });
        }
        _ if whole == usual => {}
        _ => fields.push(path.to_string()),
    }
}

impl LoadedSpec<Topology> {
    /// The settings that have no effect, because others replace them.
    pub fn settings_without_effect(&self) -> Vec<NoEffect> {
        replaced(&self.sets)
    }
}

/// Settings that a later one replaces.
fn replaced(sets: &[String]) -> Vec<NoEffect> {
    let later =
        |i: usize, set: &String| sets[i + 1..].iter().find(|later| json::within(path(set), path(later)));
    let replaced = sets.iter().enumerate().filter_map(|(i, set)| {
        let by = later(i, set).filter(|by| *by != set)?;
        Some(NoEffect { field: set.clone(), why: format!("{} comes after it", path(by)) })
    });
    replaced.collect()
}

fn path(set: &str) -> &str {
    set.split_once('=').map_or(set, |(path, _)| path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::load;

    fn inert(name: &str, sets: &[&str]) -> Vec<(String, String)> {
        let sets: Vec<String> = sets.iter().map(|set| set.to_string()).collect();
        let loaded = load::<WorkloadSpec>(name, &sets).expect("a workload");
        let crate::spec::workload::ModelRef::Inline(model) = &loaded.value.model else { unreachable!() };
        let found = loaded.without_effect(model, 8);
        found.into_iter().map(|inert| (inert.field, inert.why)).collect()
    }

    #[test]
    fn what_has_no_effect_is_named_with_its_reason() {
        let said = |sets: &[&str]| {
            let found = inert("gpt2-8", sets);
            found.iter().map(|(field, why)| format!("{field} ({why})")).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(said(&[]), "");
        assert_eq!(said(&["parallelism.sequence_parallel=true"]), "parallelism.sequence_parallel (tensor 1)");
        assert_eq!(said(&["parallelism.sequence_parallel=false"]), "", "it says what holds anyway");
        assert_eq!(
            said(&["parallelism.pipeline.schedule=zb-h1"]),
            "parallelism.pipeline.schedule (one stage)"
        );
        assert_eq!(
            said(&["expert_load.balance=factor", "expert_load.max_over_mean=2"]),
            "expert_load (no experts)",
            "fields of one object are one"
        );
        assert_eq!(
            said(&["parallelism.sharding.gather_bucket_bytes=1"]),
            "parallelism.sharding.gather_bucket_bytes (nothing is sharded)"
        );
        assert_eq!(
            said(&["stack=fsdp2-compiled", "parallelism.sharding.kind=none"]),
            "",
            "a stack's field is nobody's"
        );
        assert_eq!(
            said(&["batch.micro_batch=4", "batch={\"global\":64}"]),
            "batch.micro_batch=4 (batch comes after it)"
        );
    }

    #[test]
    fn what_a_kind_leaves_behind_is_named() {
        let found = inert("llama3-8b-fsdp", &["parallelism.sharding.kind=zero1"]);
        let left = "parallelism.sharding.reshard_after_forward";
        assert!(found.contains(&(left.into(), "not with kind zero1".into())), "{found:?}");
    }
}
