//! Pages: one file of HTML each, that needs no network.
//!
//! Drawings are SVG that stands in the page as it is, so that it reads without a script and prints. What is drawn over time
//! stands in it once more as JSON, from which a script draws what one looks closer at, and which can be saved. Every page is a
//! [`sheet`] with sections:
//! * [`page`]: a simulated step. Numbers are those of its report; what the report lacks (passes over time, levels of memory,
//!   classes of kernels) is read from the run;
//! * [`profile`]: measured steps, one row a rank, by the words of `stepsim analyze`;
//! * [`difference`]: two steps side by side;
//! * `bars`: lines of bars, which fit the window that they have;
//! * `points`: a table to sort, each row with its command;
//! * `signed`: what is gained and lost;
//! * [`lane`]: rows of any other drawing over time (schedules, collectives).

pub mod bars;
pub mod difference;
mod draw;
mod escaped;
mod gather;
pub mod lane;
mod points;
pub mod profile;
mod run;
pub mod sheet;
mod signed;

pub use gather::{PAIR, gather, looks as step_looks, pass_number};
pub use run::{Reading, page};
