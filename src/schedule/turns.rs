//! Turns: what a schedule repeats in its steady state.
//!
//! Most schedules fill the pipeline, then do the same again and again, and drain it. The order for a turn more is
//! then the order for fewer micro-batches with the same slots put in at one place of every rank's list, for later
//! micro-batches. The peak of a rank, the kinds of slots, and all else that repeats are seen in the shortest
//! order of that kind.

use super::order::Order;
use super::slot::{Slot, SlotPass};

/// From `from` micro-batches on, `every` more are one more turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turns {
    /// Fewest micro-batches of a step that has its warm-up, a turn, and its drain.
    pub from: u32,
    /// Micro-batches of a turn.
    pub every: u32,
}

impl Turns {
    /// The fewest micro-batches whose order goes on to the order of `micro_batches` by whole turns.
    pub fn fewest(self, micro_batches: u32) -> u32 {
        match micro_batches.checked_sub(self.from) {
            Some(more) => self.from + more % self.every,
            None => micro_batches,
        }
    }
}

impl Order {
    /// True if `whole` is this order with `turns` turns put in at one place of every rank's list, each of them
    /// `micro_batches` of each direction further on than the one before.
    pub fn goes_on_by_turns(&self, whole: &Order, turns: u32, micro_batches: u32) -> bool {
        if self.placement.has_sides() || whole.placement.has_sides() {
            return false;
        }
        let numbered = |order: &Order, part: SlotPass| {
            let of_direction = order.per_direction().max(1);
            (part.pass, part.chunk, part.micro_batch / of_direction, part.micro_batch % of_direction)
        };
        // True if a slot does the work of another, for micro-batches that are `further` on.
        let same = |(x, of_x): (&Slot, &Order), (y, of_y): (&Slot, &Order), further: u32| {
            let shifted = |part| {
                let (pass, chunk, direction, number) = numbered(of_x, part);
                (pass, chunk, direction, number + further)
            };
            x.parts().map(shifted).eq(y.parts().map(|part| numbered(of_y, part)))
        };
        self.ranks.iter().zip(&whole.ranks).all(|(few, all)| {
            let Some(put_in) = all.len().checked_sub(few.len()) else { return false };
            let turn = put_in / turns as usize;
            let begun = few.iter().zip(all).take_while(|(x, y)| same((x, self), (y, whole), 0)).count();
            turn * turns as usize == put_in
                && begun >= turn
                && (begun..begun + put_in)
                    .all(|i| same((&all[i - turn], whole), (&all[i], whole), micro_batches))
                && (begun..few.len())
                    .all(|i| same((&few[i], self), (&all[i + put_in], whole), turns * micro_batches))
        })
    }
}
