//! Offload to tier 2: volumes, windows, exposed time, required bandwidth (restatement §2.6).
//!
//! The offload link is usable only while HBM is idle: a block of time T with memory time m leaves a window of T − m.

use super::block::BlockCosts;
use super::costs::Costs;
use super::tensor_parallel::PerBlock;
use stepsim_bring::calculon::{Calculon, Recompute};

/// Bytes of one block that cross the offload link with one micro-batch.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Volume {
    /// Forward: the larger of weights (in) and activations (out), as the link is full duplex.
    pub forward: f64,
    /// Backward: weights, activations and optimizer state together; none in inference.
    pub backward: f64,
    /// The optimizer's part of `backward`.
    pub optimizer: f64,
}

/// Offload of one block and of the step.
#[derive(Clone, Copy, Debug, Default)]
pub struct Offload {
    /// The volume over the link.
    pub volume: Volume,
    /// Seconds added to a forward block.
    pub forward_overhead: PerBlock<f64>,
    /// Seconds added to a backward block in every micro-batch.
    pub backward_overhead: PerBlock<f64>,
    /// Seconds added to a backward block in one micro-batch of a step, beyond `backward_overhead`: the optimizer state
    /// when it moves once.
    pub optimizer_overhead: PerBlock<f64>,
    /// B/s that hide the activations, the weights, the optimizer with the gradients, and what is really offloaded.
    pub required: OffloadBandwidth,
}

/// Bandwidth in B/s that keeps each kind of offload hidden.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OffloadBandwidth {
    /// Stored activations within the forward window.
    pub activations: f64,
    /// Weights within the forward window.
    pub weights: f64,
    /// Gradients and optimizer state within the backward window.
    pub optimizer: f64,
    /// The volume that the execution really offloads, forward and backward.
    pub all: f64,
}

/// Stored bytes of a block: its checkpoint with full recomputation.
fn activations(case: &Calculon, block: &BlockCosts) -> f64 {
    if case.exe.activation_recompute == Recompute::Full { block.bytes.checkpoint } else { block.bytes.stored }
}

fn volume(case: &Calculon, block: &BlockCosts) -> Volume {
    let exe = &case.exe;
    let enabled = |on: bool, bytes: f64| if on { bytes } else { 0.0 };
    let weights = enabled(exe.weight_offload, block.bytes.weights);
    let activations = enabled(exe.activations_offload, activations(case, block));
    let optimizer = enabled(exe.optimizer_offload, block.bytes.optimizer);
    let backward = enabled(exe.training, weights + activations + optimizer);
    Volume { forward: weights.max(activations), backward, optimizer }
}

/// Seconds by which a transfer of `bytes` exceeds the window: max(0, T_mem2(bytes) + memory − time).
fn overhead(costs: &Costs<'_>, bytes: f64, memory: f64, time: PerBlock<f64>) -> PerBlock<f64> {
    time.map(|time| (costs.offload.time(bytes) + memory - time).max(0.0))
}

fn bandwidth(bytes: f64, window: f64) -> f64 {
    if bytes == 0.0 { 0.0 } else { bytes / window }
}

impl Offload {
    /// Offload beside forward and backward blocks of `forward` and `backward` seconds (without offload).
    pub fn new(
        case: &Calculon,
        costs: &Costs<'_>,
        block: &BlockCosts,
        forward: PerBlock<f64>,
        backward: PerBlock<f64>,
        published: bool,
    ) -> Offload {
        let volume = volume(case, block);
        let lose_memory = !costs.roofline() || published;
        let memory = |time: f64| if lose_memory { time } else { 0.0 };
        let forward_memory = memory(block.forward.memory_time);
        let backward_memory = memory(block.agrad.memory_time + block.wgrad.memory_time);
        let whole = overhead(costs, volume.backward, backward_memory, backward);
        let mut offload = Offload {
            volume,
            forward_overhead: overhead(costs, volume.forward, forward_memory, forward),
            backward_overhead: whole,
            optimizer_overhead: PerBlock::default(),
            required: OffloadBandwidth::default(),
        };
        if !published {
            let rest = overhead(costs, volume.backward - volume.optimizer, backward_memory, backward);
            offload.backward_overhead = rest;
            offload.optimizer_overhead = whole.plus(rest.map(|x| -x));
        }
        let forward_window = forward.base.min(forward.edge) - forward_memory;
        let backward_window = backward.base.min(backward.edge) - backward_memory;
        let state = block.bytes.weight_grads + block.bytes.optimizer;
        offload.required = OffloadBandwidth {
            activations: bandwidth(activations(case, block), forward_window),
            weights: bandwidth(block.bytes.weights, forward_window),
            optimizer: bandwidth(state, backward_window),
            all: bandwidth(volume.forward, forward_window).max(bandwidth(volume.backward, backward_window)),
        };
        offload
    }
}
