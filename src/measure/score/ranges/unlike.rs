//! Layouts to measure: the best, and two that differ from it in kind.

use stepsim_step::spec::workload::{Granularity, WorkloadSpec};

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

/// A device fuller than this has to give memory back and ask again (all ten steps of nanotron's sweep that were
/// measured to fill 89 % or more took 2.9 to 8.3 times what is simulated).
pub const FULL: f64 = 0.8;
/// The cost of each further part of the device: it leaves the choice among development rows as good as without.
const FULL_COSTS: f64 = 0.2;

/// The cost of a layout, from its step and the part of device memory that it fills.
pub fn cost_of(step_s: f64, memory: Option<f64>) -> f64 {
    step_s * (1.0 + FULL_COSTS * (memory.unwrap_or_default() - FULL).max(0.0))
}

/// The places of three candidates, given their kinds and costs: the cheapest, then the cheapest of each kind that is
/// not among them; where kinds run out, the next by cost.
pub fn three_unlike<K: PartialEq>(candidates: &[(K, f64)]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_by(|a, b| candidates[*a].1.total_cmp(&candidates[*b].1));
    let mut chosen: Vec<usize> = Vec::new();
    for &at in &order {
        if chosen.len() < WORTH && chosen.iter().all(|other| candidates[*other].0 != candidates[at].0) {
            chosen.push(at);
        }
    }
    let rest: Vec<usize> = order.into_iter().filter(|at| !chosen.contains(at)).collect();
    chosen.extend(rest.into_iter().take(WORTH.saturating_sub(chosen.len())));
    chosen
}
