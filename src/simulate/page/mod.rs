//! Pages about steps, made of the parts of [`read::page`](stepsim_read::page):
//! * [`page`]: a simulated step. Numbers come from its report; what the report lacks (passes over time, levels of
//!   memory, classes of kernels) is read from the run.

mod gather;
mod run;

pub use gather::{PAIR, gather, looks as step_looks, pass_number};
pub use run::page;
pub use stepsim_read::page::{bars, lane, sheet};
