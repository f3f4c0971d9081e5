//! Strategy, schedule and offload policy become rank programs: models, machines, prices and schedules meet here.
//!
//! Invariant: it plays nothing, and reads no record and no file.

pub mod launch;
pub mod pipeline;
pub mod step;
