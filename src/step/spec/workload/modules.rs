//! How a step uses the modules of its model: how many images, what is trained, and how ranks share the work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::memory::RecomputeSpec;

/// How a step uses a module of its model. The module runs on the first pipeline stage, in front of the embedding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModuleUseSpec {
    /// Images or clips in each sequence. Their tokens are among those of the sequence.
    pub items: u64,
    /// Patches or frames of one image or clip; default: the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// What of the module is trained.
    #[serde(default)]
    pub trained: TrainedPart,
    /// What tensor-parallel ranks share: each layer, or the images.
    #[serde(default)]
    pub parallelism: ModuleParallelism,
    /// What of the module is computed again in the backward pass; default: as the workload's `recompute` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recompute: Option<RecomputeSpec>,
}

/// What of a module is trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TrainedPart {
    /// Encoder and projector.
    #[default]
    All,
    /// The projector alone: the encoder runs forward alone.
    Projector,
    /// Nothing: the module runs forward alone.
    Nothing,
}

/// What tensor-parallel ranks share of a module. Context-parallel ranks share its images either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleParallelism {
    /// Each layer: heads and MLPs are cut as those of the language model, without sequence parallelism.
    #[default]
    Tensor,
    /// The images: each rank holds the whole module, encodes its share of the images of a micro-batch, and gathers the tokens of the
    /// others. Where the images do not divide, the fullest rank decides.
    Data,
}
