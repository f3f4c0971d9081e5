//! State space with a decay for every channel and state: Mamba (arXiv 2312.00752).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::four;
use super::scan::Scan;
use super::sizes::linear;
use super::token_mixer::{MixingFlops, TokenMixer};

/// A Mamba-1 mixer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mamba1Spec {
    /// Width inside.
    pub inner: u64,
    /// State of one channel.
    pub state: u64,
    /// Rank of the step sizes' projection.
    pub dt_rank: u64,
    /// Width of the convolution.
    #[serde(default = "four")]
    pub convolution: u64,
    /// True if step sizes, input and output maps are normalised (Jamba).
    #[serde(default)]
    pub inner_norms: bool,
}

impl TokenMixer for Mamba1Spec {
    fn name(&self) -> &'static str {
        "mamba-1"
    }

    /// Channels are independent: any divisor of the width will do.
    fn heads(&self) -> Option<u64> {
        Some(self.inner)
    }

    /// Gate and input; convolution; step sizes, B and C from the input; their projection; A and D; output.
    fn parameters(&self, hidden: u64) -> u64 {
        let maps = self.dt_rank + 2 * self.state;
        hidden * 2 * self.inner
            + self.inner * (self.convolution + 1)
            + self.inner * maps
            + linear(true, self.dt_rank, self.inner)
            + self.inner * (self.state + 1)
            + self.inner * hidden
            + if self.inner_norms { maps } else { 0 }
    }

    fn weights(&self, hidden: u64) -> f64 {
        let (h, inner, rank) = (hidden as f64, self.inner as f64, self.dt_rank as f64);
        3.0 * h * inner + inner * (rank + 2.0 * self.state as f64) + rank * inner
    }

    /// Element by element, as the convolution: no products of matrices.
    fn mixing(&self, _sequence: u64) -> MixingFlops {
        MixingFlops::default()
    }

    /// No products of matrices: each channel and state by itself.
    fn scan(&self, tensor: u64) -> Option<Scan> {
        let inner = self.inner / tensor;
        Some(Scan {
            projected: 2 * inner,
            convolved: inner,
            inner,
            // `x_proj` and `dt_proj` of `mamba_ssm`.
            narrow: vec![(inner, self.dt_rank + 2 * self.state), (self.dt_rank, inner)],
            read: 4 * inner + 2 * self.state,
            chunk: 256,
            state: inner * self.state,
            saved: 2 * inner,
            gated_norm: true,
            ..Scan::default()
        })
    }
}
