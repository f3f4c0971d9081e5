//! Calculators around a step: days of training, reinforcement learning, sharded products.

pub mod goodput;
pub mod matmul;
pub mod rl;
