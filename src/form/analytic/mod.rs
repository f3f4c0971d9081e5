//! The closed form of a step of our own files: what Calculon's lacks (embedding and LM head, grouped queries, gated
//! MLP, experts, FSDP, collectives by algorithm, uneven stages, any schedule) with the same layer costs as the
//! simulation and none of its events.
//!
//! A rank is a few streams, each a queue that takes its ops in order. With ⊕ for the later of two times and ⊗ for "so
//! much later", every end is a linear form of the times at which the streams were free, a pass a matrix, a chunk
//! their product (`queues`, `chunks`). The rest of a step is three recursions:
//!
//! 1. *Passes* (`passes`): kernels follow one another; a message waits for the kernel before it, and the kernel so many
//!    behind waits for the message. A product in t pieces of k seconds beside shifts of c takes k + (t − 1)·max(c, k).
//! 2. *Order* (`pipeline`): a slot starts when the one before it is over and its input has come. Where a schedule
//!    goes on by turns, two short walks tell all others.
//! 3. *Beside them* (`beside`): gathers, reductions and copies have queues of their own; each starts behind a visit,
//!    and a visit waits for what is brought in for it. The residency policies say which
//!    ([`stepsim_plan::step::residency`]).
//!
//! step = kernels of the busiest pipeline rank (forward, recompute, backward) + what tensor, context and expert
//! communication and the host add to its passes + bubble + transfers between stages + data-parallel communication +
//! copies + optimizer
//!
//! The busiest rank is the one with most work over the step. Its kernels, and the time that each kind of communication
//! adds to them, hold for passes among others like them; the bubble is the rest of the walk of the whole order. Each
//! further term is the time that the walk takes longer with one subject more: transfers, then collectives, then
//! copies.
//!
//! Where links are shared by what is laid out on them (an adapter by several devices, a host's memory by all of its),
//! each has its part (`links`).
//!
//! Hazards: no contention of different kinds of messages, no interference of collectives with kernels, no stragglers,
//! no end of the host's queue; where groups of a kind or devices differ, the slowest counts (`unlike`). The
//! simulation has all of these: the difference is what `compare` explains.

mod asked;
mod beside;
pub mod bounds;
mod chunks;
mod closed_form;
mod crossings;
mod estimate;
mod floor;
mod form;
mod form_least;
mod known;
pub mod least;
mod links;
mod memory;
mod own_passes;
pub mod pass_time;
mod passes;
mod pipe;
mod pipeline;
mod quantities;
pub mod queues;
mod residency;
pub mod roofline;
mod rules;
mod terms;
pub mod training;
mod unit_passes;
mod unlike;
mod update;
mod walk_key;
mod walks;

pub use closed_form::ClosedForm;
pub use estimate::{Estimate, StepBound};
pub use known::ClosedFormCache;
pub use least::Least;
pub use links::RankLinks;
pub use memory::MemoryBytes;
pub use pass_time::{PassTime, UnitTime};
pub use pipe::Pipe;
pub use rules::Rules;
pub use terms::{KEYS, Terms};

use stepsim_fabric::collective::Chooser;
use stepsim_fabric::topology::Machine;
use stepsim_plan::step::{PlanError, PriceList};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::WorkloadSpec;

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
    ClosedForm::new(workload, model, machine, prices, chooser, peak, &ClosedFormCache::default())?
        .with_batch(workload.batch.global)
}
