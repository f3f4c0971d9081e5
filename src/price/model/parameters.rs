//! How many parameters a model has: exact counts, layer by layer.
//!
//! Those of mixers stand with the mixers ([`stepsim_spec::model::TokenMixer`]).

use super::layer_count::{expert, mixer, mlp, outside, prediction_module, router_and_shared};
use super::module_count::{module_parameters, trained_module_parameters};
use super::{LayerPlan, Shard};
use stepsim_spec::model::{MlpKind, ModelSpec, Positions};
use stepsim_spec::workload::{TrainedWeights, TrainingSpec, WorkloadSpec};

/// Parameters of a whole model, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ParameterCount {
    /// Embedding tables: tokens, learned positions, and the LM head where it is not tied.
    pub embedding: u64,
    /// Mixers (attention projections and the like) and norms of all layers, and the final norm.
    pub attention: u64,
    /// Dense MLPs, routers and shared experts.
    pub mlp: u64,
    /// Routed experts.
    pub experts: u64,
    /// Those that one token passes, the input embedding included: all of them without experts.
    pub active: u64,
    /// Modules in front of the language model, in no other field.
    pub modules: u64,
    /// Multi-token-prediction modules without the embedding and the LM head that they share, in no other field.
    pub prediction: u64,
}

impl ParameterCount {
    /// All parameters of the decoder.
    pub fn total(&self) -> u64 {
        self.embedding + self.attention + self.mlp + self.experts
    }
    /// Counts the parameters of a model.
    pub fn of(model: &ModelSpec) -> ParameterCount {
        let m = model;
        let tables = if m.tied_embeddings { 1 } else { 2 };
        let learned = m.positions == Positions::Learned;
        let mut count = ParameterCount {
            embedding: (tables * m.vocabulary + m.extra_rows) * m.hidden
                + if learned { m.sequence * m.hidden } else { 0 }
                + if m.head_bias { m.vocabulary } else { 0 },
            attention: (1 + m.extra_norms) * m.norm_parameters(m.hidden),
            modules: m.modules.iter().map(module_parameters).sum(),
            ..ParameterCount::default()
        };
        let mut idle = 0;
        for (layer, layers) in m.layer_counts() {
            count.attention += layers * (mixer(&layer) + outside(&layer));
            match &layer.moe {
                Some(moe) => {
                    count.mlp += layers * router_and_shared(&layer, moe);
                    let expert = expert(&layer, moe);
                    count.experts += layers * moe.experts * expert;
                    idle += layers * (moe.experts - moe.top_k.min(moe.experts)) * expert;
                }
                None if layer.mlp == MlpKind::None => {}
                None => count.mlp += layers * mlp(&layer, layer.ffn),
            }
        }
        count.active = count.total() - idle;
        count.prediction = m.prediction_modules * prediction_module(m);
        count
    }
}

/// Parameters that a step trains, adapters included.
pub fn trained_parameters(model: &ModelSpec, workload: &WorkloadSpec) -> u64 {
    let modules = workload.used_modules(model);
    trained_decoder_parameters(model, &workload.training, workload.trains_modules())
        + modules.iter().map(trained_module_parameters).sum::<u64>()
}

/// Parameters of the language model that a step trains; `below` tells whether something in front of it is trained.
pub fn trained_decoder_parameters(model: &ModelSpec, training: &TrainingSpec, below: bool) -> u64 {
    if training.is_whole() && !model.leaves_out_layers() {
        return ParameterCount::of(model).total();
    }
    let whole = Shard::whole(model);
    let with = |trained: TrainedWeights| Shard { trained, ..whole.clone() };
    let trained_of = |i| {
        LayerPlan::transformer(&model.layer(i), &with(training.of_layer(model, i, below))).trained.total()
    };
    let head = LayerPlan::head(model, &with(training.of_head(model)), !model.tied_embeddings);
    let table = LayerPlan::embedding(model, &with(training.of_embedding()));
    let trained = (training.frozen_layers..model.layers).map(trained_of).sum::<u64>();
    trained + head.trained.total() + table.trained.total()
}
