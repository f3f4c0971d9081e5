//! Interleaved 1F1B in torch's order: the micro-batches are cut into as many rounds as whole pipelines fit.
//!
//! As Megatron's order with groups of G = m / max(1, m div p); the rounds must divide m. Source: torch
//! `ScheduleInterleaved1F1B`.

use super::interleaved::{interleaved, peak};
use super::{Bubble, ChunkCount, Order, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape, Turns};

/// See the module.
pub(super) struct InterleavedTorch;

/// Rounds of micro-batches.
fn rounds(p: u32, m: u32) -> u32 {
    (m / p).max(1)
}

impl Schedule for InterleavedTorch {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            chunks: ChunkCount::AtLeast(2, 2),
            needs: "micro-batches a multiple of their rounds through the stages",
            ..ScheduleFacts::new("interleaved-torch", "1F1B with several chunks per rank (torch's order)")
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, v) = shape.checked(self)?;
        let n = rounds(p, m);
        if !m.is_multiple_of(n) {
            let runs = |m: &u32| m.is_multiple_of(rounds(p, *m));
            let below = (1..m).rev().find(runs).unwrap_or(p);
            let above = (m..).find(runs).unwrap_or(p);
            let problem = format!("{m} micro-batches are no multiple of their {n} rounds through {p} stages");
            let remedy = format!("{below} or {above} micro-batches would run");
            return Err(ScheduleError::new(self, problem, remedy));
        }
        Ok(interleaved(p, m, v, m / n))
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        let p = shape.ranks;
        // Other numbers of micro-batches have rounds of other lengths.
        shape.micro_batches.is_multiple_of(p).then_some(Turns { from: 4 * p, every: p })
    }
    fn bubble(&self, shape: &Shape, times: &PassTimes) -> Option<Bubble> {
        let whole = shape.micro_batches.is_multiple_of(shape.ranks);
        Bubble::fill_and_drain(shape.ranks, shape.chunks_under(self), times).filter(|_| whole)
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        let (p, m) = (shape.ranks, shape.micro_batches);
        Some(peak(p, m, shape.chunks_under(self), m / rounds(p, m)))
    }
}
