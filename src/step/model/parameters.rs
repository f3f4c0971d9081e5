//! How many parameters a model has: exact counts, layer by layer.
//!
//! Formulas by kind of mixer stand with their functions; symbols are those of the papers that [`crate::step::spec::model::Mixer`]
//! names.

use super::{LayerPlan, Shard};
use crate::step::spec::model::{
    GatedDeltaSpec, KimiDeltaSpec, LightningSpec, Mamba1Spec, Mamba2Spec, Mixer, MlaSpec, MlpKind, ModelSpec,
    MoeSpec, Norm, Positions, QkNorm, VisionSpec,
};
use crate::step::spec::workload::{AdaptedMatrix, Trained, TrainingSpec};

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
    /// The vision encoder and its projector, in no other field.
    pub vision: u64,
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
            embedding: tables * m.vocabulary * m.hidden
                + if learned { m.sequence * m.hidden } else { 0 }
                + if m.head_bias { m.vocabulary } else { 0 },
            attention: (1 + m.extra_norms) * norm(m, m.hidden),
            vision: m.vision.as_ref().map_or(0, vision),
            ..ParameterCount::default()
        };
        let mut idle = 0;
        for (layer, layers) in m.layer_counts() {
            count.attention += layers * (mixer(&layer) + layer.norms() * norm(&layer, m.hidden));
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
    /// Weights of the adapters of a layer, of the model as that layer sees it.
    pub fn adapter_weights(&self, trained: &Trained) -> u64 {
        let Trained::Adapters(adapters) = trained else { return 0 };
        let (h, f) = (self.hidden, self.ffn);
        let sides = |matrix: AdaptedMatrix| match matrix {
            AdaptedMatrix::Query => h + self.query_width(),
            AdaptedMatrix::Key | AdaptedMatrix::Value => h + self.kv_heads() * self.head_size(),
            AdaptedMatrix::Projection => self.heads * self.v_head_size() + h,
            AdaptedMatrix::Gate if !self.gated_mlp => 0,
            AdaptedMatrix::Gate | AdaptedMatrix::Up | AdaptedMatrix::Down => h + f,
        };
        let of_mlp = self.moe.is_none() && self.mlp != MlpKind::None;
        let has = |m: &AdaptedMatrix| adapters.adapts(*m) && (of_mlp || !m.of_mlp());
        AdaptedMatrix::ALL.into_iter().filter(has).map(|m| adapters.rank * sides(m)).sum()
    }
    /// How many parameters a step trains, adapters included.
    pub fn trained_parameters(&self, training: &TrainingSpec) -> u64 {
        if training.is_whole() {
            return ParameterCount::of(self).total();
        }
        let whole = Shard::whole(self);
        let with = |trained: Trained| Shard { trained, ..whole.clone() };
        let layer = |i| LayerPlan::transformer(&self.layer(i), &with(training.of_layer(i))).trained.total();
        let head =
            LayerPlan::head(self, &with(training.of_head(self.tied_embeddings)), !self.tied_embeddings);
        let trained = (training.frozen_layers..self.layers).map(layer).sum::<u64>();
        trained + head.trained.total()
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
    2 * m.hidden * m.hidden + (3 + layer.norms()) * norm(m, m.hidden) + mixer(&layer) + mlp
}

/// Parameters of one normalisation of a width.
pub(super) fn norm(model: &ModelSpec, width: u64) -> u64 {
    match model.norm {
        Norm::Rms | Norm::LayerNoBias => width,
        Norm::Layer => 2 * width,
        Norm::Plain => 0,
    }
}

/// Normalisation of queries and keys, and sinks: whole, before tensor parallelism cuts the heads.
pub(super) fn qk_norm_and_sinks(m: &ModelSpec) -> u64 {
    let norm = match m.attention.qk_norm {
        QkNorm::None | QkNorm::Weightless => 0,
        QkNorm::Head => 2 * m.head_size(),
        QkNorm::Full => (m.heads + m.kv_heads()) * m.head_size(),
    };
    norm + if m.attention.sinks { m.heads } else { 0 }
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

/// What mixes the tokens of one layer, without its norm.
pub(super) fn mixer(m: &ModelSpec) -> u64 {
    match &m.mixer {
        Mixer::None => 0,
        Mixer::Attention => match m.mla {
            Some(mla) => latent_attention(m, mla) + indexer(m, mla),
            None => {
                let outputs = m.query_width() + 2 * m.kv_heads() * m.head_size();
                linear(m.qkv_biases(), m.hidden, outputs)
                    + linear(m.output_bias(), m.heads * m.head_size(), m.hidden)
                    + qk_norm_and_sinks(m)
            }
        },
        Mixer::Mamba2(x) => mamba2(m, x),
        Mixer::Mamba1(x) => mamba1(m, x),
        Mixer::GatedDelta(x) => gated_delta(m, x),
        Mixer::KimiDelta(x) => kimi_delta(m, x),
        Mixer::Lightning(x) => lightning(m, x),
    }
}

fn latent_attention(m: &ModelSpec, mla: MlaSpec) -> u64 {
    let biases = m.qkv_biases();
    let q_width = m.heads * m.qk_head_size();
    let q = match mla.q_lora_rank {
        Some(rank) => linear(biases, m.hidden, rank) + norm(m, rank) + linear(biases, rank, q_width),
        None => linear(biases, m.hidden, q_width),
    };
    let kv = linear(biases, m.hidden, mla.kv_lora_rank + mla.qk_rope_head_size)
        + norm(m, mla.kv_lora_rank)
        + linear(biases, mla.kv_lora_rank, m.heads * (mla.qk_nope_head_size + mla.v_head_size));
    q + kv + linear(m.output_bias(), m.heads * mla.v_head_size, m.hidden)
}

/// Queries from the query latent, one key with its layer norm, and a weight for each head.
fn indexer(m: &ModelSpec, mla: MlaSpec) -> u64 {
    let from = mla.q_lora_rank.unwrap_or(m.hidden);
    m.attention.indexer.map_or(0, |x| {
        from * x.heads * x.head_size + m.hidden * x.head_size + 2 * x.head_size + m.hidden * x.heads
    })
}

/// Gate, input, B, C and step sizes in one projection; convolution over input, B and C; A, D and the bias of step sizes
/// for each head; gated norm; output.
fn mamba2(m: &ModelSpec, x: &Mamba2Spec) -> u64 {
    let inner = x.heads * x.head_size;
    let convolved = inner + 2 * x.groups * x.state;
    m.hidden * (inner + convolved + x.heads)
        + convolved * (x.convolution + u64::from(x.convolution_bias))
        + 3 * x.heads
        + inner
        + inner * m.hidden
}

/// Gate and input; convolution; step sizes, B and C from the input; their projection; A and D; output.
fn mamba1(m: &ModelSpec, x: &Mamba1Spec) -> u64 {
    let maps = x.dt_rank + 2 * x.state;
    m.hidden * 2 * x.inner
        + x.inner * (x.convolution + 1)
        + x.inner * maps
        + linear(true, x.dt_rank, x.inner)
        + x.inner * (x.state + 1)
        + x.inner * m.hidden
        + if x.inner_norms { maps } else { 0 }
}

/// Queries, keys, values and gate; two scalars a head; convolution over the first three; two vectors over heads; norm;
/// output.
fn gated_delta(m: &ModelSpec, x: &GatedDeltaSpec) -> u64 {
    let (keys, values) = (x.key_heads * x.key_size, x.value_heads * x.value_size);
    m.hidden * (2 * keys + 2 * values)
        + 2 * m.hidden * x.value_heads
        + (2 * keys + values) * x.convolution
        + 2 * x.value_heads
        + x.value_size
        + values * m.hidden
}

/// Queries, keys and values; decay and gate through a narrow projection each; a scalar a head; convolution; biases and
/// decays; norm; output.
fn kimi_delta(m: &ModelSpec, x: &KimiDeltaSpec) -> u64 {
    let (h, d, inner) = (m.hidden, x.head_size, x.heads * x.head_size);
    3 * h * inner
        + 2 * (h * d + d * inner)
        + h * x.heads
        + 3 * inner * x.convolution
        + inner
        + x.heads
        + d
        + inner * h
}

/// Queries, keys, values, gate and output, and a norm over all heads.
fn lightning(m: &ModelSpec, x: &LightningSpec) -> u64 {
    let inner = x.heads * x.head_size;
    5 * m.hidden * inner + inner
}

/// Patch embedding, positions, layers with biases and two layer norms, norms outside, projector.
fn vision(v: &VisionSpec) -> u64 {
    let (h, f) = (v.hidden, v.ffn);
    let tokens = v.tokens();
    let class = if v.class_token { h } else { 0 };
    let patches = 3 * v.patch * v.patch * h + if v.patch_bias { h } else { 0 };
    let layer = 4 * (h * h + h) + 2 * h * f + f + h + 4 * h;
    let projector: u64 = v.projector.iter().map(|[inputs, outputs]| inputs * outputs).sum();
    patches + class + tokens * h + v.layers * layer + v.outer_norms * 2 * h + projector + v.projector_norm
}
