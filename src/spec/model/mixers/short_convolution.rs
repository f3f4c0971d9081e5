//! Gated short convolution: LFM2 (arXiv 2511.23404).
//!
//! One projection gives two gates and a value, each as wide as the stream. The value times the first gate runs
//! through a short causal convolution, channel by channel; the result times the second gate is projected out. There
//! is no state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scan::Scan;
use super::token_mixer::{MixingFlops, TokenMixer};

/// A gated short convolution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ShortConvolutionSpec {
    /// Channels: width of each gate and of the value.
    pub channels: u64,
    /// Width of the convolution.
    #[serde(default = "three")]
    pub convolution: u64,
    /// True if convolution and projections have biases.
    #[serde(default)]
    pub biases: bool,
}

fn three() -> u64 {
    3
}

impl TokenMixer for ShortConvolutionSpec {
    fn name(&self) -> &'static str {
        "short convolution"
    }

    /// Channels are independent.
    fn heads(&self) -> Option<u64> {
        Some(self.channels)
    }

    fn parameters(&self, hidden: u64) -> u64 {
        let biases = if self.biases { 4 * self.channels + hidden } else { 0 };
        4 * hidden * self.channels + self.channels * self.convolution + biases
    }

    fn weights(&self, hidden: u64) -> f64 {
        4.0 * hidden as f64 * self.channels as f64
    }

    /// Element by element: no products of matrices.
    fn mixing(&self, _sequence: u64) -> MixingFlops {
        MixingFlops::default()
    }

    /// Each gate is a product of its own with what it gates.
    fn scan(&self, tensor: u64) -> Option<Scan> {
        let inner = self.channels / tensor;
        Some(Scan {
            projected: 3 * inner,
            convolved: inner,
            inner,
            read: 6 * inner,
            chunk: 1,
            saved: 2 * inner,
            ..Scan::default()
        })
    }
}
