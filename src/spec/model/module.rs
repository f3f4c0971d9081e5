//! Modules in front of the language model: encoders of images or sound, each with the projector of its tokens.
//!
//! An image (or a clip) is cut into patches (or frames). Products make a vector of each, the encoder's *positions*;
//! layers without a causal mask follow; `merge` positions become one *token*, which the projector brings to the width
//! of the language model. The token then takes a place in a sequence of that model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::{is_default, is_zero, one, yes};
use super::norm::Norm;
use stepsim_core::declare::defaults;

defaults! {
    /// An encoder in front of the language model, and the projector of its tokens.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct ModuleSpec {
        /// Name in workloads, reports and timelines: `vision`, `audio`.
        pub name: String,
        /// Where the figures come from.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        pub source: String,
        /// How patches or frames become positions.
        pub input: ModuleInputSpec,
        /// Transformer layers.
        pub layers: u64,
        /// Width of the residual stream.
        pub hidden: u64,
        /// Attention heads.
        pub heads: u64,
        /// Width of one head; default: `hidden / heads`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub head_size: Option<u64>,
        /// Width of the MLP (of one of its two input matrices where it is gated).
        pub ffn: u64,
        /// True if the MLP has a gate matrix: three matrices instead of two.
        #[serde(default)]
        pub gated_mlp: bool,
        /// True if the linear layers have biases.
        #[serde(default = "yes")]
        pub biases: bool = true,
        /// True if keys have biases where all else has (Whisper's have none).
        #[serde(default = "yes", skip_serializing_if = "is_yes")]
        pub key_biases: bool = true,
        /// True if the projections of attention have biases; default: `biases`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub attention_biases: Option<bool>,
        /// Kind of normalisation in the layers, before and behind them.
        #[serde(default)]
        pub norm: Norm,
        /// True if learned scales stand behind attention and behind the MLP (InternViT).
        #[serde(default, skip_serializing_if = "is_default")]
        pub layer_scale: bool,
        /// The number of last layers with a learned number each that scales the outputs of attention and of the MLP
        /// (the global layers of Llama 3.2 Vision); not beside `full_every`.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub gated_layers: u64,
        /// True if queries and keys are rotated.
        #[serde(default)]
        pub rotary: bool,
        /// Positions of a window, outside which a position sees nothing; default: each sees its whole image or clip.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub window: Option<u64>,
        /// Every so many-th layer sees the whole image in spite of `window` (Qwen2.5-VL: 8); default: none does.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub full_every: Option<u64>,
        /// Patches or frames of one image or clip, unless the workload says otherwise.
        pub sequence: u64,
        /// How many of it each sequence has where a workload does not say; default: none, a step may be of text alone.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub per_sequence: u64,
        /// Patches or frames that become one token.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        pub merge: u64 = 1,
        /// The projector, which brings tokens to the width of the language model.
        pub projector: ProjectorSpec,
        /// Further projectors, behind layers of the encoder (Qwen3-VL); default: none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub deepstack: Option<DeepstackSpec>,
    }
}

/// Projectors behind layers of an encoder. Each makes as many tokens as there are; the language model adds the first
/// projector's to the residual stream behind its first layer, the second's behind its second, and so on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeepstackSpec {
    /// Numbers of the encoder's layers behind which they stand, from 0, in order.
    pub layers: Vec<u64>,
    /// The projector behind each.
    pub projector: ProjectorSpec,
}

impl ModuleSpec {
    /// Numbers of the layers with a projector of their own.
    pub fn deep_layers(&self) -> &[u64] {
        self.deepstack.as_ref().map_or(&[], |deep| &deep.layers)
    }
    /// All projectors: that behind the last layer, and those behind others.
    pub fn projectors(&self) -> impl Iterator<Item = &ProjectorSpec> {
        let deep = self.deepstack.iter().flat_map(|deep| deep.layers.iter().map(|_| &deep.projector));
        std::iter::once(&self.projector).chain(deep)
    }
}

defaults! {
    /// The first products of an encoder.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct ModuleInputSpec {
        /// Matrices in order, inputs by outputs: the patch embedding, or convolutions (channels times width of the
        /// kernel by channels).
        pub matrices: Vec<[u64; 2]>,
        /// True if they have biases.
        #[serde(default)]
        pub biases: bool,
        /// Rows of all matrices but the last for one row of the last: the stride of the last convolution.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        pub stride: u64 = 1,
        /// Rows of a learned table of positions; 0: there is none.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub position_rows: u64,
        /// Learned vectors beside the patches of an image, or of each tile (a class token).
        #[serde(default, skip_serializing_if = "is_zero")]
        pub extra_tokens: u64,
        /// True if these vectors become tokens too.
        #[serde(default, skip_serializing_if = "is_default")]
        pub extra_become_tokens: bool,
        /// Patches of a tile: `extra_tokens` and `pad_to` are of each tile, the layers see all tiles of an image.
        /// Default: an image is one tile.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub tile: Option<u64>,
        /// Positions of a tile are padded to a multiple of so many.
        #[serde(default = "one", skip_serializing_if = "is_one")]
        pub pad_to: u64 = 1,
        /// Learned numbers that scale tables of positions.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub gates: u64,
        /// Normalisations before the layers.
        #[serde(default, skip_serializing_if = "is_zero")]
        pub norms: u64,
    }
}

/// A projector, which brings tokens of an encoder to the width of the language model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectorSpec {
    /// Normalisations of the encoder's width behind its layers, before positions are merged.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub norms: u64,
    /// A normalisation of merged tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_norm: Option<TokenNorm>,
    /// Matrices in order, inputs by outputs, with an activation function between two: the first reads `merge`
    /// positions side by side, or their mean.
    pub matrices: Vec<[u64; 2]>,
    /// True if they have biases.
    #[serde(default)]
    pub biases: bool,
    /// Numbers of the encoder's layers, from 0, whose inputs are put side by side with the output of the last before
    /// the first matrix reads them (Llama 3.2 Vision); default: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside_layers: Vec<u64>,
}

impl ModuleInputSpec {
    /// Tiles of `patches` patches.
    pub fn tiles(&self, patches: u64) -> u64 {
        self.tile.map_or(1, |tile| patches.div_ceil(tile.max(1)))
    }
    /// Positions in the layers for `patches` patches of an image.
    pub fn positions(&self, patches: u64) -> u64 {
        let tile = self.tile.map_or(patches, |tile| tile.min(patches));
        self.tiles(patches) * (tile + self.extra_tokens).next_multiple_of(self.pad_to.max(1))
    }
    /// Those of them that become tokens.
    pub fn used_positions(&self, patches: u64) -> u64 {
        patches + if self.extra_become_tokens { self.tiles(patches) * self.extra_tokens } else { 0 }
    }
}

/// A normalisation of merged tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenNorm {
    /// Width of a token.
    pub width: u64,
    /// Kind of normalisation.
    #[serde(default)]
    pub norm: Norm,
}

fn is_one(n: &u64) -> bool {
    *n == 1
}
fn is_yes(yes: &bool) -> bool {
    *yes
}

impl ModuleSpec {
    /// Width of one head.
    pub fn head_size(&self) -> u64 {
        self.head_size.unwrap_or(self.hidden / self.heads.max(1))
    }
}
