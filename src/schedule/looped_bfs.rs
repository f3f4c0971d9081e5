//! Looped breadth-first: all micro-batches through one chunk before the next, then back the same way.
//!
//! Bubble (p−1)(tF + tB)/v for m ≥ p; peak m·v chunks. It lets the gradients of a chunk be reduced while the next chunk
//! runs. Sources: Lamy-Poirier 2022 (arXiv 2211.05953); torch `ScheduleLoopedBFS`, which reverses the micro-batches of
//! the backward passes.

use super::order::Lister;
use super::{
    Bubble, ChunkCount, Order, Pass, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape, StagePlacement,
};

/// See the module.
pub(super) struct LoopedBfs;

impl Schedule for LoopedBfs {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            chunks: ChunkCount::AtLeast(1, 2),
            prompt: false,
            ..ScheduleFacts::new("looped-bfs", "all micro-batches through a chunk before the next")
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, v) = shape.checked(self)?;
        Ok(breadth_first(p, m, v))
    }
    fn bubble(&self, shape: &Shape, times: &PassTimes) -> Option<Bubble> {
        let v = shape.chunks_under(self);
        let full = shape.micro_batches >= shape.ranks || v == 1;
        Bubble::fill_and_drain(shape.ranks, v, times).filter(|_| full)
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        Some(vec![shape.micro_batches * u32::from(shape.chunks_under(self)); shape.ranks as usize])
    }
}

/// All micro-batches forwards through one chunk after the other, then all backwards the same way.
pub(super) fn breadth_first(p: u32, m: u32, v: u16) -> Order {
    let mut list = Lister::default();
    for chunk in 0..v {
        (0..m).for_each(|i| list.push(Pass::Forward, chunk, i));
    }
    for chunk in (0..v).rev() {
        (0..m).rev().for_each(|i| list.push(Pass::Backward, chunk, i));
    }
    Order { placement: StagePlacement::looped(p, v), micro_batches: m, ranks: vec![list.slots; p as usize] }
}
