//! Units of the modules in front of the language model: input, layers and projector of each, on the first stage
//! before the embedding, or on stages of their own.

use std::ops::Range;
use std::sync::Arc;

use super::unit::{FullRecompute, SizedPlan, Unit, full_recompute};
use stepsim_price::model::{LayerPlan, ModuleShard};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{RecomputeSpec, UsedModule, WorkloadSpec};

/// The units of one module.
#[derive(Debug)]
pub(super) struct ModuleLayers {
    name: Arc<str>,
    policy: Arc<RecomputeSpec>,
    input: SizedPlan,
    layers: Vec<SizedPlan>,
    projector: SizedPlan,
    /// The projector behind some layers, and the numbers of these.
    deep: Option<SizedPlan>,
    deep_layers: Vec<u64>,
    /// The layers of each of its own stages; none where it shares a stage with the language model.
    split: Vec<Range<u32>>,
    /// The arrival of its tokens from its own stages.
    arrival: Option<SizedPlan>,
    /// True if every pipeline rank holds it beside its stages.
    is_beside: bool,
}

impl ModuleLayers {
    /// A module as one rank has it, equal layers planned once; `images` of a micro-batch where those differ.
    pub fn new(
        workload: &WorkloadSpec,
        model: &ModelSpec,
        module: UsedModule<'_>,
        images: Option<u64>,
    ) -> ModuleLayers {
        let policy = Arc::new(workload.recompute_of(module.usage).clone());
        let shard = ModuleShard::new(workload, model, module, images);
        let planned = |plan: LayerPlan| SizedPlan::new(plan, &policy);
        let mut known: Vec<(Option<&str>, SizedPlan)> = Vec::new();
        let layers = (0..shard.stack().layers).map(|number| {
            let kind = shard.stack().kind_of(number);
            if let Some((_, planned)) = known.iter().find(|(k, _)| *k == kind) {
                return planned.clone();
            }
            known.push((kind, planned(shard.layer(number))));
            known[known.len() - 1].1.clone()
        });
        ModuleLayers {
            name: module.spec.name.as_str().into(),
            layers: layers.collect(),
            input: planned(shard.input()),
            projector: planned(shard.projector()),
            deep: shard.deep_projector().map(planned),
            deep_layers: module.spec.deep_layers().to_vec(),
            split: module.split(),
            arrival: module.is_elsewhere().then(|| shard.arrival()).flatten().map(planned),
            is_beside: module.usage.bubbles,
            policy,
        }
    }

    /// Its units on every pipeline rank; none where it stands on stages.
    pub fn beside(&self) -> Vec<Unit> {
        if self.is_beside { self.units(0..self.layers.len() as u32, [true; 2]) } else { Vec::new() }
    }
    /// Its units on stage `stage` of its own; none where it has no such stage.
    pub fn on_own_stage(&self, stage: usize) -> Vec<Unit> {
        let ends = [stage == 0, stage + 1 == self.split.len()];
        self.split.get(stage).map_or_else(Vec::new, |layers| self.units(layers.clone(), ends))
    }
    /// Its units on the first stage of the language model: all, or the arrival of its tokens.
    pub fn before_embedding(&self) -> Vec<Unit> {
        if self.split.is_empty() {
            return self.units(0..self.layers.len() as u32, [true; 2]);
        }
        self.arrival.iter().map(|planned| self.unit(FullRecompute::No, planned)).collect()
    }

    /// Some layers in order, with the input before and the projector behind them or not.
    fn units(&self, layers: Range<u32>, [input, projector]: [bool; 2]) -> Vec<Unit> {
        let end = |there: bool, planned| there.then(|| self.unit(FullRecompute::No, planned));
        let here = self.deep_layers.iter().filter(|layer| layers.contains(&(**layer as u32)));
        let deep = here.filter_map(|_| self.deep.as_ref()).map(|deep| self.unit(FullRecompute::No, deep));
        let layers = self.layers[layers.start as usize..layers.end as usize].iter().enumerate();
        let layers = layers.map(|(i, planned)| {
            let recompute = match planned.plan.has_backward() {
                true => full_recompute(&self.policy, i as u64),
                false => FullRecompute::No,
            };
            self.unit(recompute, planned)
        });
        end(input, &self.input)
            .into_iter()
            .chain(layers)
            .chain(deep)
            .chain(end(projector, &self.projector))
            .collect()
    }
    fn unit(&self, recompute: FullRecompute, planned: &SizedPlan) -> Unit {
        Unit { module: Some(self.name.clone()), ..Unit::new(None, recompute, planned, &self.policy) }
    }
}
