//! Profiles of real steps, read as reports of simulated ones are.
//!
//! [`read`] turns a PyTorch profiler trace (or a timeline of this program) into a [`RankEvents`]: what ran on the
//! device, what launched it, where the steps are. `report` says where the time went: [`breakdown`] (computing,
//! communication and how much of it was exposed, idle), [`idle`] (why, and what ended the longest gaps), [`skew`]
//! (who was waited for at collectives). Times are integer nanoseconds, from the text of the file. A kernel's
//! name and [`classes`], which are data, tell its kind.
//!
//! Hazards, each met by a tool: communication that is not named nccl (DeepEP, symmetric memory); operators that carry
//! a stream; device events launched before the profiler began (both [`report::Window`]s are given); slices that
//! overlap on one stream; clocks that differ between ranks.

mod bars;
pub mod breakdown;
mod category;
pub mod classes;
pub mod clock;
pub mod event;
pub mod idle;
mod job;
pub mod model;
mod own;
pub mod programs;
mod reader;
pub mod report;
pub mod scan;
pub mod skew;
pub mod waterfall;

pub use classes::ClassTables;
pub use job::of_one_job;
pub use model::RankEvents;
pub use reader::{read, read_from};
pub use report::{ProfileReport, Window, report};
