//! The visits of a rank: those to come, known beforehand from its order, and those that have been.
//!
//! A *visit* is one pass of one micro-batch through one unit; a recomputation and the backward pass behind it are one
//! visit. Prefetch along a recorded trace (DeepSpeed), reuse across micro-batches, and keeping bytes that are about to
//! be read all ask for the visits to come; gates of copies and gathers ask where the rank was a number of visits ago.

use crate::step::chain::Visit;
use stepsim_core::ids::OpId;
use stepsim_schedule::Pass;

/// A visit to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::step) struct PlannedVisit {
    /// The unit, by its number on the rank.
    pub unit: u32,
    /// Backward (or recomputation), not forward.
    pub backward: bool,
    /// The micro-batch.
    pub micro_batch: u32,
    /// The rank's next pass in this direction goes through the same chunk.
    pub again: bool,
}

/// A visit that has begun.
#[derive(Clone, Debug)]
pub(in crate::step) struct VisitRecord {
    /// Its last kernel, once pushed.
    pub end: OpId,
    /// Bytes that were brought in for it.
    pub bytes: u64,
    /// Its gradient's reductions, where they follow the visit.
    pub reduce: Vec<OpId>,
    /// Backward (or recomputation), not forward.
    pub backward: bool,
    /// The micro-batch.
    pub micro_batch: u32,
    /// The rank's next pass in this direction goes through the same chunk.
    pub again: bool,
}

/// All visits of a rank.
#[derive(Clone, Debug, Default)]
pub(in crate::step) struct RankVisits {
    /// The visits of one step in order; the first `next` of them have been.
    of_step: Vec<PlannedVisit>,
    next: usize,
    /// Visits that have begun, in order, over all steps.
    begun: Vec<VisitRecord>,
    /// The first visit of the pass under way, or of the run in its direction and micro-batch.
    run_start: usize,
    /// By unit and direction: the record of the visit under way. Forward and backward of one unit may be under way at
    /// once (overlapped passes).
    present: Vec<Option<u32>>,
    /// By unit: the record of its last visit.
    last: Vec<Option<u32>>,
    /// By unit: how many backward visits of the step are to come.
    backward_left: Vec<u32>,
}

impl RankVisits {
    /// A rank of `units` units whose every step makes these visits.
    pub fn new(units: usize, of_step: Vec<PlannedVisit>) -> RankVisits {
        RankVisits {
            of_step,
            present: vec![None; 2 * units],
            last: vec![None; units],
            ..RankVisits::default()
        }
    }
    /// Another step begins, with these numbers of backward visits by unit.
    pub fn begin_step(&mut self, backward: Vec<u32>) {
        self.next = 0;
        self.backward_left = backward;
    }

    /// True if a visit is under way already: bytes that a recomputation brought in stay for the backward visit behind
    /// it.
    pub fn is_present(&self, visit: Visit) -> bool {
        self.present[place(visit)].is_some()
    }
    /// The rank comes to a visit; visits of overlapped passes may come in another order than foreseen.
    pub fn reach(&mut self, visit: Visit) -> Option<PlannedVisit> {
        let backward = visit.pass != Pass::Forward;
        if self.begun.last().is_none_or(|v| v.backward != backward || v.micro_batch != visit.micro_batch) {
            self.run_start = self.begun.len();
        }
        let same = |c: &PlannedVisit| {
            c.unit == visit.unit && c.backward == backward && c.micro_batch == visit.micro_batch
        };
        let found = self.next + self.ahead().iter().position(same)?;
        self.of_step[self.next..=found].rotate_right(1);
        self.next += 1;
        Some(self.of_step[self.next - 1])
    }
    /// Everything is there for the visit reached last: `bytes` were brought in, `newest` is the op pushed last.
    pub fn begin(&mut self, visit: Visit, coming: Option<PlannedVisit>, bytes: u64, newest: OpId) {
        self.present[place(visit)] = Some(self.begun.len() as u32);
        self.begun.push(VisitRecord {
            end: newest,
            bytes,
            reduce: Vec::new(),
            backward: visit.pass != Pass::Forward,
            micro_batch: visit.micro_batch,
            again: coming.is_some_and(|c| c.again),
        });
    }
    /// A visit is over; false if it was not under way.
    pub fn end(&mut self, visit: Visit, end: OpId) -> bool {
        let Some(record) = self.present[place(visit)].take() else { return false };
        self.begun[record as usize].end = end;
        self.last[visit.unit as usize] = Some(record);
        if visit.pass != Pass::Forward {
            self.pass_over(visit.unit);
        }
        true
    }
    /// A backward visit of a unit does not take place.
    pub fn pass_over(&mut self, unit: u32) {
        self.backward_left[unit as usize] -= 1;
    }

    /// The visits after the one reached last.
    pub fn ahead(&self) -> &[PlannedVisit] {
        &self.of_step[self.next..]
    }
    /// Visits that have begun, in order.
    pub fn begun(&self) -> &[VisitRecord] {
        &self.begun
    }
    /// The first of the visits of the pass under way, as an index into `begun`.
    pub fn run_start(&self) -> usize {
        self.run_start
    }
    /// The last visit of a unit that is over.
    pub fn last_of(&self, unit: u32) -> Option<&VisitRecord> {
        self.last[unit as usize].and_then(|record| self.begun.get(record as usize))
    }
    /// The gradient of a unit's last visit is reduced by these ops.
    pub fn reduced(&mut self, unit: u32, ops: &[OpId]) {
        if let Some(record) = self.last[unit as usize] {
            self.begun[record as usize].reduce = ops.to_vec();
        }
    }
    /// Backward visits of a unit that are to come in this step.
    pub fn backward_left(&self, unit: u32) -> u32 {
        self.backward_left[unit as usize]
    }
}

fn place(visit: Visit) -> usize {
    2 * visit.unit as usize + usize::from(visit.pass != Pass::Forward)
}
