//! Delta rule with a decay for every channel: Kimi linear (arXiv 2510.26692).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::{chunk_64, four};
use super::delta_rule;
use super::scan::{Scan, ScanKind};
use super::sizes::product;
use super::token_mixer::{MixingFlops, TokenMixer};

/// A delta-rule mixer with a decay for every channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct KimiDeltaSpec {
    /// Heads.
    pub heads: u64,
    /// Width of one head.
    pub head_size: u64,
    /// Width of the convolution.
    #[serde(default = "four")]
    pub convolution: u64,
    /// Tokens of one chunk.
    #[serde(default = "chunk_64")]
    pub chunk: u64,
}

impl TokenMixer for KimiDeltaSpec {
    fn name(&self) -> &'static str {
        "kimi delta"
    }

    fn heads(&self) -> Option<u64> {
        Some(self.heads)
    }

    /// Queries, keys and values; decay and gate through a narrow projection each; a scalar a head; convolution; biases
    /// and decays; norm; output.
    fn parameters(&self, hidden: u64) -> u64 {
        let (h, d, inner) = (hidden, self.head_size, self.heads * self.head_size);
        3 * h * inner
            + 2 * (h * d + d * inner)
            + h * self.heads
            + 3 * inner * self.convolution
            + inner
            + self.heads
            + d
            + inner * h
    }

    fn weights(&self, hidden: u64) -> f64 {
        let (h, d, inner) =
            (hidden as f64, self.head_size as f64, product(&[self.heads, self.head_size]));
        4.0 * h * inner + 2.0 * (h * d + d * inner) + h * self.heads as f64
    }

    fn mixing(&self, _sequence: u64) -> MixingFlops {
        let d = self.head_size as f64;
        let convolved = 3.0 * self.heads as f64 * d;
        let head = delta_rule::flops(self.chunk as f64, d, d);
        MixingFlops::both(self.heads as f64 * head + 2.0 * self.convolution as f64 * convolved)
    }

    fn scan(&self, tensor: u64) -> Option<Scan> {
        let heads = self.heads / tensor;
        let inner = heads * self.head_size;
        let mut scan = delta_rule::scan(heads, self.head_size, self.head_size, self.chunk, 3 * inner);
        // Decay and gate are widened from one head's width.
        scan.products.push((self.chunk, inner, self.head_size, 2));
        let projected = 3 * inner + heads + 2 * self.head_size;
        Some(Scan { kind: ScanKind::ChannelDelta, projected, convolved: 3 * inner, ..scan })
    }
}
