//! How many parameters the parts of a layer have.

use stepsim_spec::model::{Mixer, MlpKind, ModelSpec, MoeSpec};
use stepsim_spec::workload::{AdaptedMatrix, TrainedWeights};

/// Parameters of one multi-token-prediction module: norms of the stream, of the embedding and before the head, the
/// projection of both to one width, and a layer like the last.
pub(super) fn prediction_module(m: &ModelSpec) -> u64 {
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

pub(super) fn mlp(model: &ModelSpec, ffn: u64) -> u64 {
    let (inputs, biases) = (if model.gated_mlp { 2 } else { 1 }, model.mlp_biases());
    linear(biases, model.hidden, inputs * ffn) + linear(biases, ffn, model.hidden)
}

/// One routed expert.
pub(super) fn expert(model: &ModelSpec, moe: &MoeSpec) -> u64 {
    let (ffn, width) = (moe.ffn.unwrap_or(model.ffn), moe.width(model));
    let inputs = if model.gated_mlp { 2 } else { 1 };
    linear(moe.expert_biases, width, inputs * ffn) + linear(moe.expert_biases, ffn, width)
}

/// Router, shared expert with its gate, and the projections to and from a latent width.
pub(super) fn router_and_shared(model: &ModelSpec, moe: &MoeSpec) -> u64 {
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
pub(super) fn outside(layer: &ModelSpec) -> u64 {
    let parts = u64::from(layer.mixer != Mixer::None) + u64::from(layer.mlp != MlpKind::None);
    layer.norms() * layer.norm_parameters(layer.hidden) + if layer.gates { parts } else { 0 }
}

/// Parameters of the mixer of one layer, without its norm.
pub(super) fn mixer(m: &ModelSpec) -> u64 {
    Mixer::of(m).map_or(0, |mixer| mixer.parameters(m.hidden))
}

/// Weights of the adapters of a layer that a token meets on the mean, of the model as that layer sees it.
pub(super) fn adapter_weights(layer: &ModelSpec, trained: &TrainedWeights) -> f64 {
    let TrainedWeights::Adapters(adapters) = trained else { return 0.0 };
    let h = layer.hidden;
    let mlps = match &layer.moe {
        Some(moe) => {
            let shared =
                Some(moe.shared_width(layer)).filter(|shared| *shared > 0).map_or(0, |shared| h + shared);
            moe.visited() * (h + moe.ffn.unwrap_or(layer.ffn)) as f64 + shared as f64
        }
        None if layer.mlp == MlpKind::None => 0.0,
        None => (h + layer.ffn) as f64,
    };
    let sides = |matrix: AdaptedMatrix| match matrix {
        AdaptedMatrix::Query => (h + layer.query_width()) as f64,
        AdaptedMatrix::Key | AdaptedMatrix::Value => (h + layer.kv_heads() * layer.head_size()) as f64,
        AdaptedMatrix::Projection => (layer.heads * layer.v_head_size() + h) as f64,
        AdaptedMatrix::Gate if !layer.gated_mlp => 0.0,
        AdaptedMatrix::Gate | AdaptedMatrix::Up | AdaptedMatrix::Down => mlps,
    };
    let has = |m: &AdaptedMatrix| adapters.adapts(*m);
    AdaptedMatrix::ALL.into_iter().filter(has).map(|m| adapters.rank as f64 * sides(m)).sum()
}
