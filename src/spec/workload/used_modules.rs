//! The modules that a step runs, each with its shape and its use.

use std::ops::Range;

use super::modules::{ModuleDevices, ModuleParallelism, ModuleUseSpec, TrainedPart};
use super::{RecomputeSpec, WorkloadSpec};
use crate::model::{ModelSpec, ModuleSpec};
use stepsim_schedule::{LayerSplit, split_layers};

/// A module as a step uses it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UsedModule<'a> {
    /// Its shape.
    pub spec: &'a ModuleSpec,
    /// Its use.
    pub usage: &'a ModuleUseSpec,
}

impl UsedModule<'_> {
    /// Patches or frames of one image or clip.
    pub fn patches(&self) -> u64 {
        self.usage.sequence.unwrap_or(self.spec.sequence)
    }
    /// Positions of one in the layers: patches, learned vectors beside them, and what pads tiles.
    pub fn positions(&self) -> u64 {
        self.spec.input.positions(self.patches())
    }
    /// Positions of one without what pads tiles.
    pub fn unpadded(&self) -> u64 {
        let input = &self.spec.input;
        self.patches() + input.tiles(self.patches()) * input.extra_tokens
    }
    /// Tokens that one becomes.
    pub fn tokens(&self) -> u64 {
        self.spec.input.used_positions(self.patches()) / self.spec.merge.max(1)
    }
    /// The layers on images or clips of that size.
    pub fn stack(&self) -> ModelSpec {
        ModelSpec { sequence: self.positions(), ..self.spec.stack() }
    }
    /// True if sequences have unequal numbers of images.
    pub fn is_uneven(&self) -> bool {
        self.usage.items.is_none()
    }
    /// True if data-parallel ranks take equal shares of the images of a micro-batch.
    pub fn is_exchanged(&self) -> bool {
        self.usage.is_exchanged()
    }
    /// The most images that a sequence may have.
    pub fn most_items(&self) -> u64 {
        let listed = self.usage.counts.iter().flatten().copied().max();
        self.usage.items.or(listed).or(self.usage.drawn.map(|drawn| drawn.most)).unwrap_or(0)
    }
    /// True if its tokens are made on other ranks than the first language stage's, or in other passes.
    pub fn is_elsewhere(&self) -> bool {
        self.usage.bubbles || self.usage.own_stages().is_some()
    }
    /// The layers of each of its own stages, or of a rank that holds it beside its own; none where it shares a stage
    /// with the language model.
    pub fn split(&self) -> Vec<Range<u32>> {
        let alone = u64::from(self.usage.bubbles);
        let stages = self.usage.own_stages().unwrap_or(alone) as u32;
        split_layers(self.spec.layers as u32, stages, &LayerSplit::RemainderMiddle).unwrap_or_default()
    }
    /// How many of its stages' layers from the first to layer `end` are put beside the output of the last.
    pub fn beside(&self, end: u64) -> u64 {
        self.spec.projector.beside_layers.iter().filter(|layer| **layer < end).count() as u64
    }
    /// True if any part of it is trained.
    pub fn is_trained(&self) -> bool {
        self.usage.trained != TrainedPart::Nothing
    }
}

impl ModuleUseSpec {
    /// Pipeline stages that hold the module alone; `None` where it stands on the first of the language model.
    pub fn own_stages(&self) -> Option<u64> {
        self.stages.or(self.devices.map(|_| 1))
    }
    fn is_exchanged(&self) -> bool {
        self.exchange && self.items.is_none()
    }
}

impl WorkloadSpec {
    /// The modules that the step runs, in the order of the model.
    pub fn used_modules<'a>(&'a self, model: &'a ModelSpec) -> Vec<UsedModule<'a>> {
        let used = |spec: &'a ModuleSpec| Some(UsedModule { spec, usage: self.modules.get(&spec.name)? });
        model.modules.iter().filter_map(used).collect()
    }
    /// Image tokens of a sequence, all modules together; the most, where numbers of images are unequal.
    pub fn image_tokens(&self, model: &ModelSpec) -> u64 {
        let of = |module: &UsedModule<'_>| module.most_items().saturating_mul(module.tokens());
        self.used_modules(model).iter().map(of).fold(0, u64::saturating_add)
    }
    /// The model as this step's layers of cross-attention see it.
    pub fn seen_by(&self, model: &ModelSpec) -> ModelSpec {
        if model.has_cross() { model.with_images(self.image_tokens(model)) } else { model.clone() }
    }
    /// Pipeline stages at the front that hold a module alone; the embedding stands on the one behind them.
    pub fn module_stages(&self) -> u64 {
        self.modules.values().filter_map(ModuleUseSpec::own_stages).max().unwrap_or(0)
    }
    /// The module that every pipeline rank holds and encodes in its bubbles, where there is one.
    pub fn module_in_bubbles<'a>(&'a self, model: &'a ModelSpec) -> Option<UsedModule<'a>> {
        self.used_modules(model).into_iter().find(|module| module.usage.bubbles)
    }
    /// Pipeline ranks that hold a module beside their stages.
    pub fn side_ranks(&self) -> usize {
        let beside = self.modules.values().any(|usage| usage.bubbles);
        if beside { self.parallelism.pipeline.size as usize } else { 0 }
    }
    /// The degrees of the module on devices of its own, where there is one.
    pub fn module_devices(&self) -> Option<ModuleDevices> {
        self.modules.values().find_map(|usage| usage.devices)
    }
    /// Pipeline ranks with the degrees of the language model.
    pub fn grid_stages(&self) -> u64 {
        self.parallelism.pipeline.size.saturating_sub(u64::from(self.module_devices().is_some()))
    }
    /// True if tensor-parallel ranks hold the same copies of the messages of a module's stages.
    pub fn cuts_encoder_borders(&self) -> bool {
        let cut = |usage: &ModuleUseSpec| {
            usage.stages.is_some()
                && usage.devices.is_none()
                && usage.parallelism == ModuleParallelism::Tensor
        };
        self.modules.values().any(cut)
    }
    /// True if something in front of the language model is trained: gradients then pass through all of it.
    pub fn trains_modules(&self) -> bool {
        self.modules.values().any(|usage| usage.trained != TrainedPart::Nothing)
    }
    /// True if sequences have unequal numbers of images.
    pub fn has_uneven_images(&self) -> bool {
        self.modules.values().any(|usage| usage.items.is_none())
    }
    /// True if data-parallel ranks exchange images.
    pub fn exchanges_images(&self) -> bool {
        self.modules.values().any(ModuleUseSpec::is_exchanged)
    }
    /// The part of a module that is computed again.
    pub fn recompute_of<'a>(&'a self, usage: &'a ModuleUseSpec) -> &'a RecomputeSpec {
        usage.recompute.as_ref().unwrap_or(&self.recompute)
    }
}
