//! GPipe: all forwards, then all backwards in reverse order.
//!
//! Bubble (p−1)(tF + tB), peak m micro-batches on every rank. Source: Huang et al. 2019 (arXiv 1811.06965); the order
//! of torch's `ScheduleGPipe` with the backward passes reversed.

use super::looped_bfs::breadth_first;
use super::{Bubble, Order, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape};

/// See the module.
pub(super) struct GPipe;

impl Schedule for GPipe {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts::new("gpipe", "all forwards, then all backwards")
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        Ok(breadth_first(p, m, 1))
    }
    fn bubble(&self, shape: &Shape, times: &PassTimes) -> Option<Bubble> {
        Bubble::fill_and_drain(shape.ranks, 1, times)
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        Some(vec![shape.micro_batches; shape.ranks as usize])
    }
}
