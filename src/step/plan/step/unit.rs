//! Units: what a stage holds, layer by layer, with what each pass of a layer asks of the rank.

use std::sync::Arc;

use crate::step::model::{Item, LayerKind, LayerPlan, Shard};
use crate::step::schedule::Pass;
use crate::step::spec::model::ModelSpec;
use crate::step::spec::workload::{BytesPerParameter, Granularity, RecomputeSpec, WorkloadSpec};

/// A layer of a stage: the embedding, a transformer layer, or the head.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Number of the transformer layer in the model; `None` for embedding and head.
    pub layer: Option<u32>,
    /// Whether it is recomputed in full, and whether it keeps the input that recomputation starts from.
    pub recompute: FullRecompute,
    /// Kernels, communication and bytes.
    pub plan: Arc<LayerPlan>,
    /// Bytes of all that forward makes for backward, where nothing is recomputed.
    pub saved_bytes: u64,
    /// Bytes of it kept from forward to backward.
    pub kept_bytes: u64,
}

/// Full recomputation of one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FullRecompute {
    /// Its activations are kept (or recomputed in parts, as the policy says).
    No,
    /// It is recomputed from its own input, which is kept.
    FromItself,
    /// It is recomputed from the kept input of a unit before it.
    FromBefore,
}

impl Unit {
    fn new(layer: Option<u32>, recompute: FullRecompute, planned: &Planned) -> Unit {
        let Planned { plan, saved_bytes, unless_full } = planned.clone();
        let kept_bytes = match recompute {
            FullRecompute::No => unless_full,
            FullRecompute::FromItself => plan.boundary_bytes,
            FullRecompute::FromBefore => 0,
        };
        Unit { layer, recompute, plan, saved_bytes, kept_bytes }
    }
    /// Whether it is the same but for its number.
    pub fn equals(&self, other: &Unit) -> bool {
        Arc::ptr_eq(&self.plan, &other.plan) && self.recompute == other.recompute
    }
    /// Name for readers.
    pub fn name(&self) -> &'static str {
        match self.plan.kind {
            LayerKind::Embedding => "embedding",
            LayerKind::Prediction => "prediction",
            LayerKind::Head => "head",
            LayerKind::Dense | LayerKind::Moe => "layer",
        }
    }
    /// The items of a pass, without recomputation.
    pub fn items(&self, pass: Pass) -> &[Item] {
        match pass {
            Pass::Forward => &self.plan.forward,
            Pass::Backward => &self.plan.backward,
            Pass::InputGrad => &self.plan.input_grad,
            Pass::WeightGrad => &self.plan.weight_grad,
        }
    }
    /// What is computed again before the backward pass.
    pub fn repeated(&self, policy: &RecomputeSpec) -> Vec<Item> {
        match self.recompute {
            FullRecompute::No if policy.granularity == Granularity::Full => Vec::new(),
            FullRecompute::No => self.plan.recompute(policy),
            _ => self.plan.forward.clone(),
        }
    }
    /// Bytes of its weights at so many each: (dense, expert).
    pub fn weight_bytes(&self, bytes: f64) -> (u64, u64) {
        self.plan.parameters.bytes(bytes)
    }
    /// Bytes of those that are trained: what gradients, optimizer state and renewed weights go by.
    pub fn trained_bytes(&self, bytes: f64) -> (u64, u64) {
        self.plan.trained.bytes(bytes)
    }
}

/// The units of every stage.
///
/// `split[stage]` are the transformer layers of a stage; the first stage also holds the embedding, the last multi-token-prediction
/// modules and the head.
/// `loads` are the tokens of the fullest rank over the mean, for each layer (or for all).
pub fn units_of_stages(
    model: &ModelSpec,
    shard: &Shard,
    workload: &WorkloadSpec,
    split: &[std::ops::Range<u32>],
    loads: &[f64],
) -> Vec<Vec<Unit>> {
    Layers::new(model, shard, workload, loads, split.len() > 1).stages(workload, split)
}

/// A layer's plan, the bytes that it makes for backward, and those kept where it is not recomputed in full.
#[derive(Clone, Debug)]
struct Planned {
    plan: Arc<LayerPlan>,
    saved_bytes: u64,
    unless_full: u64,
}

/// All layers of a model as one rank has them, equal ones planned once.
#[derive(Debug)]
pub struct Layers {
    embedding: Planned,
    transformer: Vec<Planned>,
    prediction: Vec<Planned>,
    head: Planned,
}

/// What tells layers apart: kind, load on experts (as bits) where there are any, and whether it is frozen, or the lowest that is not.
type Different<'m> = (Option<&'m str>, Option<u64>, [bool; 2]);

impl Layers {
    /// The layers of `model`; `cut` tells whether its ends lie on different stages. Other arguments as of
    /// [`units_of_stages`].
    pub fn new(
        model: &ModelSpec,
        shard: &Shard,
        workload: &WorkloadSpec,
        loads: &[f64],
        cut: bool,
    ) -> Layers {
        let (policy, training) = (&workload.recompute, &workload.training);
        let planned = |plan: LayerPlan| {
            let saved_bytes = plan.all_saved_bytes();
            let full = policy.granularity == Granularity::Full;
            let unless_full = if full { saved_bytes } else { plan.saved_bytes(policy) };
            Planned { plan: Arc::new(plan), saved_bytes, unless_full }
        };
        let mut known: Vec<(Different<'_>, Planned)> = Vec::new();
        let transformer = (0..model.layers).map(|layer| {
            let load = loads.get(layer as usize).or(loads.first()).filter(|_| model.has_experts(layer));
            let (frozen, lowest) = (layer < training.frozen_layers, training.is_lowest(layer));
            let kind = (model.kind_of(layer), load.map(|l| l.to_bits()), [frozen, lowest]);
            if let Some((_, planned)) = known.iter().find(|(k, _)| *k == kind) {
                return planned.clone();
            }
            let (load, trained) = (load.copied().unwrap_or(1.0), training.of_layer(layer));
            let shard = Shard { expert_load: load, trained, lowest, ..shard.clone() };
            known.push((kind, planned(LayerPlan::transformer(&model.layer(layer), &shard))));
            known[known.len() - 1].1.clone()
        });
        let transformer = transformer.collect();
        let first = Shard { trained: training.of_embedding(), ..shard.clone() };
        let last = Shard { trained: training.of_head(model.tied_embeddings), ..shard.clone() };
        let load = loads.last().copied().unwrap_or(1.0);
        let prediction = (0..model.prediction_modules)
            .map(|_| planned(LayerPlan::prediction(model, &Shard { expert_load: load, ..last.clone() })));
        Layers {
            embedding: planned(LayerPlan::embedding(model, &first)),
            transformer,
            prediction: prediction.collect(),
            head: planned(LayerPlan::head(model, &last, !model.tied_embeddings || cut)),
        }
    }

    /// The units of every stage, as [`units_of_stages`] has them.
    pub fn stages(&self, workload: &WorkloadSpec, split: &[std::ops::Range<u32>]) -> Vec<Vec<Unit>> {
        let last = split.len() - 1;
        let stages = split.iter().enumerate().map(|(s, layers)| {
            let mut units = Vec::with_capacity(layers.len() + 2);
            if s == 0 {
                units.push(Unit::new(None, FullRecompute::No, &self.embedding));
            }
            // What runs forward alone keeps nothing, and is not counted.
            let frozen = workload.training.frozen_layers.saturating_sub(u64::from(layers.start));
            for (i, layer) in layers.clone().enumerate() {
                let trained = (i as u64).checked_sub(frozen);
                let recompute = trained.map_or(FullRecompute::No, |i| full_recompute(&workload.recompute, i));
                units.push(Unit::new(Some(layer), recompute, &self.transformer[layer as usize]));
            }
            if s == last {
                let ends = self.prediction.iter().chain([&self.head]);
                units.extend(ends.map(|planned| Unit::new(None, FullRecompute::No, planned)));
            }
            units
        });
        stages.collect()
    }
}

/// What happens to the `i`-th transformer layer of a stage under a policy.
fn full_recompute(policy: &RecomputeSpec, i: u64) -> FullRecompute {
    let covered = policy.layers.is_none_or(|n| i < n);
    if policy.granularity != Granularity::Full || !covered {
        return FullRecompute::No;
    }
    if i.is_multiple_of(policy.every_layers.unwrap_or(1).max(1)) {
        FullRecompute::FromItself
    } else {
        FullRecompute::FromBefore
    }
}

/// Bytes that the units of one rank have resident, by what the data-parallel ranks share among them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct State {
    /// Weights as forward reads them.
    pub weights: f64,
    /// Accumulated gradients.
    pub gradients: f64,
    /// Master weights and moments.
    pub optimizer: f64,
    /// Parameters whose update this rank computes.
    pub updated: f64,
}

impl State {
    /// The state of `units` where `dense` ranks hold the same dense weights and `expert` ranks the same experts;
    /// `cut` tells which classes (weights, gradients, optimizer) are cut among them.
    pub fn of<'a>(
        units: impl Iterator<Item = &'a Unit>,
        bytes: &BytesPerParameter,
        dense: f64,
        expert: f64,
        cut: [bool; 3],
    ) -> State {
        let mut state = State::default();
        for unit in units {
            let (all, trained) = (unit.plan.parameters, unit.plan.trained);
            for (held, trained, ranks) in
                [(all.dense, trained.dense, dense), (all.expert, trained.expert, expert)]
            {
                let share = |of: u64, cut: bool| of as f64 / if cut { ranks } else { 1.0 };
                state.weights += share(held, cut[0]) * bytes.weights;
                state.gradients += share(trained, cut[1]) * bytes.gradients;
                state.optimizer += share(trained, cut[2]) * bytes.optimizer();
                state.updated += share(trained, cut[2]);
            }
        }
        state
    }
}
