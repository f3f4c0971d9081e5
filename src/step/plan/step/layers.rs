//! The layers of a model as one rank has them, and the units of every stage.

use std::sync::Arc;

use super::modules::ModuleLayers;
use super::unit::{FullRecompute, Planned, Unit, full_recompute};
use crate::step::model::{LayerPlan, Shard};
use crate::step::spec::model::ModelSpec;
use crate::step::spec::workload::{RecomputeSpec, WorkloadSpec};

/// The units of every stage.
///
/// `split[stage]` are the transformer layers of a stage; the first stage also holds modules and the embedding, unless a
/// module has stages of its own before it, and the last multi-token-prediction modules and the head. `loads` are the
/// tokens of the fullest rank over the mean, for each layer (or for all).
pub fn units_of_stages(
    model: &ModelSpec,
    shard: &Shard,
    workload: &WorkloadSpec,
    split: &[std::ops::Range<u32>],
    loads: &[f64],
) -> Vec<Vec<Unit>> {
    Layers::new(model, shard, workload, loads, cuts_model(workload, split)).stages(workload, split)
}

/// Whether the ends of the language model lie on different stages.
pub fn cuts_model(workload: &WorkloadSpec, split: &[std::ops::Range<u32>]) -> bool {
    split.len() as u64 > workload.module_stages() + 1
}

/// All layers of a model as one rank has them, equal ones planned once.
#[derive(Debug)]
pub struct Layers {
    /// What stands in front of the embedding.
    modules: Vec<ModuleLayers>,
    /// What of the language model is computed again.
    policy: Arc<RecomputeSpec>,
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
        let (policy, training) = (Arc::new(workload.recompute.clone()), &workload.training);
        let below = workload.trains_modules();
        let planned = |plan: LayerPlan| Planned::new(plan, &policy);
        let mut known: Vec<(Different<'_>, Planned)> = Vec::new();
        let transformer = (0..model.layers).map(|layer| {
            let load = loads.get(layer as usize).or(loads.first()).filter(|_| model.has_experts(layer));
            let (frozen, lowest) = (layer < training.frozen_layers, training.is_lowest(layer, below));
            let kind = (model.kind_of(layer), load.map(|l| l.to_bits()), [frozen, lowest]);
            if let Some((_, planned)) = known.iter().find(|(k, _)| *k == kind) {
                return planned.clone();
            }
            let (load, trained) = (load.copied().unwrap_or(1.0), training.of_layer(layer, below));
            let shard = Shard { expert_load: load, trained, lowest, ..shard.clone() };
            known.push((kind, planned(LayerPlan::transformer(&model.layer(layer), &shard))));
            known[known.len() - 1].1.clone()
        });
        let transformer = transformer.collect();
        let first = Shard { trained: training.of_embedding(), ..shard.clone() };
        let last = Shard { trained: training.of_head(model), ..shard.clone() };
        let load = loads.last().copied().unwrap_or(1.0);
        let prediction = (0..model.prediction_modules)
            .map(|_| planned(LayerPlan::prediction(model, &Shard { expert_load: load, ..last.clone() })));
        let images = |module: usize| shard.images.as_ref().and_then(|all| all.get(module).copied());
        let modules = workload.used_modules(model).into_iter().enumerate();
        Layers {
            modules: modules
                .map(|(i, module)| ModuleLayers::new(workload, model, module, images(i)))
                .collect(),
            embedding: planned(LayerPlan::embedding(model, &first)),
            transformer,
            prediction: prediction.collect(),
            head: planned(LayerPlan::head(model, &last, !model.tied_embeddings || cut)),
            policy,
        }
    }

    /// The units of every stage, as [`units_of_stages`] has them.
    pub fn stages(&self, workload: &WorkloadSpec, split: &[std::ops::Range<u32>]) -> Vec<Vec<Unit>> {
        let last = split.len() - 1;
        let first = workload.module_stages() as usize;
        let stages = split.iter().enumerate().map(|(s, layers)| {
            let mut units = Vec::with_capacity(layers.len() + 2);
            if s < first {
                units.extend(self.modules.iter().flat_map(|module| module.on_own_stage(s)));
            }
            if s == first {
                units.extend(self.modules.iter().flat_map(ModuleLayers::before_embedding));
                units.push(Unit::new(None, FullRecompute::No, &self.embedding, &self.policy));
            }
            // What runs forward alone keeps nothing, and is not counted.
            let alone = if workload.trains_modules() { 0 } else { workload.training.frozen_layers };
            let frozen = alone.saturating_sub(u64::from(layers.start));
            for (i, layer) in layers.clone().enumerate() {
                let trained = (i as u64).checked_sub(frozen);
                let recompute = trained.map_or(FullRecompute::No, |i| full_recompute(&self.policy, i));
                units.push(Unit::new(
                    Some(layer),
                    recompute,
                    &self.transformer[layer as usize],
                    &self.policy,
                ));
            }
            if s == last {
                let ends = self.prediction.iter().chain([&self.head]);
                units.extend(ends.map(|planned| Unit::new(None, FullRecompute::No, planned, &self.policy)));
            }
            units
        });
        stages.collect()
    }
}
