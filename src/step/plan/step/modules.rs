//! Units of the modules in front of the language model: input, layers and projector of each, on the first stage before the
//! embedding.

use std::sync::Arc;

use super::unit::{FullRecompute, Planned, Unit, full_recompute};
use crate::step::model::{LayerPlan, ModuleShard};
use crate::step::spec::model::ModelSpec;
use crate::step::spec::workload::{RecomputeSpec, UsedModule, WorkloadSpec};

/// The units of one module.
#[derive(Debug)]
pub(super) struct ModuleLayers {
    name: Arc<str>,
    policy: Arc<RecomputeSpec>,
    input: Planned,
    layers: Vec<Planned>,
    projector: Planned,
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
        let planned = |plan: LayerPlan| Planned::new(plan, &policy);
        let mut known: Vec<(Option<&str>, Planned)> = Vec::new();
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
            policy,
        }
    }

    /// Its units in order.
    pub fn units(&self) -> impl Iterator<Item = Unit> {
        let unit = |recompute, planned: &Planned| Unit {
            module: Some(self.name.clone()),
            ..Unit::new(None, recompute, planned, &self.policy)
        };
        let layers = self.layers.iter().enumerate().map(move |(i, planned)| {
            let recompute = match planned.plan.has_backward() {
                true => full_recompute(&self.policy, i as u64),
                false => FullRecompute::No,
            };
            unit(recompute, planned)
        });
        let [input, projector] = [&self.input, &self.projector].map(|end| unit(FullRecompute::No, end));
        std::iter::once(input).chain(layers).chain([projector])
    }
}
