//! How a step uses the modules of its model: how many images, what is trained, and how ranks share the work.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::documents::{DrawnLengths, SequenceOrder};
use super::memory::RecomputeSpec;
use stepsim_core::declare::one_long;

/// How a step uses a module of its model. The module runs on the first pipeline stage, in front of the embedding, or on
/// `stages` of its own before that.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModuleUseSpec {
    /// Images or clips in each sequence, where all have equally many. Their tokens are part of the sequence. One of
    /// `items`, `counts` and `drawn` says how many there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub items: Option<u64>,
    /// Images of each sequence of the global batch in the order in which they come; the list begins again where it
    /// ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Vec<u64>>,
    /// A seeded distribution of the images of a sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<DrawnItems>,
    /// The data-parallel rank of each sequence, where sequences have unequal numbers of images.
    #[serde(default, skip_serializing_if = "SequenceOrder::is_packed")]
    pub order: SequenceOrder,
    /// Where sequences have unequal numbers of images: whether data-parallel ranks take equal shares of the images of a
    /// micro-batch, all of them together, and send each other the tokens.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exchange: bool,
    /// Patches or frames of one image or clip; default: the model's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The part of the module that is trained.
    #[serde(default)]
    pub trained: TrainedPart,
    /// The work that tensor-parallel ranks share: each layer, or the images.
    #[serde(default)]
    pub parallelism: ModuleParallelism,
    /// Pipeline stages that hold this module alone, at the front of the pipeline: its layers are spread evenly over
    /// them, and the embedding stands on the stage behind. 1 to `parallelism.pipeline.size` - 1; default: it shares the
    /// first stage with the language model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stages: Option<u64>,
    /// Devices of its own, behind the language model's, as one pipeline stage at the front with these degrees.
    /// `parallelism.pipeline.size` counts that stage, `parallelism.data` is the language model's and must be given.
    /// Default: none, it runs on devices of the language model's degrees.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devices: Option<ModuleDevices>,
    /// True if every pipeline rank holds the module and encodes the images of some micro-batches of its replica: in
    /// front of its first forward pass and behind its last backward pass, where it waits. Tokens go to the first
    /// stage, gradients come back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub bubbles: bool,
    /// The part of the module that is computed again in the backward pass; default: as the workload's `recompute`
    /// says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recompute: Option<RecomputeSpec>,
}

/// A log-normal number of images in a sequence: 1 to `most`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DrawnItems {
    /// Median.
    pub median: f64,
    /// Standard deviation of the logarithm; 0: all alike.
    pub sigma: f64,
    /// More are cut to so many.
    pub most: u64,
    /// Seed.
    #[serde(default)]
    pub seed: u64,
}

/// The degrees of a module on devices of its own: tensor × data ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModuleDevices {
    /// Ranks that cut each layer.
    #[serde(default = "one_long")]
    pub tensor: u64,
    /// Ranks, or groups of `tensor` ranks, that hold the whole module and share the images of all replicas of the
    /// language model. Their number and the ranks of a language stage (tensor × context × data) must divide one
    /// another.
    pub data: u64,
}

impl ModuleDevices {
    /// Number of its ranks.
    pub fn ranks(self) -> u64 {
        self.tensor.saturating_mul(self.data)
    }
}

impl DrawnItems {
    /// The law of lengths that draws them.
    pub fn law(&self) -> DrawnLengths {
        let DrawnItems { median, sigma, most, seed } = *self;
        DrawnLengths { median, sigma, shortest: 1, longest: Some(most), seed }
    }
}

/// The part of a module that is trained.
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

/// The work on a module that tensor-parallel ranks share. Context-parallel ranks share its images either way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ModuleParallelism {
    /// Each layer: heads and MLPs are cut as in the language model, without sequence parallelism.
    #[default]
    Tensor,
    /// The images: each rank holds the whole module, encodes its share of the images of a micro-batch, and gathers
    /// the tokens of the others. Where the images do not divide, the fullest rank decides.
    Data,
}
