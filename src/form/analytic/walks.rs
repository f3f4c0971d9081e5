//! Walks that layouts share. What copies, reductions after every micro-batch, or gathers that wait for reductions do to a
//! walk is one layout's own. Else reductions run behind the last passes and hold up none of them: the walk goes by order,
//! passes, messages and gathers alone, and what is reduced is laid behind its ends.

use std::sync::Arc;

use super::beside::{Asked, Beside, On};
use super::form::Form;
use super::known::Known;
use super::pipeline::Walk;
use super::residency::Held;
use super::unit_passes::UnitPasses;
use stepsim_step::schedule::{Order, Part, Pass};

/// What a walk goes by that layouts share.
#[derive(Debug)]
pub(super) struct WalkKey {
    order: Arc<Order>,
    /// By rank, chunk and unit.
    chunks: Vec<Vec<Vec<Arc<UnitPasses>>>>,
    hops: Vec<Vec<f64>>,
    /// By rank; none where nothing is gathered.
    gathers: Vec<Arc<Asked>>,
}

/// The end of one rank's walk.
#[derive(Clone, Debug, Default)]
pub(super) struct RankEnd {
    /// When its passes are done, and its gathers.
    pub passes: f64,
    pub gathers: f64,
    /// Chunk and unit of each gradient that is complete, and when: in this order.
    pub complete: Vec<(usize, usize, f64)>,
}

impl Form<'_> {
    /// When the last rank is done with an order and with what is on beside it.
    pub(super) fn walked(&self, order: &Arc<Order>, held: &Held, on: On) -> f64 {
        let walk = Walk::new(self, order, held, on);
        let alone = on.copies || on.collectives && !held.asked.iter().all(|asked| asked.reduces_behind());
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
            let mut beside = Beside::new(self, rank, &held.asked[rank], on, 1);
            beside.go_on(end);
            for &(chunk, unit, time) in &end.complete {
                let part = Part { pass: Pass::Backward, chunk: chunk as u16, micro_batch: 0 };
                beside.reduce(part, unit, time);
            }
            beside.close(end.passes)
        };
        ends.iter().enumerate().map(of_rank).fold(0.0, f64::max)
    }
}

impl WalkKey {
    /// Numbers that usually tell walks apart.
    pub fn digest(&self) -> [u64; 4] {
        let first = self.chunks.first().and_then(|chunks| chunks.first()).and_then(|units| units.first());
        let hop = self.hops.iter().flatten().next().copied().unwrap_or_default();
        let order = Arc::as_ptr(&self.order) as usize as u64;
        let unit = first.map_or(0, |unit| Arc::as_ptr(unit) as usize as u64);
        [order, unit, hop.to_bits(), self.gathers.len() as u64]
    }
    /// Whether two walks are one.
    pub fn same(&self, other: &WalkKey) -> bool {
        let units = |key: &WalkKey| key.chunks.iter().flatten().map(Vec::len).collect::<Vec<_>>();
        let all =
            |key: &'_ WalkKey| key.chunks.iter().flatten().flatten().map(Arc::as_ptr).collect::<Vec<_>>();
        Arc::ptr_eq(&self.order, &other.order)
            && self.hops == other.hops
            && self.gathers.len() == other.gathers.len()
            && self.gathers.iter().zip(&other.gathers).all(|(a, b)| Arc::ptr_eq(a, b) || a.gathers_as(b))
            && units(self) == units(other)
            && all(self) == all(other)
    }
}

impl Known {
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
