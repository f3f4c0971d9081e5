//! Trials on the best layout of a search: fields that need not be tried with every layout.
//!
//! One field after the other, each of its values on the best layout so far; a value that makes the step better is
//! kept. So the fields are not tried in all combinations, and nothing is proved of them: each trial is reported.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::base::StudyBase;
use super::candidates::{LayoutCandidate, SimulatedLayout, estimated};
use super::objective::Measures;
use super::options::SearchOptions;
use super::outcome::PointOutcome;
use super::rows::StudyError;
use stepsim_core::pool;
use stepsim_simulate::RunStatus;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{ModelRef, WorkloadSpec};

/// A value that was tried.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Trial {
    /// The field.
    pub path: &'static str,
    /// The value that it was set to, beside all values kept before.
    pub value: Value,
    /// Seconds of the step; absent if there is no result that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step_time_s: Option<f64>,
    /// True if the best has it.
    pub kept: bool,
}

/// Tries the fields on the layout `first`, and returns the best if it is another, and all trials. `tell` is told how
/// many there were.
pub(super) fn refine(
    base: &StudyBase,
    first: &SimulatedLayout,
    options: &SearchOptions,
    simulate: &(dyn Fn(&LayoutCandidate) -> PointOutcome + Sync),
    tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
) -> Result<(Option<SimulatedLayout>, Vec<Trial>), StudyError> {
    let (mut best, mut trials) = (None::<SimulatedLayout>, Vec::new());
    let inputs = base.inputs(&first.candidate.sets)?;
    let ModelRef::Inline(model) = &inputs.workload.value.model else { return Ok((None, trials)) };
    for (path, values) in tried(&inputs.workload.value, model) {
        if options.asks(path) {
            continue;
        }
        let so_far = best.as_ref().unwrap_or(first);
        let score = |found: &Measures| found.score(options.objective);
        let simulated = |i: usize| {
            let mut settings = so_far.candidate.settings.clone();
            settings.insert(path.to_string(), values[i].clone());
            let candidate = estimated(base, &settings, options).ok()?;
            let outcome = simulate(&candidate);
            let found = candidate.form.simulated(&outcome).filter(|_| outcome.status == RunStatus::Ok)?;
            options.in_time(found).then_some(SimulatedLayout { candidate, found, outcome })
        };
        let from = trials.len();
        let mut better: Option<(usize, SimulatedLayout)> = None;
        for (i, result) in
            pool::all(values.len(), pool::threads(options.threads), &simulated).into_iter().enumerate()
        {
            let step_time_s = result.as_ref().map(|result| result.found.seconds);
            trials.push(Trial { path, value: values[i].clone(), step_time_s, kept: false });
            let least = better.as_ref().map_or(score(&so_far.found), |(_, result)| score(&result.found));
            if let Some(result) = result.filter(|result| score(&result.found) < least) {
                better = Some((i, result));
            }
        }
        if let Some((i, result)) = better {
            trials[from + i].kept = true;
            best = Some(result);
        }
        tell(trials.len() as u64)?;
    }
    Ok((best, trials))
}

/// Fields in the order in which they are tried, and the values of each.
fn tried(workload: &WorkloadSpec, model: &ModelSpec) -> Vec<(&'static str, Vec<Value>)> {
    let p = &workload.parallelism;
    let words = |possible: bool, words: &[&str]| -> Vec<Value> {
        words.iter().filter(|_| possible).map(|word| json!(word)).collect()
    };
    let numbers = |possible: bool, numbers: &[u64]| -> Vec<Value> {
        numbers.iter().filter(|_| possible).map(|n| json!(n)).collect()
    };
    let experts = model.moe.is_some();
    let shared = model.moe.as_ref().is_some_and(|moe| moe.shared_experts > 0);
    let overlaps: &[&str] = if shared { &["micro-batches", "shared-expert"] } else { &["micro-batches"] };
    let gathered = workload.sharding().cuts_weights();
    let o = &workload.offload;
    let offloaded = [&o.weights, &o.gradients, &o.optimizer, &o.activations].iter().any(|of| !of.is_empty());
    vec![
        ("parallelism.pipeline.layer_split", splits(model.layers, p.pipeline.stages())),
        ("parallelism.tensor_overlap", words(p.tensor > 1, &["ring", "pipelined"])),
        (
            "parallelism.expert_tensor",
            [1, p.tensor]
                .into_iter()
                .filter(|n| experts && *n != p.expert_tensor())
                .map(Value::from)
                .collect(),
        ),
        ("expert.overlap", words(experts && p.expert > 1, overlaps)),
        ("parallelism.sharding.prefetch.depth", numbers(gathered, &[2, 4])),
        (
            "parallelism.sharding.reshard_after_forward",
            [json!(false)].into_iter().filter(|_| gathered).collect(),
        ),
        ("offload.prefetch.depth", numbers(offloaded, &[2, 4])),
    ]
}

/// Layers of each stage where the last, with the head of the model, or the first, with its embedding, has fewer than
/// the others.
pub fn splits(layers: u64, stages: u64) -> Vec<Value> {
    if stages < 2 {
        return Vec::new();
    }
    let even = layers / stages;
    let split = |(first_less, last_less): (u64, u64)| {
        let last = even.checked_sub(last_less).filter(|n| *n > 0)?;
        if stages == 2 {
            return (first_less == 0).then(|| json!([layers - last, last]));
        }
        let first = even.checked_sub(first_less).filter(|n| *n > 0)?;
        let (middle, rest) = (stages - 2, layers - first - last);
        let of_middle = (0..middle).map(|i| rest / middle + u64::from(i < rest % middle));
        let split: Vec<u64> = [first].into_iter().chain(of_middle).chain([last]).collect();
        Some(json!(split))
    };
    [(0, 1), (0, 2), (1, 0), (1, 1), (1, 2)].into_iter().filter_map(split).collect()
}
