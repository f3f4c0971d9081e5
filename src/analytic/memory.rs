//! What one rank's device memory holds at its fullest.

use crate::plan::step::groups::Degrees;
use crate::plan::step::{State, Unit};
use crate::spec::workload::{Placement, ShardingKind, WorkloadSpec};

/// Bytes in device memory, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Weights that stay.
    pub weights: f64,
    /// Gradients that stay.
    pub gradients: f64,
    /// Optimizer state that stays.
    pub optimizer: f64,
    /// Kept activations of all micro-batches in flight.
    pub activations: f64,
    /// Weights gathered or copied in for the units in work.
    pub gathered: f64,
    /// Short-lived tensors of the unit in work, and its activations while it is recomputed.
    pub workspace: f64,
}

impl Memory {
    /// Every class with its name.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("weights", self.weights),
            ("gradients", self.gradients),
            ("optimizer state", self.optimizer),
            ("activations", self.activations),
            ("gathered weights", self.gathered),
            ("workspace", self.workspace),
        ]
    }
    /// All of them.
    pub fn total(&self) -> f64 {
        self.named().iter().map(|class| class.1).sum()
    }
}

/// Which of weights, gradients and optimizer state a kind of sharding cuts.
pub fn cut(kind: ShardingKind) -> [bool; 3] {
    match kind {
        ShardingKind::None => [false; 3],
        ShardingKind::Zero1 => [false, false, true],
        ShardingKind::Zero2 => [false, true, true],
        ShardingKind::Zero3 => [true; 3],
    }
}

/// Part that stays on the device.
fn staying(placed: &[Placement]) -> f64 {
    1.0 - placed.iter().filter(|p| !p.on_device()).map(|p| p.fraction).sum::<f64>()
}

/// Bytes of activations that a micro-batch keeps in a chunk between its passes.
pub fn kept(w: &WorkloadSpec, chunk: &[Unit]) -> u64 {
    chunk.iter().map(|u| u.kept_bytes(&w.recompute)).sum()
}

/// The memory of a rank that holds `chunks` of units, and `kept` bytes of activations between passes at most.
pub fn memory(w: &WorkloadSpec, d: &Degrees, chunks: &[&[Unit]], kept: u64) -> Memory {
    let bytes = w.bytes_per_parameter();
    let (dense, expert) = (f64::from(d.shard), f64::from(d.expert_replicas()));
    let cuts = cut(w.parallelism.sharding.kind);
    let units = || chunks.iter().flat_map(|chunk| chunk.iter());
    let state = State::of(units(), &bytes, dense, expert, cuts);
    let largest = |size: &dyn Fn(&Unit) -> f64| units().map(size).fold(0.0, f64::max);
    let weights = |u: &Unit| u.plan.parameters.total() as f64 * bytes.weights;
    let away = 1.0 - staying(&w.offload.weights);
    let extra = if cuts[0] { 1.0 - 1.0 / dense } else { away };
    // The unit in work and those that are brought in ahead of it.
    let buffers = if cuts[0] {
        1.0 + w.parallelism.sharding.prefetch.depth as f64
    } else {
        1.0 + w.offload.prefetch.depth as f64
    };
    Memory {
        weights: state.weights * staying(&w.offload.weights),
        gradients: state.gradients * staying(&w.offload.gradients),
        optimizer: state.optimizer * staying(&w.offload.optimizer),
        activations: kept as f64 * staying(&w.offload.activations),
        gathered: buffers * extra * largest(&weights),
        workspace: largest(&|u| {
            let again = u.plan.all_saved_bytes().saturating_sub(u.kept_bytes(&w.recompute));
            u.plan.workspace_bytes as f64 + again as f64
        }),
    }
}
