//! How long a step is likely to be, from the measured steps that are like it.
//!
//! 1. [`StepTraits`]: the classes of a step (device and its generation, software and its release, sort of model,
//!    family of layouts, format, weights trained), its size, the rates that it is priced with, and what it hangs on.
//! 2. [`MeasuredSteps`]: measured steps with their traits and measured over simulated seconds: the shipped file, which
//!    `stepsim score --measured-steps` writes.
//! 3. [`NoEvidence`]: a step on a device, at rates or of kinds that were never measured has no range.
//! 4. Each measured step weighs as much as it is like the step asked about; a source counts by the root of what its
//!    steps weigh. The weighted median of their ratios, drawn towards 1 where little weighs, is the estimate; their
//!    deciles are the range.
//! 5. [`Widths`]: the farther from evidence, the wider, so that four in five steps of sources that nothing was fitted
//!    to lie in the range which all other sources give them.
//! 6. [`Accuracy`]: the range of a step in words, or why there is none.

pub mod accuracy;
mod class_coverage;
mod coverage;
pub mod evidence;
pub mod fold;
mod likeness;
mod measured_step;
pub mod measured_steps;
mod of_outcomes;
pub mod open_facts;
mod rates;
mod shares;
pub mod spread;
pub mod traits;
mod unlike;
pub mod widths;

pub use accuracy::{Accuracy, StepRange, known, range_in_words, told};
pub use class_coverage::{ClassCoverage, Coverage};
pub use coverage::RangedStep;
pub use evidence::NoEvidence;
pub use fold::Fold;
pub use measured_step::MeasuredStep;
pub use measured_steps::MeasuredSteps;
pub use open_facts::OpenFact;
pub use rates::StepRates;
pub use shares::{StepShares, most_hidden};
pub use spread::DeviationSpread;
pub use traits::{LayoutFamily, ModelSort, StepTraits, TrainedWeights};
pub use unlike::{LayoutKind, three_unlike};
pub use widths::{ClassWidth, Widths};
