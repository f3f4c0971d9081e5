//! Orders: the list of slots of every rank.

use super::StagePlacement;
use super::slot::{Pass, Slot, SlotPass};

/// The order of every rank, and where the stages sit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// Where the stages sit.
    pub placement: StagePlacement,
    /// Micro-batches of all directions together; direction d has the d-th of equal parts of 0..m.
    pub micro_batches: u32,
    /// The slots of each rank.
    pub ranks: Vec<Vec<Slot>>,
}

impl Order {
    /// Live micro-batch chunks at the worst moment on each rank: one more from the start of a forward pass, one less
    /// from the end of the backward pass or weight gradient.
    pub fn peak(&self) -> Vec<u32> {
        (0..self.placement.ranks()).map(|rank| self.most_held(rank, |_| 1) as u32).collect()
    }

    /// The most that a rank holds at once, if a micro-batch holds `of(chunk)` while it is live in a chunk.
    pub fn most_held(&self, rank: u32, of: impl Fn(u16) -> u64) -> u64 {
        let (mut held, mut most) = (0u64, 0u64);
        for slot in &self.ranks[rank as usize] {
            let sum = |is: fn(Pass) -> bool| -> u64 {
                slot.parts().filter(|part| is(part.pass)).map(|part| of(part.chunk)).sum()
            };
            held += sum(|pass| pass == Pass::Forward);
            most = most.max(held);
            held = held.saturating_sub(sum(|pass| matches!(pass, Pass::Backward | Pass::WeightGrad)));
        }
        most
    }

    /// True if each rank has several chunks and its backward passes are whole: then forward and backward passes take
    /// turns chunk by chunk.
    pub fn alternates(&self) -> bool {
        let whole =
            |slot: &Slot| matches!(slot, Slot::Single(SlotPass { pass: Pass::Forward | Pass::Backward, .. }));
        self.placement.chunks(0) > 1 && !self.placement.has_sides() && self.ranks.iter().flatten().all(whole)
    }

    /// True if every backward pass is cut into its two gradients.
    pub fn splits(&self) -> bool {
        let whole = |part: SlotPass| part.pass == Pass::Backward;
        !self.ranks.iter().flatten().flat_map(Slot::parts).any(whole)
    }

    /// Micro-batches of each direction.
    pub fn per_direction(&self) -> u32 {
        self.micro_batches / u32::from(self.placement.directions())
    }
}

/// Writes a rank's list: what schedules build their orders with.
#[derive(Debug, Default)]
pub(super) struct Lister {
    /// The list so far.
    pub slots: Vec<Slot>,
}

impl Lister {
    /// Appends one pass.
    pub fn push(&mut self, pass: Pass, chunk: u16, micro_batch: u32) {
        self.slots.push(Slot::Single(SlotPass { pass, chunk, micro_batch }));
    }
}
