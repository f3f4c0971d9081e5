//! Calculators around a step: Calculon's arithmetic and days of training.
//!
//! Invariant: it knows a step's time and no study, score or terminal.

pub mod calculon;
pub mod goodput;
