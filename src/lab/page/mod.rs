//! Pages about steps, made of the parts of [`read::page`](crate::read::page):
//! * [`page`]: a simulated step. Numbers are those of its report; what the report lacks (passes over time, levels of memory,
//!   classes of kernels) is read from the run;
//! * [`profile`]: measured steps, one row a rank, by the words of `stepsim analyze`;
//! * [`difference`]: two steps side by side.

pub mod difference;
mod gather;
pub mod profile;
mod run;

pub use crate::read::page::{bars, lane, sheet};
pub use gather::{PAIR, gather, looks as step_looks, pass_number};
pub use run::page;
