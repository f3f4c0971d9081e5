//! A configuration against its baseline, and each change alone.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::baseline::{Baseline, GateLimits, GateSide};
use crate::plan::RunPlan;
use stepsim_measure::score::ranges::told;
use stepsim_read::analysis::answer::Answer;
use stepsim_simulate::jump::glanced;
use stepsim_simulate::{Options, SimulationError};

/// Fields that say where a workload comes from, and change no step.
const ABOUT: [&str; 5] = ["description", "source", "name", "reading", "$schema"];
/// The same step, within this part of it.
const SAME: f64 = 1e-6;

/// The report about a changed configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateReport {
    /// True if the configuration is within the limits.
    pub passes: bool,
    /// The baseline's own figures.
    pub agreed: GateSide,
    /// The baseline's workload, played by this program.
    pub before: GateSide,
    /// The workload of today.
    pub after: GateSide,
    /// The answer about it.
    pub answer: Answer,
    /// How much longer the step is than before, as a part of it.
    pub step_change: f64,
    /// How much more memory it takes, as a part of it.
    pub memory_change: f64,
    /// By how much the program itself moved the baseline's step, as a part of it.
    pub program_change: f64,
    /// The release that wrote the baseline, and this one.
    pub releases: [String; 2],
    /// The limits, on step and memory.
    pub limits: [f64; 2],
    /// Changed parts of the workload, each played alone, the dearest first.
    pub changes: Vec<GateChange>,
}

/// A changed part of a workload.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateChange {
    /// Fields: each with what it was and what it is.
    pub fields: BTreeMap<String, [Value; 2]>,
    /// The baseline's step with it alone; none where it cannot be alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alone: Option<GateSide>,
}

/// Holds a plan against a baseline.
///
/// # Errors
/// One of the two steps cannot be played.
pub fn gate(baseline: &Baseline, plan: &RunPlan, limits: GateLimits) -> Result<GateReport, SimulationError> {
    let machine_sets = &plan.machine_sets;
    let before = GateSide::played(&baseline.workload, machine_sets)?;
    let inputs = plan.inputs()?;
    let report = told(&inputs, glanced(&inputs, &Options::default())?);
    let after = GateSide::of(&report);
    let part = |now: f64, then: f64| now / then - 1.0;
    let step_change = part(after.step_s, before.step_s);
    let memory_change = part(after.memory_bytes as f64, before.memory_bytes.max(1) as f64);
    let alone = |fields: BTreeMap<String, [Value; 2]>| {
        let sets = fields.iter().map(|(path, [_, now])| format!("{path}={now}"));
        let sets: Vec<String> = machine_sets.iter().cloned().chain(sets).collect();
        GateChange { alone: GateSide::played(&baseline.workload, &sets).ok(), fields }
    };
    let mut changes: Vec<GateChange> =
        changed(&baseline.workload, &plan.workload).into_values().map(alone).collect();
    let costs =
        |change: &GateChange| change.alone.map_or(f64::MAX, |alone| (alone.step_s - before.step_s).abs());
    changes.sort_by(|a, b| costs(b).total_cmp(&costs(a)));
    Ok(GateReport {
        passes: step_change <= limits.step && memory_change <= limits.memory,
        agreed: baseline.predicted,
        before,
        after,
        answer: report.answer,
        step_change,
        memory_change,
        program_change: part(before.step_s, baseline.predicted.step_s),
        releases: [baseline.stepsim.clone(), env!("CARGO_PKG_VERSION").into()],
        limits: [limits.step, limits.memory],
        changes,
    })
}

/// The fields that two workloads do not share, by the part that they are in.
fn changed(before: &Value, after: &Value) -> BTreeMap<String, BTreeMap<String, [Value; 2]>> {
    let [mut a, mut b] = [BTreeMap::new(), BTreeMap::new()];
    leaves("", before, &mut a);
    leaves("", after, &mut b);
    let mut parts: BTreeMap<String, BTreeMap<String, [Value; 2]>> = BTreeMap::new();
    let paths: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for path in paths {
        let part = path.split('.').next().unwrap_or_default();
        let of = |side: &BTreeMap<String, Value>| side.get(path).cloned().unwrap_or_default();
        let (then, now) = (of(&a), of(&b));
        if then != now && !ABOUT.contains(&part) {
            parts.entry(part.to_owned()).or_default().insert(path.clone(), [then, now]);
        }
    }
    parts
}

/// The values of a document by path; lists are values.
fn leaves(path: &str, value: &Value, out: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                leaves(&path, value, out);
            }
        }
        Value::Null => {}
        value => drop(out.insert(path.to_owned(), value.clone())),
    }
}

impl GateReport {
    /// True if the program itself gives the baseline's workload another step than when it was agreed on.
    pub fn program_moved(&self) -> bool {
        self.program_change.abs() > SAME
    }
}
