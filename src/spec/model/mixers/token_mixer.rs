//! The interface of a kind of mixer.

use super::scan::Scan;
use crate::problem::Problem;

/// A way to mix tokens.
pub trait TokenMixer {
    /// The name in reports.
    fn name(&self) -> &'static str;

    /// Another problem with the fields; its path begins below them.
    fn problem(&self) -> Option<Problem> {
        None
    }

    /// Heads that tensor parallelism cuts, where the mixer names some of its own.
    fn heads(&self) -> Option<u64> {
        None
    }

    /// Parameters of one layer's mixer on a residual stream of width `hidden`, without the layer's norm.
    fn parameters(&self, hidden: u64) -> u64;

    /// Weights that multiply each token, on a stream of the same width.
    fn weights(&self, hidden: u64) -> f64;

    /// FLOPs of a token's products with other tokens, forward.
    fn mixing(&self, sequence: u64) -> MixingFlops;

    /// The part of both that runs forward alone, since nothing trains it in the step: FLOPs of a token's products
    /// with weights and with other tokens.
    fn forward_alone(&self, _hidden: u64, _sequence: u64) -> [f64; 2] {
        [0.0; 2]
    }

    /// The scan on one of `_tensor` ranks that share the heads; `None` of attention, which has kernels of its own.
    fn scan(&self, _tensor: u64) -> Option<Scan> {
        None
    }
}

/// FLOPs of a token's products with other tokens, forward.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MixingFlops {
    /// Plain causal masks in full.
    pub full: f64,
    /// Plain causal masks by half.
    pub causal: f64,
}

impl MixingFlops {
    /// The same by either count.
    pub fn both(flops: f64) -> Self {
        MixingFlops { full: flops, causal: flops }
    }
}
