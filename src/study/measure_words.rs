//! The words with which training software runs ten steps of a layout.

use serde::Deserialize;
use stepsim_spec::workload::{Granularity, WorkloadSpec};

/// The names that software has for the parts of a layout; an empty one has no counterpart.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LayoutNames {
    /// How the names of its stacks begin.
    stacks: Vec<String>,
    /// The head of a name, and the sign between it and its value.
    written: [String; 2],
    /// The name of the tensor-parallel degree.
    pub tensor: String,
    /// Of pipeline stages.
    pub pipeline: String,
    /// Of the context-parallel degree.
    pub context: String,
    /// Of the expert-parallel degree.
    pub expert: String,
    /// Of sequences in a micro-batch.
    pub micro_batch: String,
    /// Of sequences in a step.
    pub batch: String,
    steps: String,
}

/// Software by its stacks; names as in `workloads/imports/*.json`, which a test holds them to.
///
/// # Panics
/// The shipped file is no such table.
pub fn software() -> Vec<LayoutNames> {
    serde_json::from_str(include_str!("measure_words.json")).expect("the shipped names are well formed")
}

/// Steps that are run to measure one; the first ones warm up.
const STEPS: u64 = 10;

/// The words that give a run of this software the layout of a workload, and ten steps; `None` where none are known.
pub(super) fn measure_words(stack: &str, workload: &WorkloadSpec) -> Option<String> {
    let names =
        software().into_iter().find(|names| names.stacks.iter().any(|head| stack.starts_with(head)))?;
    let p = &workload.parallelism;
    let [head, between] = names.written;
    let values = [
        (names.tensor, p.tensor),
        (names.pipeline, p.pipeline.size),
        (names.context, p.context.size),
        (names.expert, p.expert),
        (names.micro_batch, workload.batch.micro_batch),
        (names.batch, workload.batch.global),
        (names.steps, STEPS),
    ];
    let words = values.into_iter().filter(|(name, _)| !name.is_empty());
    let words: Vec<String> = words.map(|(name, value)| format!("{head}{name}{between}{value}")).collect();
    let recompute = match workload.recompute.granularity {
        Granularity::None => "no recomputation",
        Granularity::Selective => "selective recomputation",
        Granularity::Full => "full recomputation",
        Granularity::Modules => "recomputation of modules",
    };
    Some(format!("{} (sharding {}, {recompute})", words.join(" "), workload.sharding().name))
}
