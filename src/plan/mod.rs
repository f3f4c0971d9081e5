//! Strategy, schedule and offload policy become rank programs.

pub mod pipeline;
pub mod schedule;
pub mod step;
