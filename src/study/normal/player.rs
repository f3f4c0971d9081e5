//! Plays a step with causes.

use super::cause::CausePlay;
use stepsim_core::units::Time;
use stepsim_simulate::jump::figures_edited_among;
use stepsim_simulate::whatif::{StageLevels, apply};
use stepsim_simulate::{Inputs, Options, StepCache};

/// A step that is played again and again.
pub(super) struct StepPlayer<'a> {
    pub(super) inputs: &'a Inputs,
    options: Options,
    common: StepCache,
}

impl<'a> StepPlayer<'a> {
    pub(super) fn of(inputs: &'a Inputs) -> StepPlayer<'a> {
        StepPlayer { inputs, options: Options::default(), common: StepCache::default() }
    }

    /// Seconds of the step with what a cause comes to; `None` where it cannot be so.
    pub(super) fn seconds(&self, played: &CausePlay, more: &[String]) -> Option<f64> {
        let sets = [more, played.sets.as_slice()].concat();
        let inputs = if sets.is_empty() { self.inputs.clone() } else { self.inputs.again(&sets).ok()? };
        let changes: Vec<_> = played.change.iter().cloned().collect();
        let (inputs, edits) = apply(&inputs, &StageLevels::default(), &changes).ok()?;
        let figures = figures_edited_among(&self.common, &inputs, &self.options, &edits, Time::ZERO).ok()?;
        Some(figures.step_end.s() + played.idle_s)
    }
}
