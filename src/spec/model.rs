//! The model file: the shape of a transformer, with nothing about how it is trained.
//!
//! Everything that can be derived has a default, so a short file is enough: `kv_heads` is `heads`, `head_size` is
//! `hidden / heads`. Sizes are counts of elements, never bytes. Layers that differ are kinds ([`LayerKindSpec`]) in a pattern
//! that repeats until all layers have one.

mod check;
mod kinds;
mod matrices;
mod mixer;
mod vision;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use kinds::{LayerKindSpec, LayerRun, MlpKind};
pub use matrices::{Cut, Matrix, MatrixElements};
pub use mixer::{GatedDeltaSpec, KimiDeltaSpec, LightningSpec, Mamba1Spec, Mamba2Spec, Mixer};
pub use vision::VisionSpec;

/// A transformer's shape.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// Name in reports.
    pub name: String,
    /// Where the figures come from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Transformer layers.
    pub layers: u64,
    /// Width of the residual stream.
    pub hidden: u64,
    /// Query heads.
    pub heads: u64,
    /// Key and value heads (grouped-query attention); default: `heads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u64>,
    /// Width of one head; default: `hidden / heads`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub head_size: Option<u64>,
    /// Width of the MLP (of one of its two input matrices where it is gated).
    pub ffn: u64,
    /// Whether the MLP has a gate matrix (SwiGLU, GeGLU): three matrices instead of two.
    #[serde(default)]
    pub gated_mlp: bool,
    /// Rows of the embedding table.
    pub vocabulary: u64,
    /// Whether the LM head shares the embedding table.
    #[serde(default)]
    pub tied_embeddings: bool,
    /// Tokens of one sequence, unless the workload says otherwise.
    pub sequence: u64,
    /// How positions enter.
    #[serde(default)]
    pub positions: Positions,
    /// Whether the linear layers have biases, unless their own part says otherwise.
    #[serde(default)]
    pub biases: bool,
    /// Whether those of the MLP have; default: `biases`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mlp_biases: Option<bool>,
    /// Whether the LM head has a bias.
    #[serde(default, skip_serializing_if = "is_default")]
    pub head_bias: bool,
    /// Kind of normalisation.
    #[serde(default)]
    pub norm: Norm,
    /// Normalisations of one layer; default: one before the mixer and one before the MLP (4 with norms behind them too,
    /// as Gemma has them; 1 where both read the same).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norms: Option<u64>,
    /// Normalisations beside those of the layers and the final one (behind the embedding, say).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extra_norms: u64,
    /// Whether dropout masks are drawn and saved (after attention, in the attention scores, after the MLP).
    #[serde(default)]
    pub dropout: bool,
    /// Whether attention and MLP read the same normalised input and their outputs are summed once (PaLM, GPT-J).
    #[serde(default)]
    pub parallel_block: bool,
    /// The attention kernel.
    #[serde(default)]
    pub attention: AttentionSpec,
    /// Mixture of experts in place of the MLP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moe: Option<MoeSpec>,
    /// Multi-head latent attention in place of plain QKV projections.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mla: Option<MlaSpec>,
    /// What mixes tokens.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mixer: Mixer,
    /// Which MLP a layer has.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mlp: MlpKind,
    /// Kinds of layers by name, where layers differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub layer_kinds: BTreeMap<String, LayerKindSpec>,
    /// Order of the kinds, repeated until all layers have one: `[["local", 5], ["global", 1]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layer_pattern: Vec<LayerRun>,
    /// Multi-token-prediction modules behind the last layer (DeepSeek-V3, arXiv 2412.19437, section 2.2): each joins the
    /// stream with the next token's embedding, runs a layer like the last and the LM head once more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prediction_modules: u64,
    /// A vision encoder before the decoder: counted as parameters and FLOPs, not simulated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vision: Option<VisionSpec>,
}

/// How positions enter the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Positions {
    /// Rotation of queries and keys; no parameters.
    #[default]
    Rotary,
    /// A learned table of `sequence` rows.
    Learned,
    /// None, or something without parameters and kernels of its own (ALiBi).
    None,
}

/// Kind of normalisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Norm {
    /// Scale only: one parameter vector.
    #[default]
    Rms,
    /// Scale and shift: two parameter vectors.
    Layer,
    /// Scale only, mean subtracted (PaLM's LayerNorm without biases).
    LayerNoBias,
    /// Neither scale nor shift (OLMo).
    Plain,
}

/// The attention kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttentionSpec {
    /// Which kernel computes it.
    #[serde(default)]
    pub kernel: AttentionKernel,
    /// Whether a token sees only those before it.
    #[serde(default = "yes")]
    pub causal: bool,
    /// Keys that a query sees, itself included (sliding window); default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    /// Tokens of a chunk outside which a query sees nothing (Llama 4); default: no chunks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk: Option<u64>,
    /// Whether queries and keys are rotated; default: as the model's `positions` say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rotary: Option<bool>,
    /// Normalisation of queries and keys.
    #[serde(default, skip_serializing_if = "is_default")]
    pub qk_norm: QkNorm,
    /// Whether each head has a learned logit beside the scores (gpt-oss).
    #[serde(default, skip_serializing_if = "is_default")]
    pub sinks: bool,
    /// Whether a gate as wide as the queries multiplies the output (Qwen3-Next).
    #[serde(default, skip_serializing_if = "is_default")]
    pub output_gate: bool,
    /// Whether the projections of queries, keys and values have biases; default: the model's `biases`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qkv_biases: Option<bool>,
    /// Whether the output projection has; default: the model's `biases`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_bias: Option<bool>,
    /// Which keys each query keeps, chosen by a small indexer (DeepSeek-V3.2); default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub indexer: Option<IndexerSpec>,
}

impl Default for AttentionSpec {
    fn default() -> Self {
        AttentionSpec {
            kernel: AttentionKernel::Flash,
            causal: true,
            window: None,
            chunk: None,
            rotary: None,
            qk_norm: QkNorm::None,
            sinks: false,
            output_gate: false,
            qkv_biases: None,
            output_bias: None,
            indexer: None,
        }
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

/// Which kernel computes attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AttentionKernel {
    /// One fused kernel: scores never reach memory, masked blocks are skipped.
    #[default]
    Flash,
    /// Scores, softmax, dropout and values as kernels of their own; the whole square is computed.
    Standard,
}

/// Mixture of experts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoeSpec {
    /// Routed experts of one layer.
    pub experts: u64,
    /// Experts that each token visits.
    pub top_k: u64,
    /// Width of one expert's MLP; default: the model's `ffn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ffn: Option<u64>,
    /// Experts of the same width that every token visits.
    #[serde(default)]
    pub shared_experts: u64,
    /// Width of the shared experts together; default: `shared_experts` times `ffn`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_ffn: Option<u64>,
    /// Whether a gate decides how much of the shared expert counts (Qwen).
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared_gate: bool,
    /// Width to which tokens are projected before they travel to experts; default: they travel whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latent: Option<u64>,
    /// Whether experts' matrices have biases (gpt-oss).
    #[serde(default, skip_serializing_if = "is_default")]
    pub expert_biases: bool,
    /// Layers at the start that keep a dense MLP.
    #[serde(default)]
    pub first_dense_layers: u64,
    /// One layer in so many has experts (after the first dense ones).
    #[serde(default = "one")]
    pub every_layers: u64,
    /// Tokens that an expert accepts, as a multiple of the mean; default: no limit, no token is dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_factor: Option<f64>,
    /// Whether the router has a bias per expert (DeepSeek-V3's balancing without a loss).
    #[serde(default)]
    pub router_bias: bool,
    /// Groups of experts that the router tells apart; 1: none.
    #[serde(default = "one")]
    pub groups: u64,
    /// Groups that one token may use (node-limited routing); default: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group_limit: Option<u64>,
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

fn yes() -> bool {
    true
}
fn is_zero(value: &u64) -> bool {
    *value == 0
}
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
fn one() -> u64 {
    1
}

impl ModelSpec {
    /// Key and value heads.
    pub fn kv_heads(&self) -> u64 {
        self.kv_heads.unwrap_or(self.heads)
    }
    /// Width of one head (of its value part, with latent attention).
    pub fn head_size(&self) -> u64 {
        self.head_size.unwrap_or(self.hidden / self.heads.max(1))
    }
    /// Width of a query or key head.
    pub fn qk_head_size(&self) -> u64 {
        self.mla.map_or(self.head_size(), |m| m.qk_nope_head_size.saturating_add(m.qk_rope_head_size))
    }
    /// Width of a value head.
    pub fn v_head_size(&self) -> u64 {
        self.mla.map_or(self.head_size(), |m| m.v_head_size)
    }
    /// Whether the projections of queries, keys and values have biases.
    pub fn qkv_biases(&self) -> bool {
        self.attention.qkv_biases.unwrap_or(self.biases)
    }
    /// Whether the output projection of attention has a bias.
    pub fn output_bias(&self) -> bool {
        self.attention.output_bias.unwrap_or(self.biases)
    }
    /// Whether the MLP's matrices have biases.
    pub fn mlp_biases(&self) -> bool {
        self.mlp_biases.unwrap_or(self.biases)
    }
    /// Whether queries and keys are rotated.
    pub fn rotates(&self) -> bool {
        self.attention.rotary.unwrap_or(self.positions == Positions::Rotary)
    }
    /// Normalisations of one layer.
    pub fn norms(&self) -> u64 {
        let parts = u64::from(self.mixer != Mixer::None) + u64::from(self.mlp != MlpKind::None);
        self.norms.unwrap_or(if self.parallel_block { 1 } else { parts })
    }
    /// Width of the projection from which queries (and the output's gate) come.
    pub fn query_width(&self) -> u64 {
        self.heads * self.head_size() * if self.attention.output_gate { 2 } else { 1 }
    }
}

impl AttentionSpec {
    /// Query–key pairs that the mask leaves in a sequence, the diagonal included.
    pub fn pairs(&self, sequence: u64) -> f64 {
        let triangle = |n: u64| n as f64 * (n as f64 + 1.0) / 2.0;
        match (self.causal, self.window, self.chunk) {
            (false, None, None) => (sequence as f64).powi(2),
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

impl MoeSpec {
    /// So many experts, of which a token visits `top_k`, all else by default.
    pub fn of(experts: u64, top_k: u64) -> MoeSpec {
        MoeSpec {
            experts,
            top_k,
            ffn: None,
            shared_experts: 0,
            shared_ffn: None,
            shared_gate: false,
            latent: None,
            expert_biases: false,
            first_dense_layers: 0,
            every_layers: 1,
            capacity_factor: None,
            router_bias: false,
            groups: 1,
            group_limit: None,
        }
    }
    /// Whether layer `layer` (from 0) is one of those that have experts.
    pub fn covers(&self, layer: u64) -> bool {
        layer >= self.first_dense_layers
            && (layer - self.first_dense_layers).is_multiple_of(self.every_layers.max(1))
    }
    /// Width of the shared experts together.
    pub fn shared_width(&self, model: &ModelSpec) -> u64 {
        self.shared_ffn.unwrap_or(self.shared_experts.saturating_mul(self.ffn.unwrap_or(model.ffn)))
    }
    /// Width in which tokens reach the experts.
    pub fn width(&self, model: &ModelSpec) -> u64 {
        self.latent.unwrap_or(model.hidden)
    }
}
