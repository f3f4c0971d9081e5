//! Attention of a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::{is_default, yes};
use stepsim_core::declare::defaults;

defaults! {
    /// The attention kernel.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct AttentionSpec {
        /// The kernel that computes it.
        #[serde(default)]
        pub kernel: AttentionKernel,
        /// True if a token sees only those before it.
        #[serde(default = "yes")]
        pub causal: bool = true,
        /// Keys that a query sees, itself included (sliding window); default: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub window: Option<u64>,
        /// Tokens of a chunk outside which a query sees nothing (Llama 4); default: no chunks.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub chunk: Option<u64>,
        /// True if queries and keys are rotated; default: as the model's `positions` say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub rotary: Option<bool>,
        /// Normalisation of queries and keys.
        #[serde(default, skip_serializing_if = "is_default")]
        pub qk_norm: QkNorm,
        /// True if each head has a learned logit beside the scores (gpt-oss).
        #[serde(default, skip_serializing_if = "is_default")]
        pub sinks: bool,
        /// True if a gate as wide as the queries multiplies the output (Qwen3-Next).
        #[serde(default, skip_serializing_if = "is_default")]
        pub output_gate: bool,
        /// True if the projections of queries, keys and values have biases; default: the model's `biases`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub qkv_biases: Option<bool>,
        /// True if the output projection has a bias; default: the model's `biases`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub output_bias: Option<bool>,
        /// The keys that each query keeps, chosen by a small indexer (DeepSeek-V3.2); default: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub indexer: Option<IndexerSpec>,
        /// Image tokens that the queries of a sequence see in place of its own tokens (cross-attention, Llama 3.2
        /// Vision): keys and values are projected from them. The file's figure is for one sequence and holds where
        /// nothing else is known; a step has the tokens of its images, and without images it leaves the layer out.
        /// Default: no cross-attention.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub image_tokens: Option<u64>,
    }
}

/// Normalisation of queries and keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QkNorm {
    /// None.
    #[default]
    None,
    /// Each head by itself, one vector of weights for all heads (Qwen3, Gemma 3).
    Head,
    /// All heads together (OLMo 2, MiniMax-M2).
    Full,
    /// Each head by itself without weights (Llama 4).
    Weightless,
}

/// The indexer of sparse attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IndexerSpec {
    /// Heads.
    pub heads: u64,
    /// Width of one head.
    pub head_size: u64,
    /// Keys that each query keeps.
    pub top_k: u64,
}

/// The kernel that computes attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionKernel {
    /// One fused kernel: scores never reach memory, masked blocks are skipped.
    #[default]
    Flash,
    /// Scores, softmax, dropout and values as kernels of their own; the whole square is computed.
    Standard,
}

/// Multi-head latent attention: queries and key–values pass through narrow projections (DeepSeek-V2, arXiv 2405.04434).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MlaSpec {
    /// Width that queries pass through; default: they are projected directly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub q_lora_rank: Option<u64>,
    /// Width that keys and values pass through.
    pub kv_lora_rank: u64,
    /// Part of a query or key head without position.
    pub qk_nope_head_size: u64,
    /// Part of a query or key head that is rotated; the key's part is shared by all heads.
    pub qk_rope_head_size: u64,
    /// Width of a value head.
    pub v_head_size: u64,
}

impl AttentionSpec {
    /// Query–key pairs that the mask leaves in a sequence, the diagonal included.
    pub fn pairs(&self, sequence: u64) -> f64 {
        let triangle = |n: u64| n as f64 * (n as f64 + 1.0) / 2.0;
        match (self.causal, self.window, self.chunk) {
            (false, None, None) => (sequence as f64).powi(2),
            (false, None, Some(chunk)) => {
                let square = |n: u64| (n as f64).powi(2);
                (sequence / chunk.max(1)) as f64 * square(chunk) + square(sequence % chunk.max(1))
            }
            (_, Some(window), _) if window < sequence => {
                triangle(window) + (sequence - window) as f64 * window as f64
            }
            (_, None, Some(chunk)) => {
                (sequence / chunk.max(1)) as f64 * triangle(chunk) + triangle(sequence % chunk.max(1))
            }
            _ => triangle(sequence),
        }
    }
}
