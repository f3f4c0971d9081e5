//! Many steps from one: sweeps over settings, and the search for the best layout.
//!
//! A [`Space`] is a product of axes; a point of it is a list of settings. [`StudyBase`] makes inputs of a point:
//! files are read once, equal machines are built once. [`sweep()`] plays every point and writes a row for each;
//! [`search()`] makes the space itself from what model and machine allow, estimates all of it in closed form and
//! simulates the best; [`fill()`] finds what one layout must give up so that it fits, and [`knee()`] how much of one
//! field is enough. [`Plot`] and [`page`](fn@page) draw rows.
//!
//! Points share what is equal between them and costs time: machines, closed forms, programs, folds
//! (`StudyBase::shared`). A row is what its point is alone, whatever was valued before.
//!
//! Hazard: an infeasible point is a row with a status, not a failure; only a study that means nothing (a field that
//! does not exist, a value of the wrong type) is refused, before anything runs.

mod advice;
mod base;
mod best;
mod candidates;
mod columns;
mod condition;
pub mod csv;
mod file;
mod fill;
pub mod formula_columns;
pub mod formula_map;
pub mod gate;
mod journal;
mod judged;
pub mod knee;
pub mod layout;
pub mod measure_words;
pub mod normal;
pub mod objective;
mod offload;
mod options;
pub mod otherwise;
pub mod outcome;
pub mod page;
mod placement;
pub mod plan;
pub mod plot;
mod proof;
mod queue;
mod reasons;
mod row_files;
pub mod rows;
mod search;
pub mod simulating;
mod simulations;
pub mod space;
mod sweep;
mod valued;

pub use advice::Advice;
pub use base::StudyBase;
pub use columns::ReportColumns;
pub use condition::RowCondition;
pub use csv::csv;
pub use file::Study;
pub use fill::{FillReport, FittingStep, fill};
pub use formula_columns::of_one_term;
pub use formula_map::{Errors, FormulaMap};
pub use judged::JudgedRun;
pub use knee::{Knee, KneeBorder, KneeCondition, KneeField, KneePlay, KneeReport, Question, knee};
pub use layout::FixedValues;
pub use objective::Objective;
pub use options::{BestHeard, SearchOptions};
pub use outcome::{How, PointOutcome, outcome};
pub use page::{front, page};
pub use plot::Plot;
pub use proof::Proof;
pub use reasons::{Reason, reasons};
pub use row_files::{read_rows, write_rows};
pub use rows::{Row, StudyError, merge, write_text};
pub use search::{RankedLayout, SearchReport, SearchResult, StoppedSearch, search};
pub use simulating::Simulating;
pub use space::{MOST_POINTS, PointSelection, Space, StudyAxis, set_text};
pub use sweep::{SweepOptions, SweepShard, missing, sweep, sweep_each};
