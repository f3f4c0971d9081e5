//! Calculators around a step: days of training, reinforcement learning, sharded products.
//!
//! Invariant: it knows a step's time and no study, score or terminal.

pub mod goodput;
pub mod matmul;
pub mod rl;
