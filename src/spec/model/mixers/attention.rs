//! Attention over all heads: queries, keys and values projected from the stream.

use super::sizes::linear;
use super::token_mixer::{MixingFlops, TokenMixer};
use crate::model::{ModelSpec, QkNorm};

/// Attention, as the model's `heads` and `attention` say.
pub(super) struct Attention<'m>(pub &'m ModelSpec);

impl TokenMixer for Attention<'_> {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn parameters(&self, hidden: u64) -> u64 {
        let m = self.0;
        let outputs = m.query_width() + 2 * m.kv_heads() * m.head_size();
        linear(m.qkv_biases(), hidden, outputs)
            + linear(m.output_bias(), m.heads * m.head_size(), hidden)
            + qk_norm_and_sinks(m)
    }

    fn weights(&self, hidden: u64) -> f64 {
        let m = self.0;
        let d = m.head_size() as f64;
        // Keys and values of images are no products of the sequence's tokens.
        let keys = if m.is_cross() { 0.0 } else { 2.0 * m.kv_heads() as f64 };
        hidden as f64 * (m.query_width() as f64 + d * (m.heads as f64 + keys))
    }

    /// Scores and values: 2·(width of a key + width of a value) for each head and key.
    fn mixing(&self, sequence: u64) -> MixingFlops {
        let m = self.0;
        let (a, s) = (&m.attention, sequence as f64);
        let widths = 2.0 * m.heads as f64 * (m.qk_head_size() + m.v_head_size()) as f64;
        if let Some(images) = a.image_tokens {
            return MixingFlops::both(widths * images as f64);
        }
        let seen = a.pairs(sequence) / s;
        let plain = seen == (s + 1.0) / 2.0;
        match (a.causal, plain) {
            (false, _) => MixingFlops::both(widths * seen),
            // Half of the square.
            (true, true) => MixingFlops { full: widths * s, causal: 0.5 * widths * s },
            // Both sides of the diagonal, and one.
            (true, false) => MixingFlops { full: widths * (2.0 * seen - 1.0), causal: widths * seen },
        }
    }
}

/// Normalisation of queries and keys, and sinks: whole, before tensor parallelism cuts the heads.
pub fn qk_norm_and_sinks(m: &ModelSpec) -> u64 {
    let norm = match m.attention.qk_norm {
        QkNorm::None | QkNorm::Weightless => 0,
        QkNorm::Head => 2 * m.head_size(),
        QkNorm::Full => (m.heads + m.kv_heads()) * m.head_size(),
    };
    norm + if m.attention.sinks { m.heads } else { 0 }
}
