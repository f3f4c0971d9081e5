//! How many parameters a model has.

use crate::spec::model::{ModelSpec, Norm};

/// Parameters of a whole model, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParameterCount {
    /// Embedding tables: tokens, learned positions, and the LM head where it is not tied.
    pub embedding: u64,
    /// Attention projections and norms of all layers, and the final norm.
    pub attention: u64,
    /// Dense MLPs, routers and shared experts.
    pub mlp: u64,
    /// Routed experts.
    pub experts: u64,
    /// Those that one token passes: all of them without experts.
    pub active: u64,
}

impl ParameterCount {
    /// All parameters.
    pub fn total(&self) -> u64 {
        self.embedding + self.attention + self.mlp + self.experts
    }
    /// Counts the parameters of a model.
    pub fn of(model: &ModelSpec) -> ParameterCount {
        let m = model;
        let tables = if m.tied_embeddings { 1 } else { 2 };
        let learned = m.positions == crate::spec::model::Positions::Learned;
        let mut count = ParameterCount {
            embedding: tables * m.vocabulary * m.hidden + if learned { m.sequence * m.hidden } else { 0 },
            attention: norm(m, m.hidden),
            ..ParameterCount::default()
        };
        let norms = if m.parallel_block { 1 } else { 2 };
        let expert_layers = (0..m.layers).filter(|&l| m.has_experts(l)).count() as u64;
        count.attention += m.layers * (attention(m) + norms * norm(m, m.hidden));
        count.mlp = (m.layers - expert_layers) * mlp(m, m.ffn);
        let mut idle = 0;
        if let Some(moe) = &m.moe {
            let ffn = moe.ffn.unwrap_or(m.ffn);
            let bias = if moe.router_bias { moe.experts } else { 0 };
            let shared = if moe.shared_experts > 0 { mlp(m, moe.shared_experts * ffn) } else { 0 };
            count.mlp += expert_layers * (m.hidden * moe.experts + bias + shared);
            // Experts have no biases, in any model here and in the grouped GEMMs of common implementations.
            let expert = (if m.gated_mlp { 3 } else { 2 }) * m.hidden * ffn;
            count.experts = expert_layers * moe.experts * expert;
            idle = expert_layers * (moe.experts - moe.top_k.min(moe.experts)) * expert;
        }
        count.active = count.total() - idle;
        count
    }
}

/// Parameters of one normalisation of a width.
pub(super) fn norm(model: &ModelSpec, width: u64) -> u64 {
    match model.norm {
        Norm::Rms | Norm::LayerNoBias => width,
        Norm::Layer => 2 * width,
    }
}

fn linear(model: &ModelSpec, inputs: u64, outputs: u64) -> u64 {
    inputs * outputs + if model.biases { outputs } else { 0 }
}

fn mlp(model: &ModelSpec, ffn: u64) -> u64 {
    let inputs = if model.gated_mlp { 2 } else { 1 };
    linear(model, model.hidden, inputs * ffn) + linear(model, ffn, model.hidden)
}

fn attention(m: &ModelSpec) -> u64 {
    let Some(mla) = m.mla else {
        let width = (m.heads + 2 * m.kv_heads()) * m.head_size();
        return linear(m, m.hidden, width) + linear(m, m.heads * m.head_size(), m.hidden);
    };
    let q_width = m.heads * m.qk_head_size();
    let q = match mla.q_lora_rank {
        Some(rank) => linear(m, m.hidden, rank) + norm(m, rank) + linear(m, rank, q_width),
        None => linear(m, m.hidden, q_width),
    };
    let kv = linear(m, m.hidden, mla.kv_lora_rank + mla.qk_rope_head_size)
        + norm(m, mla.kv_lora_rank)
        + linear(m, mla.kv_lora_rank, m.heads * (mla.qk_nope_head_size + mla.v_head_size));
    q + kv + linear(m, m.heads * mla.v_head_size, m.hidden)
}
