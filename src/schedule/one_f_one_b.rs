//! 1F1B (PipeDream-flush): a few forwards, then one forward and one backward in turn, then the backwards left over.
//!
//! Rank r warms up with min(m, p−1−r) forwards. Bubble (p−1)(tF + tB); peak min(m, p−r). Sources: Narayanan et al. 2021
//! (arXiv 2104.04473); Megatron-LM `forward_backward_pipelining_without_interleaving`.
//!
//! Hazard: each transfer of the steady state lies on the critical path. With a transfer time c and p | m the step
//! takes (m+p−1)(tF + tB) + c[2(p−1)m/p + 2(p−2)], not the 2(p−1)c more of GPipe.

use super::order::Lister;
use super::{
    Bubble, Order, Pass, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape, StagePlacement, Turns,
};

/// See the page of its file.
pub struct OneFOneB;

impl Schedule for OneFOneB {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            aliases: &["pipedream-flush"],
            ..ScheduleFacts::new("1f1b", "one forward, one backward in turn")
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        Ok(in_turn(p, m, |r| p - 1 - r))
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        Some(Turns { from: shape.ranks, every: 1 })
    }
    fn bubble(&self, shape: &Shape, times: &PassTimes) -> Option<Bubble> {
        Bubble::fill_and_drain(shape.ranks, 1, times)
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        Some((0..shape.ranks).map(|r| shape.micro_batches.min(shape.ranks - r)).collect())
    }
}

/// One forward and one backward in turn after `warm_up(rank)` forwards (m at most).
pub(super) fn in_turn(p: u32, m: u32, warm_up: impl Fn(u32) -> u32) -> Order {
    let rank = |r: u32| {
        let w = warm_up(r).min(m);
        let mut list = Lister::default();
        (0..w).for_each(|i| list.push(Pass::Forward, 0, i));
        for k in 0..m - w {
            list.push(Pass::Forward, 0, w + k);
            list.push(Pass::Backward, 0, k);
        }
        (m - w..m).for_each(|i| list.push(Pass::Backward, 0, i));
        list.slots
    };
    Order { placement: StagePlacement::looped(p, 1), micro_batches: m, ranks: (0..p).map(rank).collect() }
}
