//! Memory of one processor on both tiers (restatement §2.9).

use super::block::BlockCosts;
use super::pipeline::Counts;
use stepsim_bring::calculon::{Calculon, Recompute};
use stepsim_core::declare::summed;

summed! {
    /// Bytes by class.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct CalculonBytes {
        /// Weights.
        pub weights: f64 = "weights",
        /// Activations.
        pub activations: f64 = "activations",
        /// Inputs of blocks kept for full recomputation.
        pub checkpoints: f64 = "block inputs",
        /// Activation gradients.
        pub activation_grads: f64 = "activation gradients",
        /// Weight gradients.
        pub weight_grads: f64 = "weight gradients",
        /// Optimizer state.
        pub optimizer: f64 = "optimizer state",
    }
}

/// Memory of one processor.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessorMemory {
    /// Everything the processor holds, wherever it is.
    pub whole: CalculonBytes,
    /// The bytes that a class leaves in tier 1 when it is offloaded: the block in work and its neighbour.
    pub when_offloaded: CalculonBytes,
    /// The contents of tier 1 (HBM).
    pub tier1: CalculonBytes,
    /// The contents of tier 2: offloaded weights, activations (block inputs with full recomputation), optimizer state
    /// and gradients in the number format.
    pub tier2: CalculonBytes,
}

/// Micro-batches whose activations a processor holds at most: min(M, p), and with V > 1 chunks that times
/// 1 + (p − 1)/(V·p), as the first stage of interleaved 1F1B runs ahead.
fn in_flight(n: &Counts) -> f64 {
    let resident = n.microbatches.min(n.stages);
    if n.chunks > 1.0 { resident * (1.0 + (n.stages - 1.0) / (n.chunks * n.stages)) } else { resident }
}

impl ProcessorMemory {
    /// Memory of a processor that holds n blocks like `block`.
    pub fn new(case: &Calculon, block: &BlockCosts, counts: &Counts) -> ProcessorMemory {
        let (exe, b, n) = (&case.exe, &block.bytes, counts.blocks);
        let full = exe.activation_recompute == Recompute::Full;
        let resident = in_flight(counts);
        let stored = if full || !exe.training { 0.0 } else { b.stored * (n * resident - 1.0) };
        let whole = CalculonBytes {
            weights: n * b.weights,
            activations: b.working + stored,
            checkpoints: if full { n * b.checkpoint * resident } else { 0.0 },
            activation_grads: b.activation_grads,
            weight_grads: b.weight_grads_fp32 + (n - 1.0) * b.weight_grads,
            optimizer: n * b.optimizer,
        };
        let when_offloaded = CalculonBytes {
            weights: 2.0 * b.weights,
            activations: b.working + b.stored,
            checkpoints: 2.0 * b.checkpoint,
            activation_grads: b.activation_grads,
            weight_grads: b.weight_grads_fp32 + b.weight_grads,
            optimizer: 2.0 * b.optimizer,
        };
        let pick = |offloaded: bool| if offloaded { when_offloaded } else { whole };
        let activations = pick(exe.activations_offload);
        let optimizer = pick(exe.optimizer_offload);
        let tier1 = CalculonBytes {
            weights: pick(exe.weight_offload).weights,
            activations: activations.activations,
            checkpoints: activations.checkpoints,
            activation_grads: b.activation_grads,
            weight_grads: optimizer.weight_grads,
            optimizer: optimizer.optimizer,
        };
        let offloaded = |on: bool, bytes: f64| if on { bytes } else { 0.0 };
        let tier2 = CalculonBytes {
            weights: offloaded(exe.weight_offload, whole.weights),
            activations: offloaded(exe.activations_offload && !full, whole.activations),
            checkpoints: offloaded(exe.activations_offload, whole.checkpoints),
            activation_grads: 0.0,
            weight_grads: offloaded(exe.optimizer_offload, n * b.weight_grads),
            optimizer: offloaded(exe.optimizer_offload, whole.optimizer),
        };
        ProcessorMemory { whole, when_offloaded, tier1, tier2 }
    }
}
