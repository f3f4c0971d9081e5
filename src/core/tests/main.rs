//! Tests of the parts of this crate, one module a subject.

mod engine;
mod engine_agenda;
mod engine_moving;
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
#[allow(dead_code, reason = "shared with the tests of the whole program")]
#[path = "../../../tests/slow.rs"]
mod slow;
mod units;
