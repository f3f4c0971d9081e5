//! The modules of a step: how large they are, what is trained, how many images each sequence has.

use std::fmt::Write;

use serde::Serialize;

use crate::read::analysis::table::grouped;
use crate::step::spec::workload::{ModuleParallelism, TrainedPart, UsedModule};

/// A module of a step.
#[derive(Debug, Serialize)]
pub(super) struct ModuleView {
    name: String,
    parameters: u64,
    trained_parameters: u64,
    trained: TrainedPart,
    parallelism: ModuleParallelism,
    /// Images or clips in each sequence, patches or frames of one, and tokens that it becomes.
    items: u64,
    patches: u64,
    tokens: u64,
}

impl ModuleView {
    pub(super) fn of(module: &UsedModule<'_>) -> ModuleView {
        ModuleView {
            name: module.spec.name.clone(),
            parameters: module.spec.parameters(),
            trained_parameters: module.trained_parameters(),
            trained: module.usage.trained,
            parallelism: module.usage.parallelism,
            items: module.usage.items,
            patches: module.patches(),
            tokens: module.tokens(),
        }
    }
    pub(super) fn parameters(&self) -> u64 {
        self.parameters
    }
    pub(super) fn text(&self, out: &mut String) {
        let trained = match self.trained {
            TrainedPart::All => "all trained",
            TrainedPart::Projector => "the projector trained",
            TrainedPart::Nothing => "frozen",
        };
        let shared = match self.parallelism {
            ModuleParallelism::Tensor => "layers",
            ModuleParallelism::Data => "images",
        };
        let _ = writeln!(
            out,
            "  module {}: {} parameters, {trained}; {} of {} patches in each sequence, {} of its tokens; tensor-parallel ranks \
             share {shared}",
            self.name,
            grouped(self.parameters),
            grouped(self.items),
            grouped(self.patches),
            grouped(self.items * self.tokens),
        );
    }
}
