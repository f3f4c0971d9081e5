//! The least that a closed form can say, before any order is walked: layouts are walked in this order, so that few are.
//! A simulation may take less ([`super::floor`] is certain of that, too).

use std::sync::Arc;

use super::asked::PolicyDemand;
use super::form::StepForm;
use super::queues::{QUEUES, Queue, QueueTimes};
use super::residency::ResidencyDemand;
use stepsim_schedule::{Pass, Slot};

/// Rounding of what is summed in another order.
const ROUNDING: f64 = 1e-9;

impl StepForm<'_> {
    /// The seconds of a walk with all that is beside its passes, at least. Each queue of a rank takes its ops one after
    /// the other: the product of matrices has no less on its diagonal than they have together. All but the host's wait
    /// for the passes of the stages before, and those behind wait for them. What waits for the last pass comes behind.
    pub(super) fn least(&self, held: &ResidencyDemand) -> f64 {
        let order = &self.parts.order;
        let slots = || order.ranks.iter().flatten();
        if order.placement.has_sides() || slots().any(|slot| matches!(slot, Slot::Overlapped { .. })) {
            return 0.0;
        }
        let passes = f64::from(self.passes());
        let of_kind = |kind: &usize| {
            let mut sum = [0.0; QUEUES];
            for unit in self.chunks.units(*kind) {
                let backward = match self.splits {
                    true => [&unit.input_grad, &unit.weight_grad],
                    false => [&unit.backward, &unit.recompute],
                };
                let recompute = self.splits.then_some(&unit.recompute);
                for pass in backward.into_iter().chain(recompute).chain([&unit.forward]) {
                    let own = pass.passage.alone();
                    sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                }
            }
            sum
        };
        let mut known: Vec<Option<QueueTimes>> = vec![None; self.chunks.kinds()];
        let collectives = held.asked.iter().any(|asked| asked.communicates());
        let around = self.around_ranks();
        let of_rank = |(rank, asked): (usize, &Arc<PolicyDemand>)| {
            let mut sum = [0.0; QUEUES];
            for kind in &self.ranks[rank].kinds {
                let own = known[*kind].get_or_insert_with(|| of_kind(kind));
                sum.iter_mut().zip(own).for_each(|(sum, own)| *sum += passes * *own);
            }
            let host = std::mem::take(&mut sum[Queue::Host as usize]);
            let queues = around[rank] + sum.into_iter().fold(0.0, f64::max);
            let queues = queues.max(host).max(held.floor.of_rank(rank, passes));
            if collectives { asked.least_end(queues, passes) } else { queues }
        };
        held.asked.iter().enumerate().map(of_rank).fold(0.0, f64::max) * (1.0 - ROUNDING)
    }

    /// By rank: seconds of passes on the way of the first micro-batch to it, and of the last one's gradient from it.
    fn around_ranks(&self) -> Vec<f64> {
        let order = &self.parts.order;
        let mut around = vec![[f64::INFINITY; 2]; self.ranks.len()];
        for direction in 0..order.placement.directions() {
            let mut way = [0.0; 2];
            for seat in order.placement.path(direction) {
                let rank = seat.rank as usize;
                around[rank].iter_mut().zip(way).for_each(|(least, way)| *least = least.min(way));
                let kind = self.ranks[rank].kinds[usize::from(seat.chunk)];
                way[0] += self.chunks.single(kind, Pass::Forward, false).through();
                // A rank may end with gradients of weights, for which no other waits.
                if !self.splits {
                    way[1] += self.chunks.single(kind, Pass::Backward, false).through();
                }
            }
        }
        around.into_iter().map(|[before, behind]| before + behind).collect()
    }
}
