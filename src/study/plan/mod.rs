//! From anybody's files to a step on a machine: what was understood, the workload, and its time as a range.
//!
//! 1. [`Request::read`]: every word is a file, told by its content, or a shipped name; together they describe one run.
//! 2. [`RunPlan`]: the workload, each value with its origin ([`stepsim_bring::describe::ValueOrigin`]), and what was
//!    not understood.
//! 3. [`RunPlan::laid_out`]: a layout that is stated stays; else one is searched.
//! 4. [`SimulatedPlan`]: the step on the machine, and what the measured steps that are like it say of it.

mod model_in;
mod outcome;
mod run_plan;
mod sources;

pub use outcome::{PlanReport, SimulatedPlan};
pub use run_plan::{LayoutSource, Proposal, RunPlan};
pub use sources::Request;
