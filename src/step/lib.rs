//! The floor that writes programs: from the files of a workload and a machine to what each rank does in a step.

pub mod collective;
pub mod cost;
pub mod documents;
pub mod model;
pub mod moe;
pub mod plan;
pub mod schedule;
pub mod sharding;
pub mod spec;
pub mod topology;
