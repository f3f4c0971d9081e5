//! How many parameters a model has: exact counts, layer by layer.
//!
//! Those of mixers stand with the mixers ([`stepsim_spec::model::TokenMixer`]).

use super::{LayerPlan, Shard};
use stepsim_spec::model::{Mixer, MlpKind, ModelSpec, ModuleSpec, MoeSpec, Positions};
use stepsim_spec::workload::{AdaptedMatrix, TrainedWeights, TrainingSpec, UsedModule, WorkloadSpec};

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
            modules: m.modules.iter().map(ModuleSpec::parameters).sum(),
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

impl ModelSpec {
    /// Weights of the adapters of a layer, of the model as that layer sees it: all, or those that a token meets.
    pub fn adapter_weights(&self, trained: &TrainedWeights, active: bool) -> u64 {
        let TrainedWeights::Adapters(adapters) = trained else { return 0 };
        let h = self.hidden;
        let mlps = match &self.moe {
            Some(moe) => {
                let (routed, shared) = (if active { moe.top_k } else { moe.experts }, moe.shared_width(self));
                routed * (h + moe.ffn.unwrap_or(self.ffn)) + if shared > 0 { h + shared } else { 0 }
            }
            None if self.mlp == MlpKind::None => 0,
            None => h + self.ffn,
        };
        let sides = |matrix: AdaptedMatrix| match matrix {
            AdaptedMatrix::Query => h + self.query_width(),
            AdaptedMatrix::Key | AdaptedMatrix::Value => h + self.kv_heads() * self.head_size(),
            AdaptedMatrix::Projection => self.heads * self.v_head_size() + h,
            AdaptedMatrix::Gate if !self.gated_mlp => 0,
            AdaptedMatrix::Gate | AdaptedMatrix::Up | AdaptedMatrix::Down => mlps,
        };
        let has = |m: &AdaptedMatrix| adapters.adapts(*m);
        AdaptedMatrix::ALL.into_iter().filter(has).map(|m| adapters.rank * sides(m)).sum()
    }
    /// How many parameters a step trains, adapters included.
    pub fn trained_parameters(&self, workload: &WorkloadSpec) -> u64 {
        let modules = workload.used_modules(self);
        self.trained_decoder(&workload.training, workload.trains_modules())
            + modules.iter().map(UsedModule::trained_parameters).sum::<u64>()
    }
    /// The same of the language model; `below` tells whether something in front of it is trained.
    pub fn trained_decoder(&self, training: &TrainingSpec, below: bool) -> u64 {
        if training.is_whole() && !self.leaves_out_layers() {
            return ParameterCount::of(self).total();
        }
        let whole = Shard::whole(self);
        let with = |trained: TrainedWeights| Shard { trained, ..whole.clone() };
        let trained_of = |i| {
            LayerPlan::transformer(&self.layer(i), &with(training.of_layer(self, i, below))).trained.total()
        };
        let head = LayerPlan::head(self, &with(training.of_head(self)), !self.tied_embeddings);
        let table = LayerPlan::embedding(self, &with(training.of_embedding()));
        let trained = (training.frozen_layers..self.layers).map(trained_of).sum::<u64>();
        trained + head.trained.total() + table.trained.total()
    }
}

/// Parameters of one multi-token-prediction module: norms of the stream, of the embedding and before the head, the
/// projection of both to one width, and a layer like the last.
fn prediction_module(m: &ModelSpec) -> u64 {
    let layer = m.layer(m.layers.saturating_sub(1));
    let mlp = match &layer.moe {
        Some(moe) => router_and_shared(&layer, moe) + moe.experts * expert(&layer, moe),
        None if layer.mlp == MlpKind::None => 0,
        None => mlp(&layer, layer.ffn),
    };
    2 * m.hidden * m.hidden + (3 + layer.norms()) * m.norm_parameters(m.hidden) + mixer(&layer) + mlp
}

fn linear(biases: bool, inputs: u64, outputs: u64) -> u64 {
    inputs * outputs + if biases { outputs } else { 0 }
}

fn mlp(model: &ModelSpec, ffn: u64) -> u64 {
    let (inputs, biases) = (if model.gated_mlp { 2 } else { 1 }, model.mlp_biases());
    linear(biases, model.hidden, inputs * ffn) + linear(biases, ffn, model.hidden)
}

/// One routed expert.
fn expert(model: &ModelSpec, moe: &MoeSpec) -> u64 {
    let (ffn, width) = (moe.ffn.unwrap_or(model.ffn), moe.width(model));
    let inputs = if model.gated_mlp { 2 } else { 1 };
    linear(moe.expert_biases, width, inputs * ffn) + linear(moe.expert_biases, ffn, width)
}

/// Router, shared expert with its gate, and the projections to and from a latent width.
fn router_and_shared(model: &ModelSpec, moe: &MoeSpec) -> u64 {
    let shared = match moe.shared_width(model) {
        0 => 0,
        width => mlp(model, width) + if moe.shared_gate { model.hidden } else { 0 },
    };
    let latent = moe.latent.map_or(0, |width| 2 * model.hidden * width);
    model.hidden * moe.experts + if moe.router_bias { moe.experts } else { 0 } + shared + latent
}

/// A dense layer, of the model as that layer sees it.
pub(super) fn layer_parameters(layer: &ModelSpec) -> u64 {
    mixer(layer) + outside(layer) + mlp(layer, layer.ffn)
}

/// Norms of a layer, and the numbers that scale its parts.
fn outside(layer: &ModelSpec) -> u64 {
    let parts = u64::from(layer.mixer != Mixer::None) + u64::from(layer.mlp != MlpKind::None);
    layer.norms() * layer.norm_parameters(layer.hidden) + if layer.gates { parts } else { 0 }
}

/// Parameters of the mixer of one layer, without its norm.
pub(super) fn mixer(m: &ModelSpec) -> u64 {
    Mixer::of(m).map_or(0, |mixer| mixer.parameters(m.hidden))
}
