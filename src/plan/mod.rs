//! Strategy, schedule and offload policy become rank programs.

pub mod pipeline;
pub mod step;
