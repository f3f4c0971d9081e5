//! The layers of a model as one rank has them, and the units of every stage.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::modules::ModuleLayers;
use super::unit::{FullRecompute, SizedPlan, Unit, full_recompute};
use stepsim_price::model::{LayerPlan, Shard};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{RecomputeSpec, TrainedWeights, WorkloadSpec};

/// The units of every stage, and behind them the units of a module that each pipeline rank holds beside its own.
///
/// `split[stage]` are the transformer layers of a stage, and whether the ends of the model lie apart, so that each has
/// a table of its own; the first stage also holds modules and the embedding, unless a
/// module has stages of its own before it, and the last multi-token-prediction modules and the head. `loads` are the
/// tokens of the fullest rank over the mean, for each layer (or for all).
pub fn units_of_stages(
    model: &ModelSpec,
    shard: &Shard,
    workload: &WorkloadSpec,
    (split, apart): (&[std::ops::Range<u32>], bool),
    loads: &[f64],
) -> Vec<Vec<Unit>> {
    Layers::new(model, shard, workload, loads, apart).stages(workload, split)
}

/// All layers of a model as one rank has them, equal ones planned once.
#[derive(Debug)]
pub struct Layers {
    /// The modules in front of the embedding.
    modules: Vec<ModuleLayers>,
    /// The recomputation of the language model.
    policy: Arc<RecomputeSpec>,
    embedding: SizedPlan,
    transformer: Vec<SizedPlan>,
    /// Layers that read image tokens, as the first of a stage, which keeps these.
    keeping: BTreeMap<u32, SizedPlan>,
    /// The number of first layers that run forward alone.
    alone: u64,
    prediction: Vec<SizedPlan>,
    head: SizedPlan,
    /// The layers and the ends of the frozen model that each micro-batch passes forward through before it comes to the
    /// trained one.
    reference: Option<(Vec<SizedPlan>, [SizedPlan; 2])>,
}

/// The traits that tell layers apart: kind, load on experts (as bits) where there are any, the trained part, and three
/// flags: it is the lowest trained layer, it keeps image tokens, it is one of the reference model.
type Different<'m> = (Option<&'m str>, Option<u64>, TrainedWeights, [bool; 3]);

impl Layers {
    /// The layers of `model`; `apart` tells whether its ends lie on different ranks. Other arguments as of
    /// [`units_of_stages`].
    pub fn new(
        model: &ModelSpec,
        shard: &Shard,
        workload: &WorkloadSpec,
        loads: &[f64],
        apart: bool,
    ) -> Layers {
        let (policy, training) = (Arc::new(workload.recompute.clone()), &workload.training);
        let below = workload.trains_modules();
        let holds_table = !model.tied_embeddings || apart;
        let planned = |plan: LayerPlan| SizedPlan::new(plan, &policy);
        let mut known: Vec<(Different<'_>, SizedPlan)> = Vec::new();
        let of_reference = |mut plan: LayerPlan| {
            plan.held_elsewhere = training.adapters.is_some();
            planned(plan)
        };
        let mut layer_of = |layer: u64, [keeps_images, reference]: [bool; 2]| {
            let of_layer = || loads.get(layer as usize).or(loads.first()).copied().unwrap_or(1.0);
            let load = model.has_experts(layer).then(of_layer);
            let (trained, lowest) = match reference {
                true => (TrainedWeights::Nothing, false),
                false => (training.of_layer(model, layer, below), training.is_lowest(model, layer, below)),
            };
            let bits = load.map(|l| l.to_bits());
            let kind = (model.kind_of(layer), bits, trained.clone(), [lowest, keeps_images, reference]);
            if let Some((_, planned)) = known.iter().find(|(k, _)| *k == kind) {
                return planned.clone();
            }
            let load = load.unwrap_or(1.0);
            let shard = Shard { expert_load: load, trained, lowest, keeps_images, ..shard.clone() };
            let plan = LayerPlan::transformer(&model.layer(layer), &shard);
            known.push((kind, if reference { of_reference(plan) } else { planned(plan) }));
            known[known.len() - 1].1.clone()
        };
        let mut all_of = |reference: bool| -> Vec<SizedPlan> {
            (0..model.layers).map(|layer| layer_of(layer, [false, reference])).collect()
        };
        let transformer = all_of(false);
        let reference = training.reference.then(|| {
            let frozen = Shard { trained: TrainedWeights::Nothing, ..shard.clone() };
            let ends = [LayerPlan::embedding(model, &frozen), LayerPlan::head(model, &frozen, holds_table)];
            (all_of(true), ends.map(of_reference))
        });
        let reads = |layer: &u32| transformer[*layer as usize].plan.image_bytes > 0;
        let keeping =
            (0..model.layers as u32).filter(reads).map(|l| (l, layer_of(l.into(), [true, false]))).collect();
        let alone = if training.reaches_embedding(below) { 0 } else { training.lowest(model) };
        let first = Shard { trained: training.of_embedding(), ..shard.clone() };
        let last = Shard { trained: training.of_head(model), ..shard.clone() };
        let load = loads.last().copied().unwrap_or(1.0);
        let of_prediction = Shard { expert_load: load, ..last.clone() };
        let prediction = (0..model.prediction_modules).map(|module| {
            let holds_table = apart && !model.tied_embeddings && module == 0;
            planned(LayerPlan::prediction(model, &of_prediction, holds_table))
        });
        let images = |module: usize| shard.images.as_ref().and_then(|all| all.get(module).copied());
        let modules = workload.used_modules(model).into_iter().enumerate();
        Layers {
            modules: modules
                .map(|(i, module)| ModuleLayers::new(workload, model, module, images(i)))
                .collect(),
            embedding: planned(LayerPlan::embedding(model, &first)),
            transformer,
            keeping,
            alone,
            prediction: prediction.collect(),
            head: planned(LayerPlan::head(model, &last, holds_table)),
            reference,
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
            units.extend(self.reference_units(layers, [s == first, s == last]));
            if s == first {
                units.extend(self.modules.iter().flat_map(ModuleLayers::before_embedding));
                units.push(Unit::new(None, FullRecompute::No, &self.embedding, &self.policy));
            }
            // A layer that runs forward alone keeps nothing, and is not counted.
            let frozen = self.alone.saturating_sub(u64::from(layers.start));
            let keeps = layers.clone().find(|layer| self.keeping.contains_key(layer));
            for (i, layer) in layers.clone().enumerate() {
                let trained = (i as u64).checked_sub(frozen);
                let recompute = trained.map_or(FullRecompute::No, |i| full_recompute(&self.policy, i));
                let kept = self.keeping.get(&layer).filter(|_| keeps == Some(layer));
                let planned = kept.unwrap_or(&self.transformer[layer as usize]);
                units.push(Unit::new(Some(layer), recompute, planned, &self.policy));
            }
            if s == last {
                let ends = self.prediction.iter().chain([&self.head]);
                units.extend(ends.map(|planned| Unit::new(None, FullRecompute::No, planned, &self.policy)));
            }
            units
        });
        let beside = (0..workload.side_ranks())
            .map(|_| self.modules.iter().flat_map(ModuleLayers::beside).collect::<Vec<Unit>>());
        stages.chain(beside).collect()
    }

    /// The units of the reference model on a stage that holds `layers`, and the first or last end of the model.
    fn reference_units(&self, layers: &std::ops::Range<u32>, [first, last]: [bool; 2]) -> Vec<Unit> {
        let Some((transformer, [embedding, head])) = &self.reference else { return Vec::new() };
        let inside = layers.clone().map(|layer| (Some(layer), &transformer[layer as usize]));
        let ends = [first.then_some((None, embedding)), last.then_some((None, head))];
        let all = ends[0].into_iter().chain(inside).chain(ends[1]);
        let unit = |(layer, planned)| Unit {
            module: Some("reference".into()),
            ..Unit::new(layer, FullRecompute::No, planned, &self.policy)
        };
        all.map(unit).collect()
    }
}
