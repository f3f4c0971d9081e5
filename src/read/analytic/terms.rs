//! A step by term.

use super::form::Form;
use super::pass_time::PassTime;
use super::residency::Held;
use crate::step::plan::step::PlanError;

/// Seconds of a step by term.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Terms {
    /// Forward kernels of the busiest rank.
    pub forward: f64,
    /// Recomputed kernels.
    pub recompute: f64,
    /// Backward kernels.
    pub backward: f64,
    /// Gradient norm and update.
    pub optimizer: f64,
    /// Exposed tensor-parallel communication.
    pub tensor: f64,
    /// Exposed context-parallel communication.
    pub context: f64,
    /// Exposed expert-parallel communication.
    pub expert: f64,
    /// Pipeline bubble.
    pub bubble: f64,
    /// Exposed transfers between stages.
    pub p2p: f64,
    /// Exposed gathers of weights and reductions of gradients.
    pub data: f64,
    /// Exposed copies to and from other tiers.
    pub offload: f64,
    /// What the host takes longer to launch kernels than the device to run them, and its reads.
    pub host: f64,
}

impl Terms {
    /// Every term with its name.
    pub fn named(&self) -> [(&'static str, f64); 12] {
        [
            ("forward", self.forward),
            ("recompute", self.recompute),
            ("backward", self.backward),
            ("optimizer", self.optimizer),
            ("tensor parallel, exposed", self.tensor),
            ("context parallel, exposed", self.context),
            ("expert parallel, exposed", self.expert),
            ("pipeline bubble", self.bubble),
            ("pipeline transfers, exposed", self.p2p),
            ("data parallel, exposed", self.data),
            ("offload, exposed", self.offload),
            ("host, exposed", self.host),
        ]
    }
    /// The step.
    pub fn total(&self) -> f64 {
        self.named().iter().map(|term| term.1).sum()
    }
}

impl Form<'_> {
    /// Seconds by term.
    ///
    /// # Errors
    /// The order of all micro-batches is asked for, and there is none.
    pub fn terms(&self, held: &Held) -> Result<Terms, PlanError> {
        // Each chunk sees the micro-batches of its direction.
        let passes = f64::from(self.passes());
        let rank = &self.ranks[self.busiest];
        let forward = rank.sum.forward.times(passes);
        let recompute = rank.sum.recompute.times(passes);
        let backward = self.gradients(&rank.sum).times(passes);
        let over = |part: fn(&PassTime) -> f64| part(&forward) + part(&recompute) + part(&backward);
        Ok(Terms {
            forward: forward.compute + rank.sum.weight_casts,
            recompute: recompute.compute,
            backward: backward.compute,
            optimizer: self.optimizer,
            tensor: over(|pass| pass.tensor),
            context: over(|pass| pass.context),
            expert: self.expert(rank, over(|pass| pass.expert))?,
            bubble: self.bubble()?,
            p2p: self.hop * self.hops(),
            data: held.data(passes),
            offload: held.offload(passes),
            host: over(|pass| pass.host) + self.host_reads,
        })
    }
}
