//! Walks that layouts share. The effect of copies, of reductions after every micro-batch, or of gathers that wait
//! for reductions, on a walk is one layout's own. Else reductions run behind the last passes and hold up none of them:
//! the walk goes by order, passes, messages and gathers alone, and reductions are laid behind its ends.

use std::sync::Arc;

use super::beside::{SideQueues, SideWork};
use super::form::StepForm;
use super::known::ClosedFormCache;
use super::pipeline::OrderWalk;
use super::residency::ResidencyDemand;
use super::walk_key::{RankEnd, WalkKey};
use stepsim_schedule::{Order, Pass, SlotPass};

impl StepForm<'_> {
    /// When the last rank is done with an order and with what is on beside it.
    pub(super) fn walked(&self, order: &Arc<Order>, held: &ResidencyDemand, on: SideWork) -> f64 {
        let walk = OrderWalk::new(self, order, held, on);
        // Where the host is late or waits for each, its launches of reductions hold up passes.
        let ahead = || (0..self.ranks.len()).all(|rank| self.host_ahead(rank));
        let launches = self.side_launches().is_some_and(|host| host.blocks || !ahead());
        let behind = || !launches && held.asked.iter().all(|asked| asked.reduces_behind());
        let alone = on.copies || on.collectives && !behind();
        if alone {
            return walk.end();
        }
        let key = WalkKey {
            order: Arc::clone(order),
            chunks: self.ranks.iter().map(|rank| rank.chunks.clone()).collect(),
            hops: walk.hops.clone(),
            gathers: if on.collectives { held.asked.clone() } else { Vec::new() },
        };
        let ends = self.parts.known.walk(key, || walk.rank_ends());
        let of_rank = |(rank, end): (usize, &RankEnd)| {
            let mut beside = SideQueues::new(self, rank, &held.asked[rank], on, 1);
            beside.go_on(end);
            for &(chunk, unit, time) in &end.complete {
                let part = SlotPass { pass: Pass::Backward, chunk: chunk as u16, micro_batch: 0 };
                beside.reduce(part, unit, time);
            }
            beside.close(end.passes)
        };
        ends.iter().enumerate().map(of_rank).fold(0.0, f64::max)
    }
}

impl ClosedFormCache {
    /// The ends of a walk, `made` unless they are known.
    pub(super) fn walk(&self, key: WalkKey, made: impl FnOnce() -> Vec<RankEnd>) -> Arc<Vec<RankEnd>> {
        let digest = super::known::digest(&key.digest());
        if let Some(known) = self.walks.borrow().get(digest, |other| key.same(other)) {
            return known;
        }
        let ends = made();
        self.walks.borrow_mut().put(digest, key, ends)
    }
}
