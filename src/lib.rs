//! stepsim simulates one distributed training step, event by event.
//!
//! A step is a set of **rank programs** running on a **machine**. The modules stand in the order in which data flows;
//! each uses only those before it (a test reads the `use crate::` lines and holds it so):
//!
//! `units`, `ids`, `pool`, `schedule` → `spec` → `profile` → `documents` → `moe` → `model` → `cost` → `topology` → `program` →
//! `collective` → `plan` → `fold` → `engine` → `matmul` → `analytic` → `analysis` → `palette` → `trace` → `simulate` → `goodput` →
//! `rl` → `page` → `compare` → `calculon` → `score` → `study` → `cli`.

pub mod analysis;
pub mod analytic;
pub mod calculon;
#[cfg(feature = "cli")]
pub mod cli;
pub mod collective;
pub mod compare;
pub mod cost;
pub mod documents;
pub mod engine;
pub mod fold;
pub mod goodput;
pub mod ids;
pub mod matmul;
pub mod model;
pub mod moe;
pub mod page;
pub mod palette;
pub mod plan;
pub mod pool;
pub mod profile;
pub mod program;
pub mod rl;
pub mod schedule;
pub mod score;
pub mod simulate;
pub mod spec;
pub mod study;
pub mod topology;
pub mod trace;
pub mod units;
