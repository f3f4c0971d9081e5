//! Tests of the parts of this crate, one module a subject.

mod engine_agenda;
mod engine_moving;
mod engine_sharing;
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
