//! State space with one decay a head: Mamba-2 (arXiv 2405.21060).
//!
//! With chunks of Q tokens, a state of N × P a head and G groups of maps, the scan is five kernels
//! (`mamba_ssm/ops/triton/ssd_combined.py`): products of maps (Q·Q·N a group), states of chunks (N·P·Q a head), their
//! passing on, outputs inside chunks (Q·P·Q) and outputs from states (Q·P·N).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::{chunk_256, four, yes};
use super::scan::{Scan, ScanKind};
use super::sizes::product;
use super::token_mixer::{MixingFlops, TokenMixer};
use crate::problem::Problem;

/// A Mamba-2 mixer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Mamba2Spec {
    /// Heads.
    pub heads: u64,
    /// Width of one head.
    pub head_size: u64,
    /// Groups of heads that share their input and output maps (B, C).
    pub groups: u64,
    /// State of one channel.
    pub state: u64,
    /// Width of the convolution.
    #[serde(default = "four")]
    pub convolution: u64,
    /// True if the convolution has a bias.
    #[serde(default = "yes")]
    pub convolution_bias: bool,
    /// Tokens of one chunk of the scan.
    #[serde(default = "chunk_256")]
    pub chunk: u64,
}

impl TokenMixer for Mamba2Spec {
    fn name(&self) -> &'static str {
        "mamba-2"
    }

    fn problem(&self) -> Option<Problem> {
        let wrong = self.groups > 0 && !self.heads.is_multiple_of(self.groups);
        wrong.then(|| Problem {
            path: "groups".to_owned(),
            value: self.groups.to_string(),
            allowed: format!("a divisor of heads ({})", self.heads),
            hint: "each group serves the same number of heads".to_owned(),
        })
    }

    fn heads(&self) -> Option<u64> {
        Some(self.heads)
    }

    /// Gate, input, B, C and step sizes in one projection; convolution over input, B and C; A, D and the bias of step
    /// sizes for each head; gated norm; output.
    fn parameters(&self, hidden: u64) -> u64 {
        let inner = self.heads * self.head_size;
        let convolved = inner + 2 * self.groups * self.state;
        hidden * (inner + convolved + self.heads)
            + convolved * (self.convolution + u64::from(self.convolution_bias))
            + 3 * self.heads
            + inner
            + inner * hidden
    }

    fn weights(&self, hidden: u64) -> f64 {
        let (h, inner) = (hidden as f64, product(&[self.heads, self.head_size]));
        h * (2.0 * inner + 2.0 * product(&[self.groups, self.state]) + self.heads as f64) + inner * h
    }

    fn mixing(&self, _sequence: u64) -> MixingFlops {
        let (q, n) = (self.chunk as f64, self.state as f64);
        let inner = product(&[self.heads, self.head_size]);
        let groups = n * self.groups as f64;
        let products = 2.0 * q * (groups + inner) + 4.0 * n * inner + 2.0 * inner * n / q;
        MixingFlops::both(products + 2.0 * self.convolution as f64 * (inner + 2.0 * groups))
    }

    fn scan(&self, tensor: u64) -> Option<Scan> {
        let (heads, groups) = (self.heads / tensor, (self.groups / tensor).max(1));
        let (q, n, p) = (self.chunk, self.state, self.head_size);
        let inner = heads * p;
        let convolved = inner + 2 * groups * n;
        Some(Scan {
            narrow: Vec::new(),
            kind: ScanKind::Decay,
            projected: inner + convolved + heads,
            convolved,
            inner,
            read: 3 * inner + 2 * groups * n,
            chunk: q,
            products: vec![(q, q, n, groups), (n, p, q, heads), (q, p, q, heads), (q, p, n, heads)],
            repeated: 2,
            state: heads * n * p,
            saved: inner,
            gated_norm: true,
        })
    }
}
