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
        let as_json = |value: &WorkloadSpec| stepsim_located::to_value(value).unwrap_or_default();
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
