//! Published step times against simulated ones: `stepsim score`.
//!
//! A [`PublishedRow`] is what a source printed about one step. the [vocabulary](stepsim_bring::describe) fills what
//! it did not print and says what its words mean; [`case()`] makes a workload and a machine of it; [`outcome()`]
//! simulates it and estimates it in closed form; [`ScoreReport`] adds up errors by source, device and stack.
//!
//! Hazard: whatever a row holds, the answer is an outcome. A row that cannot be mapped is skipped and says why; one
//! that the simulator refuses has failed and says why; neither ends a score.

pub mod anchor;
mod anchored;
pub mod card;
mod case;
pub mod choice;
pub mod learned;
pub mod learned_rows;
mod measured;
pub mod outcome;
mod pairs;
pub mod ranges;
mod report;
mod rows;
mod same_run;
pub mod settled;
mod side;
pub mod statistics;
pub mod table;

pub use anchor::{Anchor, AnchorRow, PartSeconds, Reach, StepPart};
pub use anchored::AnchoredErrors;
pub use case::{Case, case};
pub use choice::ChoiceScore;
pub use outcome::{RowOutcome, RowStatus, mapped, outcome, outcomes};
pub use pairs::{StepPair, pairs};
pub use report::{ErrorGroup, ScoreReport, ScoredRow};
pub use rows::{PublishedRow, read};
pub use statistics::{Statistics, kendall};
pub use table::{line_of as row_line, ratios, text};
