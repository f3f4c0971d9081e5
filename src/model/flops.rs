//! FLOPs of a training step as MFU and HFU count them.
//!
//! * **Model FLOPs** (the numerator of MFU): matrix products that the model's mathematics asks for, forward once and
//!   backward twice, whatever is recomputed or skipped. Attention is counted in full, 4·b·s²·a·d forward, as in the PaLM
//!   and Megatron papers; [`StepFlops::model_causal`] counts it by half where the mask is causal.
//! * **Hardware FLOPs** (the numerator of HFU) are those executed, recomputation included: the sum over the kernels
//!   that ran ([`super::LayerPlan::flops`]).
//!
//! Element-wise work, the embedding lookup and the optimizer are in neither. Padding, dropped tokens and the vocabulary
//! rounded up to the tensor-parallel degree are no model FLOPs.

use crate::spec::model::ModelSpec;

/// Model FLOPs of one training step.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct StepFlops {
    /// Attention in full.
    pub model: f64,
    /// Attention by half where the mask is causal.
    pub model_causal: f64,
}

impl StepFlops {
    /// Forward and backward of `sequences` sequences of `sequence` tokens.
    pub fn of(model: &ModelSpec, sequences: u64, sequence: u64) -> StepFlops {
        let tokens = sequences as f64 * sequence as f64;
        let dense = 2.0 * tokens * weights_per_token(model);
        let heads = model.heads as f64 * (model.qk_head_size() + model.v_head_size()) as f64;
        let attention = 2.0 * tokens * sequence as f64 * heads * model.layers as f64;
        let seen = if model.attention.causal { 0.5 } else { 1.0 };
        StepFlops { model: 3.0 * (dense + attention), model_causal: 3.0 * (dense + seen * attention) }
    }
}

/// Weights that multiply each token: those of all matrices it passes, the LM head but not the embedding.
fn weights_per_token(m: &ModelSpec) -> f64 {
    let h = m.hidden as f64;
    let attention = match m.mla {
        None => {
            let d = m.head_size() as f64;
            h * d * (2.0 * m.heads as f64 + 2.0 * m.kv_heads() as f64)
        }
        Some(mla) => {
            let q_width = (m.heads * m.qk_head_size()) as f64;
            let q = mla.q_lora_rank.map_or(h * q_width, |r| r as f64 * (h + q_width));
            let rank = mla.kv_lora_rank as f64;
            let up = (m.heads * (mla.qk_nope_head_size + mla.v_head_size)) as f64;
            let kv = h * (rank + mla.qk_rope_head_size as f64) + rank * up;
            q + kv + h * (m.heads * mla.v_head_size) as f64
        }
    };
    let matrices = if m.gated_mlp { 3.0 } else { 2.0 };
    let expert_layers = (0..m.layers).filter(|&l| m.has_experts(l)).count() as f64;
    let dense_layers = m.layers as f64 - expert_layers;
    let experts = m.moe.as_ref().map_or(0.0, |moe| {
        let visited = (moe.top_k + moe.shared_experts) as f64;
        h * moe.experts as f64 + visited * matrices * h * moe.ffn.unwrap_or(m.ffn) as f64
    });
    m.layers as f64 * attention
        + dense_layers * matrices * h * m.ffn as f64
        + expert_layers * experts
        + h * m.vocabulary as f64
}
