//! stepsim simulates one distributed training step, event by event.
//!
//! Start here: [`Inputs`] are a workload on a machine, [`Simulation::run`] plays one step of it, and the [`Report`]
//! says where the time went.
//!
//! ```
//! use stepsim::{Inputs, Options, Simulation};
//!
//! stepsim::register_shipped()?;
//! let inputs = Inputs::load("tiny-4", None, &["batch.micro_batch=1".into()])?;
//! let report = Simulation::run(&inputs, &Options::default())?.report(false);
//! println!("{:.1} ms, MFU {:.1} %", 1e3 * report.step_time_s, 100.0 * report.mfu);
//! for (cause, seconds) in &report.mean.stalls_s {
//!     println!("stood still for {}: {:.2} ms", cause.name(), 1e3 * seconds);
//! }
//! assert!(report.step_time_s > 0.0 && report.mfu < 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! Names mean the files that this package carries, from [`register_shipped`] on. Where a workload or a model is meant,
//! files of other software are read from [`bring::read_other_software`] on.
//! [`Inputs`] take names and paths, texts, or typed values ([`WorkloadSpec`], [`Topology`]); a run borrows them and
//! reads no files. A [`World`] of your own needs no transformer; worlds are changed by named edits
//! ([`core::program::Edit`]), errors are data ([`simulate::Fault`]). `default-features = false` leaves out arguments,
//! tables and progress.
//!
//! # Crates
//!
//! A step is a set of **rank programs** running on a **machine**. Each crate uses only those before it, and the
//! compiler holds that:
//!
//! | crate | what it is | what it must not know |
//! |--|--|--|
//! | [`core`] | engine, fold, program, units, ids | files, JSON, transformers |
//! | [`read`] | reports, timelines, parts of pages | where a record came from |
//! | [`schedule`] | orders of passes, and who holds which shard | models, machines, files |
//! | [`spec`] | files and their checks | what is computed from them, other software |
//! | [`price`] | what a layer computes, sends and keeps, and its kernels' times | fabrics, plans |
//! | [`fabric`] | machines, collectives | models, plans |
//! | [`plan`] | what each rank does | how it is played |
//! | [`simulate`] | one step from files to report and page | studies |
//! | [`form`] | the closed form, and what it and a simulation say of one step | how a step is played |
//! | [`bring`] | anybody's words as a described run | studies, terminals |
//! | [`measure`] | profiles, learned prices, scores of published steps | studies, terminals |
//! | [`study`] | plan, sweep, search, fill | terminals |
//! | [`around`] | calculators around a step | studies, terminals |
//! | `cli` | one file a command | |

#[cfg(feature = "cli")]
pub use stepsim_cli as cli;
pub use {
    stepsim_around as around, stepsim_bring as bring, stepsim_core as core, stepsim_fabric as fabric,
    stepsim_form as form, stepsim_measure as measure, stepsim_plan as plan, stepsim_price as price,
    stepsim_read as read, stepsim_schedule as schedule, stepsim_simulate as simulate, stepsim_spec as spec,
    stepsim_study as study,
};

pub use core::program::World;
pub use core::units::Time;
pub use read::analysis::report::Report;
pub use simulate::{Inputs, Options, Simulation, SimulationError};
pub use spec::{Device, ModelSpec, SpecError, Topology, WorkloadSpec};

/// From now on the files that this package carries are known by their names.
///
/// # Errors
/// The environment names a folder in place of them ([`spec::catalog::FOLDER`]) that holds none.
pub fn register_shipped() -> Result<(), SpecError> {
    spec::catalog::register(stepsim_shipped::FILES)
}
