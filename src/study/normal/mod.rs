//! "Is my number normal?": a measured step against the described one, and what explains the distance.
//!
//! 1. [`MeasuredNumber`]: the number, in any unit, as seconds of the described step, also as other conventions read
//!    it.
//! 2. [`judge()`] holds it against the range of the simulated step, then plays every cause of
//!    `workloads/normal/causes.json`. One with a size is fitted: played until the step takes what was measured. What
//!    cannot reach the number is dropped.
//! 3. What is left stands in classes, each shown by one measurement, in the order of its weight, of how
//!    usual its size is, and of how little of it moves the step.
//! 4. [`Telling`] is a measurement that tells the first two classes apart, played with both.
//!
//! Hazard: one number fits many causes. [`StepVerdict::is_told`] says whether a switch reaches it and the first two
//! classes have most of the weight.

mod cause;
mod fit;
mod judge;
mod measured;
mod player;
mod telling;
mod verdict;
mod words;

pub use judge::judge;
pub use measured::{FurtherStep, MeasuredNumber};
pub use telling::Telling;
pub use verdict::{ExplainedBy, Judgement, PlayedCause, StepVerdict};
