//! The floor of experiments: one step from files to report, pages, comparisons, scores, studies, and the calculators
//! around a step.

pub mod around;
pub mod calculon;
pub mod compare;
pub mod describe;
pub mod page;
pub mod plan;
pub mod score;
pub mod simulate;
pub mod study;
