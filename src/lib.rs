//! stepsim simulates one distributed training step, event by event.
//!
//! A step is a set of **rank programs** running on a **machine**. The modules stand on five floors, and within a floor in
//! the order in which data flows; each uses only those before it (a test reads the `crate::` paths and holds it so):
//!
//! - `core`: `units`, `ids`, `kernel_class`, `pool`, `program`, `fold`, `engine`
//! - `step`: `schedule`, `spec`, `documents`, `moe`, `model`, `cost`, `topology`, `collective`, `plan`
//! - `read`: `profile`, `analytic`, `analysis`, `palette`, `trace`
//! - `lab`: `simulate`, `page`, `compare`, `calculon`, `describe`, `score`, `study`, `around`
//! - `cli`

#[cfg(feature = "cli")]
pub mod cli;
pub mod core;
pub mod lab;
pub mod read;
pub mod step;
