//! How long a step is likely to be, from the measured steps that are like it.
//!
//! 1. [`StepTraits`]: the classes of a step (device and its generation, software and its release, sort of model,
//!    family of layouts, format) and its size.
//! 2. [`MeasuredSteps`]: measured steps with their traits and measured over simulated seconds: the shipped file, which
//!    `stepsim score --measured-steps` writes.
//! 3. Each measured step weighs as much as it is like the step asked about; a source counts by the root of what its
//!    steps weigh.
//!    The weighted median of their ratios, drawn towards 1 where little weighs, is the estimate; their deciles are the
//!    range.
//! 4. [`Widths`]: in every class of enough steps the range is widened or narrowed until four in five steps lie in that
//!    range which all sources but their own give them.
//! 5. [`Accuracy`]: the range of a step in words, or that nothing like it was measured.

pub mod accuracy;
mod class_coverage;
mod coverage;
mod hidden;
mod likeness;
mod measured_step;
pub mod measured_steps;
mod of_outcomes;
pub mod open_facts;
pub mod spread;
pub mod traits;
mod unlike;
pub mod widths;

pub use accuracy::{Accuracy, Circumstances, StepRange, told};
pub use class_coverage::{ClassCoverage, Coverage};
pub use coverage::RangedStep;
pub use hidden::most_hidden;
pub use measured_step::MeasuredStep;
pub use measured_steps::MeasuredSteps;
pub use open_facts::OpenFact;
pub use spread::DeviationSpread;
pub use traits::{LayoutFamily, ModelSort, StepTraits};
pub use unlike::{FULL, LayoutKind, cost_of, three_unlike};
pub use widths::{ClassWidth, Widths};
