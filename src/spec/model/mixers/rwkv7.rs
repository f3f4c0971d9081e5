//! RWKV-7 time mix (arXiv 2503.14456): a delta rule whose decay, rate and key differ from channel to channel.
//!
//! Six copies of the stream, each mixed with the token before it, go into receptance, key and value and into four
//! projections of low rank: decay, rate of learning, value residual (none in the first layer) and gate. The state of a
//! head, key × value, decays by channel and loses a part of rank one at each token, so chunks of C tokens take, beside
//! the products of a gated delta rule, products of the removed key with the others
//! (`fla/ops/generalized_delta_rule/dplr`): four C × C products of keys, the inverse of a triangle and two products
//! with it, two writes of the state, and three products for the output. Backward does all of these but the output
//! again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::scan::{Scan, ScanKind};
use super::sizes::product;
use super::token_mixer::{MixingFlops, TokenMixer};

/// An RWKV-7 time mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rwkv7Spec {
    /// Heads.
    pub heads: u64,
    /// Width of one head.
    pub head_size: u64,
    /// Rank of the projection of decays.
    pub decay_rank: u64,
    /// Rank of the projection of in-context learning rates.
    pub rate_rank: u64,
    /// Rank of the projection that mixes in the first layer's values; absent in that layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_rank: Option<u64>,
    /// Rank of the projection of the gate.
    pub gate_rank: u64,
    /// Tokens of one chunk.
    #[serde(default = "chunk_16")]
    pub chunk: u64,
}

fn chunk_16() -> u64 {
    16
}

impl Rwkv7Spec {
    fn ranks(&self) -> [u64; 4] {
        [self.decay_rank, self.rate_rank, self.value_rank.unwrap_or(0), self.gate_rank]
    }
    fn low_rank(&self) -> u64 {
        self.ranks().iter().sum()
    }
    fn inner(&self) -> u64 {
        self.heads * self.head_size
    }
}

impl TokenMixer for Rwkv7Spec {
    fn name(&self) -> &'static str {
        "rwkv-7"
    }

    fn heads(&self) -> Option<u64> {
        Some(self.heads)
    }

    /// Receptance, key, value and output; low ranks; seven token shifts, one of them of the MLP behind; offsets of
    /// decay, rate and value; two scales of keys, the bonus, and the norm over heads.
    fn parameters(&self, hidden: u64) -> u64 {
        let inner = self.inner();
        let offsets = 2 + u64::from(self.value_rank.is_some());
        4 * hidden * inner + (hidden + inner) * self.low_rank() + 7 * hidden + (offsets + 5) * inner
    }

    fn weights(&self, hidden: u64) -> f64 {
        let (h, inner) = (hidden as f64, product(&[self.heads, self.head_size]));
        4.0 * h * inner + (h + inner) * self.low_rank() as f64
    }

    fn mixing(&self, _sequence: u64) -> MixingFlops {
        let (c, d) = (self.chunk as f64, self.head_size as f64);
        MixingFlops::both(self.heads as f64 * (18.0 * c * d + 8.0 * d * d + c * c / 3.0))
    }

    /// The shift reads the stream and its neighbour and writes six copies, which are kept whole on every rank.
    fn scan(&self, tensor: u64) -> Option<Scan> {
        let (heads, d, c) = (self.heads / tensor, self.head_size, self.chunk);
        let inner = heads * d;
        let mut products = vec![
            (c, c, d, 4 * heads),
            (c, d, c, 3 * heads),
            (c, d, d, heads),
            (d, d, c, 2 * heads),
            (c, d, d, heads),
            (c, d, c, 2 * heads),
        ];
        products.extend(self.ranks().into_iter().filter(|rank| *rank > 0).map(|rank| (c, inner, rank, 1)));
        Some(Scan {
            narrow: Vec::new(),
            kind: ScanKind::Decay,
            projected: 3 * inner + self.low_rank(),
            convolved: 4 * self.inner(),
            inner,
            read: 6 * inner,
            chunk: c,
            products,
            repeated: 4,
            state: heads * d * d,
            saved: 6 * self.inner() + 5 * inner,
            gated_norm: true,
        })
    }
}
