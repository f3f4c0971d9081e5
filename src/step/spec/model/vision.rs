//! An image encoder in front of the model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::is_zero;

/// A vision encoder (ViT) and the projection of its tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct VisionSpec {
    /// Layers.
    pub layers: u64,
    /// Width.
    pub hidden: u64,
    /// Width of the MLP.
    pub ffn: u64,
    /// Edge of the image in pixels.
    pub image: u64,
    /// Edge of a patch in pixels.
    pub patch: u64,
    /// Whether the patch embedding has a bias.
    #[serde(default)]
    pub patch_bias: bool,
    /// Whether a class token stands before the patches.
    #[serde(default)]
    pub class_token: bool,
    /// Layer norms outside the layers.
    #[serde(default)]
    pub outer_norms: u64,
    /// Matrices of the projector, inputs by outputs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub projector: Vec<[u64; 2]>,
    /// Width of a normalisation in the projector.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub projector_norm: u64,
}

impl VisionSpec {
    /// Tokens of one image inside the encoder.
    pub fn tokens(&self) -> u64 {
        let edge = self.image / self.patch.max(1);
        edge * edge + u64::from(self.class_token)
    }
}
