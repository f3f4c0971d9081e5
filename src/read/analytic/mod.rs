//! The closed form of a step of our own files: what Calculon's lacks (embedding and LM head, grouped queries, gated MLP,
//! experts, FSDP, collectives by algorithm, uneven stages, any schedule) with the same layer costs as the simulation
//! and none of its events.
//!
//! step = kernels of the busiest pipeline rank (forward, recompute, backward) + optimizer + exposed tensor, context
//! and expert communication + bubble + exposed p2p + exposed data-parallel communication + exposed offload
//!
//! * Busiest rank: the one with most work over the step; the bubble is what the others' passes add while the pipeline
//!   fills and drains, for even stages the schedule's own closed form ([`crate::step::schedule`]); where theory has none, the
//!   order is walked with the times of its passes.
//! * A layer's communication is exposed by what it takes longer than the kernels that may run beside it (`passes`).
//! * Sharding, gradient reduction, copies and memory: the laws of the residency policies ([`crate::step::plan::step::residency`]),
//!   beside one another (`residency`).
//! * p2p: the latency laws of each schedule with asynchronous sends; each transfer in full with blocking ones.
//!
//! Hazards: no contention (data-parallel beside pipeline messages, copies beside collectives), no launch overhead, no
//! interference of collectives with kernels, no stragglers; buckets of gradients are taken unit by unit; all groups are
//! taken to be like rank 0's. The simulation has all of these: the difference is what `compare` explains.

pub mod bounds;
mod closed_form;
mod estimate;
mod floor;
mod form;
mod known;
mod least;
mod links;
pub mod local_sgd;
mod memory;
mod pass_time;
mod passes;
mod pipeline;
mod residency;
pub mod roofline;
mod rules;
mod terms;

#[cfg(test)]
mod tests;
pub mod training;
mod update;

pub use closed_form::ClosedForm;
pub use estimate::Estimate;
pub use known::Known;
pub use least::Least;
pub use links::{Links, Pipe};
pub use memory::Memory;
pub use pass_time::{PassTime, UnitTime};
pub use rules::Rules;
pub use terms::Terms;

use crate::step::collective::Chooser;
use crate::step::plan::step::{PlanError, PriceList};
use crate::step::spec::model::ModelSpec;
use crate::step::spec::workload::WorkloadSpec;
use crate::step::topology::Machine;

/// Estimates the step of `workload` on `machine`, kernels priced by `prices`, collectives chosen by `chooser`, with a
/// device's peak of `peak` FLOP/s.
///
/// # Errors
/// The workload does not fit the machine, or a group cannot communicate.
pub fn estimate(
    workload: &WorkloadSpec,
    model: &ModelSpec,
    machine: &Machine,
    prices: &dyn PriceList,
    chooser: &Chooser,
    peak: f64,
) -> Result<Estimate, PlanError> {
    ClosedForm::new(workload, model, machine, prices, chooser, peak, &Known::default())?
        .with_batch(workload.batch.global)
}
