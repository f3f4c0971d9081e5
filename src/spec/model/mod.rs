//! The model file: the shape of a transformer, with nothing about how it is trained.
//!
//! Everything that can be derived has a default, so a short file is enough: `kv_heads` is `heads`, `head_size` is
//! `hidden / heads`. Sizes are counts of elements, never bytes. Layers that differ are kinds ([`LayerKindSpec`]) in a
//! pattern that repeats until all layers have one.

mod attention;
mod check;
mod defaults;
mod kinds;
mod layers;
mod matrices;
mod mixers;
mod module;
mod module_check;
mod module_stack;
mod moe;
mod norm;

pub use attention::{AttentionKernel, AttentionSpec, IndexerSpec, MlaSpec, QkNorm};
pub use kinds::{LayerKindSpec, LayerRun, MlpKind};
pub use matrices::{Matrix, MatrixCut, MatrixElements};
pub use mixers::{
    GatedDeltaSpec, KimiDeltaSpec, LightningSpec, Mamba1Spec, Mamba2Spec, Mixer, MixingFlops, Rwkv7Spec,
    Scan, ShortConvolutionSpec, TokenMixer, qk_norm_and_sinks,
};
pub use module::{DeepstackSpec, ModuleInputSpec, ModuleSpec, ProjectorSpec, TokenNorm};
pub use moe::{GroupScore, MoeSpec};
pub use norm::Norm;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use defaults::{is_default, is_zero};

/// A transformer's shape.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    /// True if the MLP has a gate matrix (SwiGLU, GeGLU): three matrices instead of two.
    #[serde(default)]
    pub gated_mlp: bool,
    /// Rows of the embedding table.
    pub vocabulary: u64,
    /// Rows of the embedding table beyond the rows of the LM head (tokens that are read and never written, as
    /// `<|image|>`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extra_rows: u64,
    /// True if the LM head shares the embedding table.
    #[serde(default)]
    pub tied_embeddings: bool,
    /// Tokens of one sequence, unless the workload says otherwise.
    pub sequence: u64,
    /// How positions enter.
    #[serde(default)]
    pub positions: Positions,
    /// True if the linear layers have biases, unless their own part says otherwise.
    #[serde(default)]
    pub biases: bool,
    /// True if the MLP's linear layers have biases; default: `biases`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mlp_biases: Option<bool>,
    /// True if the LM head has a bias.
    #[serde(default, skip_serializing_if = "is_default")]
    pub head_bias: bool,
    /// Kind of normalisation.
    #[serde(default)]
    pub norm: Norm,
    /// Normalisations of one layer; default: one before the mixer and one before the MLP (4 with norms behind them too,
    /// as Gemma has them; 1 where both read the same).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub norms: Option<u64>,
    /// Normalisations beside the layers' and the final one (behind the embedding, say).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub extra_norms: u64,
    /// True if learned numbers, one each, scale the outputs of attention and MLP that are added to the stream (Llama
    /// 3.2 Vision).
    #[serde(default, skip_serializing_if = "is_default")]
    pub gates: bool,
    /// True if dropout masks are drawn and saved (after attention, in the attention scores, after the MLP).
    #[serde(default)]
    pub dropout: bool,
    /// True if attention and MLP read the same normalised input and their outputs are summed once (PaLM, GPT-J).
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
    /// The token mixer of its layers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mixer: Mixer,
    /// The MLP of its layers.
    #[serde(default, skip_serializing_if = "is_default")]
    pub mlp: MlpKind,
    /// Kinds of layers by name, where layers differ.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub layer_kinds: BTreeMap<String, LayerKindSpec>,
    /// Order of the kinds, repeated until all layers have one: `[["local", 5], ["global", 1]]`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layer_pattern: Vec<LayerRun>,
    /// Multi-token-prediction modules behind the last layer (DeepSeek-V3, arXiv 2412.19437, section 2.2): each joins
    /// the stream with the next token's embedding, runs a layer like the last and the LM head once more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub prediction_modules: u64,
    /// Encoders of images or sound in front of the model, in the order in which they run. A step has those that its
    /// workload names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<ModuleSpec>,
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
    /// True if the projections of queries, keys and values have biases.
    pub fn qkv_biases(&self) -> bool {
        self.attention.qkv_biases.unwrap_or(self.biases)
    }
    /// True if the output projection of attention has a bias.
    pub fn output_bias(&self) -> bool {
        self.attention.output_bias.unwrap_or(self.biases)
    }
    /// True if the MLP's matrices have biases.
    pub fn mlp_biases(&self) -> bool {
        self.mlp_biases.unwrap_or(self.biases)
    }
    /// True if a layer attends to images.
    pub fn is_cross(&self) -> bool {
        self.mixer.is_attention() && self.attention.image_tokens.is_some()
    }
    /// True if a layer attends to images and the step has none: it is left out.
    pub fn is_left_out(&self) -> bool {
        self.is_cross() && self.attention.image_tokens == Some(0)
    }
    /// True if queries and keys are rotated.
    pub fn rotates(&self) -> bool {
        self.attention.rotary.unwrap_or(self.positions == Positions::Rotary)
    }
    /// Parameters of a normalisation of vectors of a width.
    pub fn norm_parameters(&self, width: u64) -> u64 {
        self.norm.parameters(width)
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
