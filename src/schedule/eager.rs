//! Eager 1F1B: 1F1B with twice the warm-up, so that transfers have a slot's time to hide.
//!
//! Rank r warms up with min(m, 2(p−1−r)) forwards. Bubble (p−1)(tF + tB) as 1F1B; peak min(m, 2(p−1−r)+1); with a
//! transfer time c only 2(p−1)c more, as GPipe. Source: the overlap-friendly schedule of Alpa (arXiv 2211.05322).

use super::one_f_one_b::in_turn;
use super::{Bubble, Order, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape, Turns};

/// See the module.
pub(super) struct Eager;

impl Schedule for Eager {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts::new("eager-1f1b", "1F1B with twice the warm-up, to hide transfers")
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        Ok(in_turn(p, m, |r| 2 * (p - 1 - r)))
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        Some(Turns { from: 2 * shape.ranks - 1, every: 1 })
    }
    fn bubble(&self, shape: &Shape, times: &PassTimes) -> Option<Bubble> {
        Bubble::fill_and_drain(shape.ranks, 1, times)
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        Some((0..shape.ranks).map(|r| shape.micro_batches.min(2 * (shape.ranks - 1 - r) + 1)).collect())
    }
}
