//! Residency: which bytes of weights, gradients, optimizer state and activations are on the device when, and what is
//! sent and copied so that they are.
//!
//! Each of the four classes follows one **policy**, a file of its own with the behaviour in the simulation
//! (`Residency`) and its closed form ([`Law`], which the compiler asks for). A stage calls the four in a fixed order
//! around its visits and puts kernels and communication in order; a policy knows nothing of the others but the
//! contents of the `Writer`: visits, reductions, and ops after which updated weights may be read.
//!
//! | class | policies |
//! |--|--|
//! | weights | `ReplicatedWeights` (or copied in for each visit), `StepwiseWeights` (ZeRO-1/2), `Fsdp`, `Budgets`
//! (DeepSpeed ZeRO-3) |
//! | gradients | `ReducedGradients` of `Whole` or `ShardedGradients` ones |
//! | optimizer state | `InPlace`, `StreamedState` from tiers, `OnHost`, `InterleavedUpdate` |
//! | activations | `MovedActivations` between the passes (or copied out and in), copied by `SomeLayers` |
//!
//! `Policies::of` chooses; a new policy is a file and a line there.

mod activations;
mod away;
mod copies;
mod gradients;
mod idle_links;
mod law;
mod optimizer;
mod placed;
mod policy;
mod prefetch;
mod shares;
mod some_layers;
pub(super) mod visits;
mod weights;

pub(super) use copies::{free, take};
pub use idle_links::IdleLinks;
pub use law::{
    ClassBytes, Gathers, Law, LinkDemand, PolicyInputs, Reductions, UnitMessages, UnitTimes, Updates,
};
pub(super) use placed::TierShares;
pub(super) use policy::Residency;
pub use prefetch::{VisitSpan, gate};
pub use shares::{ReductionStreams, ReductionTimes, StateShares};

use super::writer::Writer;
use activations::MovedActivations;
use gradients::{ReducedGradients, ShardedGradients, Whole};
use optimizer::{InPlace, InterleavedUpdate, OnHost, StreamedState};
use some_layers::SomeLayers;
use stepsim_spec::workload::OptimizerPlace;
use weights::{Budgets, Fsdp, ReplicatedWeights, StepwiseWeights};

/// The policies of a step, one for each class.
pub struct Policies {
    pub(super) weights: Box<dyn Residency>,
    pub(super) gradients: Box<dyn Residency>,
    pub(super) optimizer: Box<dyn Residency>,
    pub(super) activations: Box<dyn Residency>,
}

impl Policies {
    /// The policies that a workload asks for.
    pub fn of(shares: &StateShares<'_>) -> Policies {
        let facts = shares.facts();
        let (offload, placed) = (&shares.workload.offload, &shares.placed);
        let all_here =
            placed.optimizer.is_empty() && placed.gradients.is_empty() && placed.weights.is_empty();
        Policies {
            weights: match shares.workload.parallelism.sharding.prefetch.budgets() {
                _ if facts.renews_weights() => Box::new(StepwiseWeights::default()),
                _ if !(facts.cuts_weights() && shares.gathers()) => Box::new(ReplicatedWeights::default()),
                Some(budgets) => Box::new(Budgets::new(budgets)),
                None => Box::new(Fsdp::default()),
            },
            gradients: match shares.gradients_are_cut() {
                true => Box::new(ReducedGradients::new(ShardedGradients::default())),
                false => Box::new(ReducedGradients::new(Whole::default())),
            },
            optimizer: match offload.optimizer_on {
                _ if all_here => Box::new(InPlace),
                OptimizerPlace::Host if !placed.optimizer.is_empty() => {
                    match offload.optimizer_on_device_every {
                        Some(every) => Box::new(InterleavedUpdate::new(every)),
                        None => Box::new(OnHost::default()),
                    }
                }
                _ => Box::new(StreamedState::default()),
            },
            activations: match SomeLayers::of(offload) {
                Some(some) => Box::new(some),
                None => Box::new(MovedActivations::default()),
            },
        }
    }
    fn all(&mut self) -> [&mut Box<dyn Residency>; 4] {
        [&mut self.weights, &mut self.gradients, &mut self.optimizer, &mut self.activations]
    }
    /// A rank's program begins.
    pub(super) fn begin(&mut self, units: usize) {
        self.all().into_iter().for_each(|policy| policy.begin(units));
    }
    /// A step begins.
    pub(super) fn begin_step(&mut self, w: &Writer<'_, '_>) {
        self.all().into_iter().for_each(|policy| policy.begin_step(w));
    }
    /// The closed forms, in the order of the classes: weights, gradients, optimizer state, activations.
    pub fn laws(&self) -> [&dyn Law; 4] {
        [&*self.weights, &*self.gradients, &*self.optimizer, &*self.activations]
    }
}
