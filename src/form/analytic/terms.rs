//! A step by term.

use super::beside::SideWork;
use super::form::StepForm;
use super::queues::Queue;
use super::residency::ResidencyDemand;
use stepsim_core::declare::summed;
use stepsim_plan::step::PlanError;
use stepsim_plan::step::groups::Group;
use stepsim_price::model::CommGroup;

summed! {
    /// Seconds of a step by term.
    #[derive(Clone, Copy, Debug, Default, PartialEq)]
    pub struct Terms {
        /// Forward kernels of the busiest rank.
        pub forward: f64 = "forward",
        /// Recomputed kernels.
        pub recompute: f64 = "recompute",
        /// Backward kernels.
        pub backward: f64 = "backward",
        /// Gradient norm and update.
        pub optimizer: f64 = "optimizer",
        /// Exposed tensor-parallel communication.
        pub tensor: f64 = "tensor parallel, exposed",
        /// Exposed context-parallel communication.
        pub context: f64 = "context parallel, exposed",
        /// Exposed expert-parallel communication.
        pub expert: f64 = "expert parallel, exposed",
        /// Pipeline bubble.
        pub bubble: f64 = "pipeline bubble",
        /// Exposed transfers between stages.
        pub p2p: f64 = "pipeline transfers, exposed",
        /// Exposed gathers of weights and reductions of gradients.
        pub data: f64 = "data parallel, exposed",
        /// Exposed copies to and from other tiers.
        pub offload: f64 = "offload, exposed",
        /// The time that the host takes longer to launch kernels than the device to run them, and its reads.
        pub host: f64 = "host, exposed",
    }
}

/// The terms in one word each, in their order.
pub const KEYS: [&str; 12] = [
    "forward",
    "recompute",
    "backward",
    "optimizer",
    "tensor",
    "context",
    "expert",
    "bubble",
    "p2p",
    "data",
    "offload",
    "host",
];

impl Terms {
    /// The passes of all ranks, with nothing beside them.
    pub(super) fn passes(&self) -> f64 {
        self.total() - self.optimizer - self.p2p - self.data - self.offload
    }
}

impl StepForm<'_> {
    /// The passes of all ranks, with nothing beside them: as the terms have them, in a walk where they take several.
    ///
    /// # Errors
    /// The order of all micro-batches is asked for, and there is none.
    pub fn passes_alone(&self, held: &ResidencyDemand) -> Result<f64, PlanError> {
        if self.ranks.len() == 1 {
            return Ok(self.terms(held)?.passes());
        }
        // The exchange of data-parallel ranks inside passes is no part of them.
        let context = self.parts.links.has(Group::Layer(CommGroup::Context));
        let exchanged = if context { 0.0 } else { self.busy(self.busiest)?.context };
        Ok(self.passes_end(held, SideWork::default())? + self.host_reads - exchanged)
    }

    /// When the last rank is done with its passes and all that is beside them.
    ///
    /// # Errors
    /// The order of all micro-batches is asked for, and there is none.
    pub fn end(&self, held: &ResidencyDemand) -> Result<f64, PlanError> {
        let on = SideWork {
            transfers: self.ranks.len() > 1,
            collectives: held.asked.iter().any(|asked| asked.communicates()),
            copies: held.asked.iter().any(|asked| asked.copies()),
        };
        self.passes_end(held, on)
    }

    /// Seconds by term.
    ///
    /// # Errors
    /// The order of all micro-batches is asked for, and there is none.
    pub fn terms(&self, held: &ResidencyDemand) -> Result<Terms, PlanError> {
        let rank = &self.ranks[self.busiest];
        let mut busy = self.busy(self.busiest)?;
        let nothing = SideWork::default();
        let alone = self.passes_end(held, nothing)?;
        // One subject after the other: what a walk takes longer with each.
        let mut on = nothing;
        let mut end = alone;
        let mut with = |switch: fn(&mut SideWork), is_there: bool| {
            switch(&mut on);
            let before = end;
            if is_there {
                end = self.passes_end(held, on)?;
            }
            Ok::<f64, PlanError>(end - before)
        };
        let p2p = with(|on| on.transfers = true, self.ranks.len() > 1)?;
        let data = with(|on| on.collectives = true, held.asked.iter().any(|a| a.communicates()))?;
        let offload = with(|on| on.copies = true, held.asked.iter().any(|a| a.copies()))?;
        // Copies run beside the update, which is a term of its own.
        let offload = if held.updates_between_copies() { offload - self.optimizer[1] } else { offload };
        let mut bubble = alone - rank.sum.weight_casts - busy.total();
        if self.ranks.len() == 1 {
            // There is nobody to wait for: it is what passes add to one another.
            let queues = [Queue::Host, Queue::Expert, Queue::Context, Queue::Tensor];
            let largest = queues.into_iter().fold(Queue::Host, |a, b| if busy[b] > busy[a] { b } else { a });
            busy[largest] += std::mem::take(&mut bubble);
        }
        // Without context parallelism its queue carries what data-parallel ranks exchange inside passes.
        let context = self.parts.links.has(Group::Layer(CommGroup::Context));
        let exchanged = if context { 0.0 } else { std::mem::take(&mut busy.context) };
        let passes = f64::from(self.passes());
        let recompute = passes * rank.sum.recompute.compute;
        let forward = passes * rank.sum.forward.compute;
        Ok(Terms {
            forward: forward + rank.sum.weight_casts,
            recompute,
            backward: busy.compute - forward - recompute,
            optimizer: self.optimizer[1],
            tensor: busy.tensor,
            context: busy.context,
            expert: busy.expert,
            bubble,
            p2p,
            data: data + exchanged,
            offload,
            host: busy.host + self.host_reads,
        })
    }
}
