//! Models whose layers differ: kinds of layers, each saying what differs from the model's own fields, and the pattern
//! in which they follow one another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AttentionSpec, Mixer, MlaSpec, MoeSpec};

/// The MLP of a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MlpKind {
    /// Experts where `moe` puts them (`first_dense_layers`, `every_layers`), else the dense one.
    #[default]
    ByLayer,
    /// The dense one, of width `ffn`.
    Dense,
    /// Experts, as `moe` says.
    Experts,
    /// None: the layer only mixes tokens.
    None,
}

/// A kind of layer. Fields that are left out are as the model says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LayerKindSpec {
    /// The token mixer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mixer: Option<Mixer>,
    /// The MLP behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mlp: Option<MlpKind>,
    /// Query heads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<u64>,
    /// Key and value heads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u64>,
    /// Width of one head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_size: Option<u64>,
    /// Width of the dense MLP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ffn: Option<u64>,
    /// The attention, whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionSpec>,
    /// Latent attention.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mla: Option<MlaSpec>,
    /// Experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe: Option<MoeSpec>,
    /// Normalisations of the layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub norms: Option<u64>,
    /// True if learned numbers scale the outputs of attention and MLP that are added to the stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gates: Option<bool>,
}

/// Layers of one kind in a row: `["local", 5]`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LayerRun(
    /// The kind's name.
    pub String,
    /// How many.
    pub u64,
);
