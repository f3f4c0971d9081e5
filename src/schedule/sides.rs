//! Passes of an encoder in the bubbles of a pipeline: every rank holds it as one more chunk, its *side*, and encodes
//! some of the micro-batches, in front of its first forward pass and behind its last backward pass.
//!
//! Rank p of the model waits p forward passes for its first micro-batch, and p backward passes for the others at the
//! end. A micro-batch goes to the rank that would be done first with all that it has, counted from the moment at
//! which the model wants it: with c the time of one encoder pass in forward passes of a stage, rank p with n of them
//! is done at n·c − p. The first stage begins when the fullest is: c·m spread over p ranks, less p(p−1)/2 forward
//! passes of waiting, at best. Backward the same.
//!
//! Source: Optimus (arXiv 2408.03505), which also fills the shorter waits inside passes; that is not done here.

use super::{Order, Pass, Slot, SlotPass};

/// The rank that encodes each micro-batch; one encoder pass takes `cost` forward passes of a stage.
fn owners(ranks: u32, micro_batches: u32, cost: f64) -> Vec<u32> {
    let mut done: Vec<f64> = (0..ranks).map(|rank| -f64::from(rank)).collect();
    let next = |done: &mut Vec<f64>| {
        let first = (0..done.len()).fold(0, |best, rank| if done[rank] < done[best] { rank } else { best });
        done[first] += cost;
        first as u32
    };
    (0..micro_batches).map(|_| next(&mut done)).collect()
}

impl Order {
    /// The same with an encoder beside every rank; one of its passes takes `cost` forward passes of a stage;
    /// `backward` tells whether it has backward passes.
    #[must_use]
    pub fn with_sides(self, cost: f64, backward: bool) -> Order {
        let owners = owners(self.placement.ranks(), self.micro_batches, cost);
        let placement = self.placement.with_sides(owners.clone(), backward);
        let side_slots = |rank: u32, pass: Pass| {
            let chunk = placement.chunks(rank) - 1;
            let own = owners.iter().enumerate().filter(move |(_, owner)| **owner == rank);
            own.map(move |(i, _)| Slot::Single(SlotPass { pass, chunk, micro_batch: i as u32 }))
        };
        let ranks = (0..).zip(&self.ranks).map(|(rank, slots)| {
            let behind = side_slots(rank, Pass::Backward).filter(|_| backward);
            side_slots(rank, Pass::Forward).chain(slots.iter().copied()).chain(behind).collect()
        });
        let ranks = ranks.collect();
        Order { placement, micro_batches: self.micro_batches, ranks }
    }
}
