//! The visits of a rank, known beforehand from its order: what is needed next, and whether it is needed again soon.
//!
//! A *visit* is one pass of one micro-batch through one unit; a recomputation and the backward pass behind it are one
//! visit. Prefetch along a recorded trace (DeepSpeed), reuse across micro-batches, and not sending away what is
//! about to be read all ask what comes next.

/// A visit to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coming {
    /// Which unit of the rank.
    pub unit: u32,
    /// Backward (or recomputation), not forward.
    pub backward: bool,
    /// The micro-batch.
    pub micro_batch: u32,
    /// The rank's next pass in this direction goes through the same chunk.
    pub again: bool,
}

/// The visits of one step in order, and how far the rank has come.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace {
    visits: Vec<Coming>,
    next: usize,
}

impl Trace {
    pub fn of(visits: Vec<Coming>) -> Trace {
        Trace { visits, next: 0 }
    }
    /// Back to the first visit: another step begins.
    pub fn rewind(&mut self) {
        self.next = 0;
    }
    /// The rank comes to a visit; those of overlapped passes may come in another order than recorded.
    pub fn reach(&mut self, unit: u32, backward: bool, micro_batch: u32) -> Option<Coming> {
        let same = |c: &Coming| c.unit == unit && c.backward == backward && c.micro_batch == micro_batch;
        let found = self.next + self.ahead().iter().position(same)?;
        self.visits[self.next..=found].rotate_right(1);
        self.next += 1;
        Some(self.visits[found.min(self.next - 1)])
    }
    /// What comes after the visit reached last.
    pub fn ahead(&self) -> &[Coming] {
        &self.visits[self.next..]
    }
}
