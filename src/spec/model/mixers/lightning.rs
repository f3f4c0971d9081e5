//! Linear attention with a fixed decay a head: Lightning attention (arXiv 2501.08313).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::chunk_256;
use super::scan::{Scan, ScanKind};
use super::sizes::product;
use super::token_mixer::{MixingFlops, TokenMixer};

/// A linear-attention mixer with a fixed decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LightningSpec {
    /// Heads.
    pub heads: u64,
    /// Width of one head.
    pub head_size: u64,
    /// Tokens of one block.
    #[serde(default = "chunk_256")]
    pub block: u64,
}

impl TokenMixer for LightningSpec {
    fn name(&self) -> &'static str {
        "lightning"
    }

    fn heads(&self) -> Option<u64> {
        Some(self.heads)
    }

    /// Queries, keys, values, gate and output, and a norm over all heads.
    fn parameters(&self, hidden: u64) -> u64 {
        let inner = self.heads * self.head_size;
        5 * hidden * inner + inner
    }

    fn weights(&self, hidden: u64) -> f64 {
        5.0 * hidden as f64 * product(&[self.heads, self.head_size])
    }

    fn mixing(&self, _sequence: u64) -> MixingFlops {
        let (b, d) = (self.block as f64, self.head_size as f64);
        MixingFlops::both(self.heads as f64 * (4.0 * b * d + 4.0 * d * d))
    }

    fn scan(&self, tensor: u64) -> Option<Scan> {
        let (heads, d, q) = (self.heads / tensor, self.head_size, self.block);
        let inner = heads * d;
        Some(Scan {
            narrow: Vec::new(),
            kind: ScanKind::Decay,
            projected: 4 * inner,
            convolved: 0,
            inner,
            read: 3 * inner,
            chunk: q,
            products: vec![(q, q, d, heads), (q, d, q, heads), (d, d, q, heads), (q, d, d, heads)],
            repeated: 1,
            state: heads * d * d,
            saved: inner,
            gated_norm: true,
        })
    }
}
