//! A step whose candidates are looked for, and how far.

use std::sync::OnceLock;

use stepsim_form::compare::Estimators;
use stepsim_read::analysis::report::Report;
use stepsim_simulate::whatif::StageLevels;
use stepsim_simulate::{Inputs, Options, StepCache};

/// Limits and choices of a table.
pub(super) const TABLE: usize = 6;

/// A step whose candidates are looked for.
pub(super) struct BaseStep<'a> {
    pub(super) inputs: &'a Inputs,
    pub(super) options: &'a Options,
    pub(super) report: &'a Report,
    pub(super) depth: Depth,
    pub(super) levels: OnceLock<StageLevels>,
    pub(super) common: StepCache,
    pub(super) forms: Estimators,
}

/// How many limits and choices are played.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Depth {
    /// For the answer: until nothing that is left can be dearer.
    Answer,
    /// For tables and pages: those, and the next by their promise up to six limits and choices.
    Tables,
    /// All.
    All,
    /// All choices, the best of them together too, and nothing else.
    Choices,
}
