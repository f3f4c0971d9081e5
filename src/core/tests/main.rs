//! Tests of the parts of this crate, one module a subject.

#[path = "../../../tests/draws.rs"]
mod draws;
mod engine;
mod engine_sharing;
mod fold;
mod fold_bundles;
mod fold_folds;
mod fold_partition;
mod interrupt;
mod intervals;
mod kernel_class;
mod pool;
mod program_bandwidth;
mod program_build;
mod program_comms;
mod program_period;
mod program_rounds;
mod program_validate;
mod units;
