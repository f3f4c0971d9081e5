//! stepsim simulates one distributed training step, event by event.
//!
//! ```
//! use stepsim::lab::simulate::{Inputs, Options, Simulation};
//!
//! let inputs = Inputs::load("tiny-4", None, &["batch.micro_batch=1".into()])?;
//! let report = Simulation::run(&inputs, &Options::default())?.report(false);
//! assert!(report.step_time_s > 0.0 && report.mfu < 1.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//! [`Inputs`](lab::simulate::Inputs) take names and paths, texts, or typed values; a run borrows them and reads no files. Worlds are changed
//! by named edits ([`core::program::Edit`]), errors are data ([`lab::simulate::Fault`]). `default-features = false` leaves out
//! arguments, tables and progress.
//!
//! A step is a set of **rank programs** running on a **machine**. The modules stand on five floors, and within a floor in
//! the order in which data flows; each uses only those before it (a test reads the `crate::` paths and holds it so):
//!
//! - `core`: `units`, `ids`, `kernel_class`, `pool`, `program`, `fold`, `engine`
//! - `step`: `schedule`, `spec`, `documents`, `moe`, `model`, `cost`, `topology`, `collective`, `plan`
//! - `read`: `profile`, `analytic`, `analysis`, `palette`, `trace`
//! - `lab`: `simulate`, `page`, `compare`, `calculon`, `describe`, `score`, `study`, `plan`, `around`
//! - `cli`

#[cfg(feature = "cli")]
pub mod cli;
pub mod core;
pub mod lab;
pub mod read;
pub mod step;
