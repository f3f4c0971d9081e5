//! The weights that a step trains: all, low-rank adapters beside frozen ones (LoRA), or all but the first layers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Dtype;
use crate::model::ModelSpec;

/// The weights that a step trains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct TrainingSpec {
    /// The number of first layers that are frozen, together with the embedding (and a tied head): they run forward
    /// alone, unless a module in front of them is trained. All layers, with the head, may be frozen only then.
    pub frozen_layers: u64,
    /// Kinds of layers that are trained, by their names in the model's `layer_kinds` (`["cross"]` of Llama 3.2
    /// Vision); all other layers, embedding and head are frozen, and gradients pass through what lies above the
    /// lowest that is trained. Default: all kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<String>>,
    /// Adapters beside matrices of all other layers, which are frozen then, and so are embedding, norms and head.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub adapters: Option<AdapterSpec>,
    /// How the frozen matrices of the layers are kept, beside adapters; default: as the other weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frozen_format: Option<FrozenFormat>,
    /// Each micro-batch also passes forward through a frozen reference model, as in direct preference optimisation
    /// (Rafailov et al. 2023, arXiv 2305.18290): a copy of the model, or beside adapters the model without them.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub reference: bool,
}

/// Formats of frozen matrices, which are converted back before each of their products (bitsandbytes, torchao).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FrozenFormat {
    /// Four bits, with a factor of 32 bits for 64 weights (QLoRA, Dettmers et al. 2023, arXiv 2305.14314).
    Nf4,
    /// Four bits, with a factor of 8 bits for 64 weights, and one of 32 bits for 256 of those: double quantisation.
    Nf4Double,
    /// Four bits, with a factor of 16 bits and a zero of 4 for 128 weights (GPTQ, Frantar et al. 2022, arXiv
    /// 2210.17323), taken apart by operations of PyTorch.
    Gptq,
    /// Eight bits, with a factor for each row.
    Int8,
}

impl FrozenFormat {
    /// Bytes of a weight with its share of the factors.
    pub fn bytes(self) -> f64 {
        match self {
            FrozenFormat::Nf4 => 0.5 + 4.0 / 64.0,
            FrozenFormat::Nf4Double => 0.5 + 1.0 / 64.0 + 4.0 / (64.0 * 256.0),
            FrozenFormat::Gptq => 0.5 + 2.5 / 128.0,
            FrozenFormat::Int8 => 1.0,
        }
    }
    /// Bytes that are moved for a weight between what is read of the format and what is written in the format of
    /// activations, and the kernels that do all of it. AutoGPTQ 0.4 (nn_modules/qlinear/qlinear_cuda.py) shifts into
    /// integers of 32 bits (4 written), casts them to 8 (4 + 1), masks (1 + 1), takes factors and zeros by the group of
    /// each row (2 + 2 and 1 + 1), subtracts (2 + 1) and multiplies (3); zeros are shifted, cast, masked and counted up
    /// by four more kernels, and the groups cast to indices.
    pub fn between(self) -> (f64, usize) {
        if self == FrozenFormat::Gptq { (23.0, 12) } else { (0.0, 1) }
    }
}

/// Low-rank adapters (LoRA, Hu et al. 2021, arXiv 2106.09685): beside a frozen matrix W a product of two, B·A,
/// through `rank`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AdapterSpec {
    /// Inner width r.
    pub rank: u64,
    /// The matrices with adapters; default: all that the model's attention, MLPs and experts have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Vec<AdaptedMatrix>>,
    /// Embedding and head are trained, whole, beside the adapters (PEFT's `modules_to_save`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ends: bool,
    /// The input of an adapter passes through dropout.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub dropout: bool,
    /// Format of their weights, to which inputs are cast (PEFT's `autocast_adapter_dtype`: fp32); default: that of
    /// activations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<Dtype>,
    /// Format of their products; default: as activations, which autocast does. Without autocast PEFT multiplies in
    /// the format of the weights.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub products: Option<Dtype>,
}

/// Matrices that may have adapters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum AdaptedMatrix {
    /// Of queries, with their gate where they have one.
    Query,
    /// Of keys.
    Key,
    /// Of values.
    Value,
    /// Behind attention.
    Projection,
    /// The gate of a gated MLP.
    Gate,
    /// The first of an MLP.
    Up,
    /// The last of an MLP.
    Down,
}

impl AdaptedMatrix {
    /// All of them.
    pub const ALL: [AdaptedMatrix; 7] = {
        use AdaptedMatrix::{Down, Gate, Key, Projection, Query, Up, Value};
        [Query, Key, Value, Projection, Gate, Up, Down]
    };
    /// True for a matrix of an MLP.
    pub fn of_mlp(self) -> bool {
        self >= AdaptedMatrix::Gate
    }
}

impl AdapterSpec {
    /// True if a matrix has an adapter.
    pub fn adapts(&self, matrix: AdaptedMatrix) -> bool {
        self.of.as_ref().is_none_or(|of| of.contains(&matrix))
    }
}

/// The trained part of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum TrainedWeights {
    /// All its weights.
    #[default]
    Weights,
    /// Adapters; the weights are frozen, and gradients pass through them.
    Adapters(AdapterSpec),
    /// Nothing, but gradients pass through.
    Through,
    /// Nothing, and nothing before it either: it runs forward alone.
    Nothing,
}

impl TrainedWeights {
    /// True if its own weights are trained.
    pub fn weights(&self) -> bool {
        *self == TrainedWeights::Weights
    }
    /// True if the input of a product with one of these matrices is kept for a weight gradient.
    pub fn keeps_input_of(&self, matrices: &[AdaptedMatrix]) -> bool {
        match self {
            TrainedWeights::Weights => true,
            TrainedWeights::Adapters(adapters) => matrices.iter().any(|m| adapters.adapts(*m)),
            TrainedWeights::Through | TrainedWeights::Nothing => false,
        }
    }
}

impl TrainingSpec {
    /// True if nothing is said.
    pub(super) fn is_default(&self) -> bool {
        *self == TrainingSpec::default()
    }
    /// True if all weights are trained.
    pub fn is_whole(&self) -> bool {
        *self == TrainingSpec { reference: self.reference, ..TrainingSpec::default() }
    }
    /// True if embedding and head are trained beside adapters.
    fn trains_ends(&self) -> bool {
        self.adapters.as_ref().is_some_and(|adapters| adapters.ends)
    }
    /// The trained part of the embedding.
    pub fn of_embedding(&self) -> TrainedWeights {
        if self.is_whole() || self.trains_ends() { TrainedWeights::Weights } else { TrainedWeights::Nothing }
    }
    /// True if a transformer layer is trained.
    pub fn trains_layer(&self, model: &ModelSpec, layer: u64) -> bool {
        let named =
            |kinds: &Vec<String>| model.kind_of(layer).is_some_and(|kind| kinds.iter().any(|k| k == kind));
        layer >= self.frozen_layers && self.kinds.as_ref().is_none_or(named)
    }
    /// The lowest transformer layer that is trained; as many as there are where none is.
    pub fn lowest(&self, model: &ModelSpec) -> u64 {
        let above = self.frozen_layers.min(model.layers)..model.layers;
        above.into_iter().find(|layer| self.trains_layer(model, *layer)).unwrap_or(model.layers)
    }
    /// The trained part of a transformer layer; `below` tells whether something in front of the language model is
    /// trained.
    pub fn of_layer(&self, model: &ModelSpec, layer: u64, below: bool) -> TrainedWeights {
        match &self.adapters {
            _ if self.trains_layer(model, layer) && self.adapters.is_none() => TrainedWeights::Weights,
            Some(adapters) if self.trains_layer(model, layer) => TrainedWeights::Adapters(adapters.clone()),
            _ if self.reaches_embedding(below) || layer > self.lowest(model) => TrainedWeights::Through,
            _ => TrainedWeights::Nothing,
        }
    }
    /// True if a transformer layer is the lowest trained one, with nothing trained below it.
    pub fn is_lowest(&self, model: &ModelSpec, layer: u64, below: bool) -> bool {
        !self.reaches_embedding(below) && layer == self.lowest(model)
    }
    /// True if gradients pass through all layers: the embedding is trained, or something in front of it (`below`).
    pub fn reaches_embedding(&self, below: bool) -> bool {
        below || self.of_embedding().weights()
    }
    /// The trained part of the head and of multi-token-prediction modules. With all layers frozen the head is too.
    pub fn of_head(&self, model: &ModelSpec) -> TrainedWeights {
        let table = model.tied_embeddings && self.frozen_layers > 0;
        let alone = self.adapters.is_some() || self.kinds.is_some();
        let frozen = !self.trains_ends() && (alone || table || self.frozen_layers >= model.layers);
        if frozen { TrainedWeights::Through } else { TrainedWeights::Weights }
    }
}
