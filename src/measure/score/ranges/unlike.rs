//! Layouts to measure: the best, and two that differ from it in kind.

use stepsim_spec::workload::{Granularity, WorkloadSpec};

/// How many layouts are worth ten measured steps each.
const WORTH: usize = 3;

/// Two layouts are unlike if only one has a dimension, gathers weights, or recomputes as it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutKind {
    tensor: bool,
    pipeline: bool,
    context: bool,
    gathers_weights: bool,
    recompute: Granularity,
}

impl LayoutKind {
    /// The kind of a workload's layout.
    pub fn of(workload: &WorkloadSpec) -> LayoutKind {
        let p = &workload.parallelism;
        LayoutKind {
            tensor: p.tensor > 1,
            pipeline: p.pipeline.size > 1,
            context: p.context.size > 1,
            gathers_weights: workload.sharding().dense.weights.is_cut(),
            recompute: workload.recompute.granularity,
        }
    }
}

/// The places of three candidates, given their kinds, best first: the first, then the best of each kind that is not
/// among them; where kinds run out, the next ones.
pub fn three_unlike<K: PartialEq>(best_first: &[K]) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    for (at, kind) in best_first.iter().enumerate() {
        if chosen.len() < WORTH && chosen.iter().all(|other| best_first[*other] != *kind) {
            chosen.push(at);
        }
    }
    let rest: Vec<usize> = (0..best_first.len()).filter(|at| !chosen.contains(at)).collect();
    chosen.extend(rest.into_iter().take(WORTH.saturating_sub(chosen.len())));
    chosen
}
