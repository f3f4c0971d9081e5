//! A gate for changes of a training configuration: a step that was agreed on, against the one of today.
//!
//! 1. [`Baseline`] is a file beside the training code: the words that describe the run, the workload that they came
//!    to, and its step, memory and MFU.
//! 2. [`gate`] reads the words again. The baseline's own workload is played too: where that gives another step than
//!    the baseline says, the program has changed, and what is left is the configuration.
//! 3. Every changed part of the workload is played alone, so that the answer has a reason.
//! 4. [`gate_logs`] holds a log against a log: medians of their steady steps, and the noise of both.

mod baseline;
mod logs;
mod play;
mod words;

pub use baseline::{Baseline, GateLimits, GateSide};
pub use logs::{LogGate, gate_logs};
pub use play::{GateChange, GateReport, gate};
