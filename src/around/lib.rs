//! Calculators around a step: Calculon's arithmetic, days of training and reinforcement learning.
//!
//! Invariant: it knows a step's time and no study, score or terminal.

pub mod calculon;
pub mod goodput;
pub mod rl;
