//! Gated delta rule: Gated DeltaNet (arXiv 2412.06464), as Qwen3-Next has it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::{chunk_64, four};
use super::delta_rule;
use super::scan::Scan;
use super::sizes::product;
use super::token_mixer::{MixingFlops, TokenMixer};
use crate::problem::Problem;

/// A gated delta-rule mixer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GatedDeltaSpec {
    /// Query and key heads.
    pub key_heads: u64,
    /// Value heads.
    pub value_heads: u64,
    /// Width of a query or key head.
    pub key_size: u64,
    /// Width of a value head.
    pub value_size: u64,
    /// Width of the convolution.
    #[serde(default = "four")]
    pub convolution: u64,
    /// Tokens of one chunk.
    #[serde(default = "chunk_64")]
    pub chunk: u64,
}

impl TokenMixer for GatedDeltaSpec {
    fn name(&self) -> &'static str {
        "gated delta"
    }

    fn problem(&self) -> Option<Problem> {
        let wrong = self.key_heads > 0 && !self.value_heads.is_multiple_of(self.key_heads);
        wrong.then(|| Problem {
            path: "value_heads".to_owned(),
            value: self.value_heads.to_string(),
            allowed: format!("a multiple of key_heads ({})", self.key_heads),
            hint: "each key head serves the same number of value heads".to_owned(),
        })
    }

    fn heads(&self) -> Option<u64> {
        Some(self.key_heads)
    }

    /// Queries, keys, values and gate; two scalars a head; convolution over the first three; two vectors over heads;
    /// norm; output.
    fn parameters(&self, hidden: u64) -> u64 {
        let (keys, values) = (self.key_heads * self.key_size, self.value_heads * self.value_size);
        hidden * (2 * keys + 2 * values)
            + 2 * hidden * self.value_heads
            + (2 * keys + values) * self.convolution
            + 2 * self.value_heads
            + self.value_size
            + values * hidden
    }

    fn weights(&self, hidden: u64) -> f64 {
        let h = hidden as f64;
        let keys = product(&[self.key_heads, self.key_size]);
        let values = product(&[self.value_heads, self.value_size]);
        h * (2.0 * keys + 3.0 * values) + 2.0 * h * self.value_heads as f64
    }

    fn mixing(&self, _sequence: u64) -> MixingFlops {
        let convolved = (2 * self.key_heads * self.key_size + self.value_heads * self.value_size) as f64;
        let head = delta_rule::flops(self.chunk as f64, self.key_size as f64, self.value_size as f64);
        MixingFlops::both(self.value_heads as f64 * head + 2.0 * self.convolution as f64 * convolved)
    }

    fn scan(&self, tensor: u64) -> Option<Scan> {
        let (key_heads, heads) = ((self.key_heads / tensor).max(1), self.value_heads / tensor);
        let (keys, values) = (key_heads * self.key_size, heads * self.value_size);
        Some(Scan {
            narrow: Vec::new(),
            projected: 2 * keys + 2 * values + 2 * heads,
            convolved: 2 * keys + values,
            ..delta_rule::scan(heads, self.key_size, self.value_size, self.chunk, 2 * keys + values)
        })
    }
}
