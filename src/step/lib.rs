//! From the files of a workload and a machine to what each rank does in a step.
//!
//! The rooms; each uses only the rooms before it:
//!
//! `schedule` → `sharding` → `spec` → `documents` → `moe` → `model` → `cost` → `topology` → `collective` → `plan`
//!
//! Invariant: it plays nothing, reads no record, and knows no file of other software ([`spec::register`]).

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
