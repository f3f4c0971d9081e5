//! The knowledge that steps of a study share: each step's findings serve the next.
//!
//! It saves work and changes no result: programs and folds are taken from the step before where they must come to the
//! same ([`Templates`], [`Folds`]), and a step may be jumped from any number of micro-batches in which it comes to
//! rest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use stepsim_core::fold::{FoldedWorld, Folds, fold};
use stepsim_core::program::World;
use stepsim_plan::step::Templates;

/// The knowledge that steps share.
#[derive(Debug, Default)]
pub struct StepCache {
    folds: Folds,
    templates: Templates,
    lengths: Mutex<FxHashMap<PipelineSize, ShortLength>>,
    ops: AtomicU64,
}

/// Stages, and micro-batches of the shortest order that shows all turns of the schedule.
pub(super) type PipelineSize = [u32; 2];

/// How many micro-batches a short step needs.
#[derive(Clone, Copy, Debug, Default)]
struct ShortLength {
    /// The number of micro-batches that is hoped to be enough, and the number after which the state recurs.
    hoped: Option<(u32, u32)>,
    /// So many were too few.
    too_few: u32,
    /// Steps in a row without a short one that came to rest.
    in_vain: u32,
}

/// Behind this many steps in a row that were shortened in vain, one in `ONE_IN` is tried.
const IN_VAIN: u32 = 2;
const ONE_IN: u32 = 4;

/// A short step that came to rest.
#[derive(Clone, Copy, Debug)]
pub(super) struct SteadyStep {
    /// Its micro-batches.
    pub micro_batches: u32,
    /// It would have come to rest with this many less.
    pub spare: u32,
    /// Its state recurred after so many.
    pub recurs: u32,
}

impl StepCache {
    /// Ops that were played for all steps together: what they cost.
    pub fn ops(&self) -> u64 {
        self.ops.load(Ordering::Relaxed)
    }
    pub(super) fn counts(&self, ops: u64) {
        self.ops.fetch_add(ops, Ordering::Relaxed);
    }
    /// The memory of programs.
    pub(super) fn templates(&self) -> &Templates {
        &self.templates
    }

    /// [`fold`], by what is remembered where there is something.
    pub(super) fn fold(common: Option<&StepCache>, world: &World) -> FoldedWorld {
        common.map_or_else(|| fold(world), |common| common.folds.fold(world))
    }

    /// Micro-batches that are hoped to be enough for a short step, fewer than are enough for most, and after how many
    /// its state recurs.
    pub(super) fn hoped(&self, of: PipelineSize) -> Option<(u32, u32)> {
        self.length(of, |length| length.hoped)
    }

    /// A short step came to rest: the next one may be shorter, but not so short as has been too short.
    pub(super) fn came_to_rest(&self, of: PipelineSize, rest: SteadyStep) {
        let SteadyStep { micro_batches, spare, recurs } = rest;
        self.length(of, |length| {
            length.in_vain = 0;
            let halfway = if length.too_few == 0 { 0 } else { length.too_few.midpoint(micro_batches) };
            let least = (micro_batches - spare).max(halfway);
            if length.hoped.is_none_or(|hoped| least < hoped.0) && least < micro_batches {
                length.hoped = Some((least, recurs));
            }
        });
    }

    /// A short step of `micro_batches` was too short.
    pub(super) fn was_too_short(&self, of: PipelineSize, micro_batches: u32) {
        self.length(of, |length| {
            length.too_few = length.too_few.max(micro_batches);
            length.hoped = length.hoped.filter(|hoped| hoped.0 > micro_batches);
        });
    }

    /// True if a step is worth being shortened: others of its pipeline were not in vain.
    pub(super) fn is_worth_shortening(&self, of: PipelineSize) -> bool {
        self.length(of, |length| {
            let worth = length.in_vain < IN_VAIN || length.in_vain.is_multiple_of(ONE_IN);
            length.in_vain += u32::from(!worth);
            worth
        })
    }

    /// No short step came to rest.
    pub(super) fn was_in_vain(&self, of: PipelineSize) {
        self.length(of, |length| length.in_vain += 1);
    }

    fn length<T>(&self, of: PipelineSize, with: impl FnOnce(&mut ShortLength) -> T) -> T {
        let mut lengths = self.lengths.lock().unwrap_or_else(PoisonError::into_inner);
        with(lengths.entry(of).or_default())
    }
}
