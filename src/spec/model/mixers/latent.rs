//! Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434), with or without an indexer (DeepSeek-V3.2).

use super::attention::Attention;
use super::sizes::{linear, product};
use super::token_mixer::{MixingFlops, TokenMixer};
use crate::model::{AttentionKernel, AttentionSpec, MlaSpec, ModelSpec};

/// Latent attention, as the model's `mla` and `attention` say.
pub(super) struct LatentAttention<'m> {
    pub model: &'m ModelSpec,
    pub mla: MlaSpec,
}

impl TokenMixer for LatentAttention<'_> {
    fn name(&self) -> &'static str {
        Attention(self.model).name()
    }

    fn parameters(&self, hidden: u64) -> u64 {
        let (m, mla) = (self.model, self.mla);
        let biases = m.qkv_biases();
        let q_width = m.heads * m.qk_head_size();
        let q = match mla.q_lora_rank {
            Some(rank) => {
                linear(biases, hidden, rank) + m.norm_parameters(rank) + linear(biases, rank, q_width)
            }
            None => linear(biases, hidden, q_width),
        };
        let kv = linear(biases, hidden, mla.kv_lora_rank + mla.qk_rope_head_size)
            + m.norm_parameters(mla.kv_lora_rank)
            + linear(biases, mla.kv_lora_rank, m.heads * (mla.qk_nope_head_size + mla.v_head_size));
        q + kv + linear(m.output_bias(), m.heads * mla.v_head_size, hidden) + indexer(m, mla, hidden)
    }

    fn weights(&self, hidden: u64) -> f64 {
        let (m, mla, h) = (self.model, self.mla, hidden as f64);
        let q_width = product(&[m.heads, m.qk_head_size()]);
        let q = mla.q_lora_rank.map_or(h * q_width, |r| r as f64 * (h + q_width));
        let rank = mla.kv_lora_rank as f64;
        let up = product(&[m.heads, mla.qk_nope_head_size + mla.v_head_size]);
        let kv = h * (rank + mla.qk_rope_head_size as f64) + rank * up;
        let [indexer, _] = self.forward_alone(hidden, m.sequence).map(|flops| flops / 2.0);
        q + kv + h * product(&[m.heads, mla.v_head_size]) + indexer
    }

    fn mixing(&self, sequence: u64) -> MixingFlops {
        let (m, mla) = (self.model, self.mla);
        let (a, s) = (&m.attention, sequence as f64);
        let Some(x) = a.indexer else { return Attention(m).mixing(sequence) };
        // Kept keys are read from the latents: one shared head of the latent and the rotated part.
        let kept = AttentionSpec { window: Some(x.top_k), ..*a }.pairs(sequence) / s;
        let widths = match a.kernel {
            AttentionKernel::Flash => 2 * mla.kv_lora_rank + mla.qk_rope_head_size,
            AttentionKernel::Standard => m.qk_head_size() + m.v_head_size(),
        };
        let latent = 2.0 * m.heads as f64 * widths as f64;
        let [_, scores] = self.forward_alone(m.hidden, sequence);
        MixingFlops::both(kept * latent + scores)
    }

    /// The indexer: its own loss, which trains it, is no part of the step. A query is scored with the keys before it.
    fn forward_alone(&self, hidden: u64, sequence: u64) -> [f64; 2] {
        let (m, h) = (self.model, hidden as f64);
        let Some(x) = m.attention.indexer else { return [0.0; 2] };
        let from = self.mla.q_lora_rank.map_or(h, |rank| rank as f64);
        let products = from * product(&[x.heads, x.head_size]) + h * (x.head_size + x.heads) as f64;
        let keys = if m.attention.causal { sequence.div_ceil(2) } else { sequence };
        [2.0 * products, 2.0 * product(&[x.heads, x.head_size]) * keys as f64]
    }
}

/// Queries from the query latent, one key with its layer norm, and a weight for each head.
fn indexer(m: &ModelSpec, mla: MlaSpec, hidden: u64) -> u64 {
    let from = mla.q_lora_rank.unwrap_or(hidden);
    m.attention.indexer.map_or(0, |x| {
        from * x.heads * x.head_size + hidden * x.head_size + 2 * x.head_size + hidden * x.heads
    })
}
