//! Strategy, schedule and offload policy become rank programs.

pub mod launch;
pub mod pipeline;
pub mod step;
