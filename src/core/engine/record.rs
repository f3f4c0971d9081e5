//! The record: for each op of each rank, when it started and when it ended. All else is derived by readers.
//!
//! The last wait of an op follows from the program: it is the latest end among its predecessor on the stream and its
//! waits; for communication, the latest such moment among the members; and a start later than that is a wait for
//! memory. The time that contention added follows from the action's time on idle resources.

use crate::ids::{OpId, RankId};
use crate::program::World;
use crate::units::Time;

/// The outcome of a run, 16 bytes an op execution.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// `first[rank]` is where the rank's ops begin in `spans`; one entry more than ranks.
    pub first: Vec<u64>,
    /// Start and end of each op. A kernel starts when it begins, a communication when its last member arrives.
    pub spans: Vec<(Time, Time)>,
    /// When the last op ended.
    pub step_end: Time,
    /// Completions that the event loop handled.
    pub events: u64,
    /// How often rates were computed anew.
    pub reshares: u64,
    /// By rank: how much longer its kernels took because device memory gave them less than they use; empty if it gave
    /// all of them enough.
    pub slowed_by_memory: Vec<Time>,
}

impl Record {
    /// Spans of the right number for a world, all zero.
    pub fn for_world(world: &World) -> Record {
        let mut first = Vec::with_capacity(world.ranks.len() + 1);
        let mut total = 0u64;
        for rank in &world.ranks {
            first.push(total);
            total += world.programs[rank.program.index()].ops.len() as u64;
        }
        first.push(total);
        // Numbers first, because the allocator hands out zeroed pages for them; naming them times costs nothing.
        let zeros = vec![(0u64, 0u64); total as usize];
        let spans = zeros.into_iter().map(|(start, end)| (Time(start), Time(end))).collect();
        Record { first, spans, ..Record::default() }
    }
    /// Adds the totals of the run whose ops it holds.
    pub fn complete(&mut self, stats: super::Stats) {
        self.step_end = stats.step_end;
        self.events = stats.events;
        self.reshares = stats.reshares;
    }
    /// Ends the record of a run that failed: ops that had not ended by then start and end at that moment.
    pub fn stop(&mut self, at: Time) {
        self.step_end = at;
        let under_way = |span: &&mut (Time, Time)| span.1 == Time::ZERO || span.1 > at;
        self.spans.iter_mut().filter(under_way).for_each(|span| *span = (at, at));
    }
    /// Start and end of one op of one rank.
    #[inline]
    pub fn span(&self, rank: RankId, op: OpId) -> (Time, Time) {
        self.spans[self.first[rank.index()] as usize + op.index()]
    }
    /// Number of ranks.
    pub fn ranks(&self) -> u32 {
        (self.first.len() - 1) as u32
    }
}

impl super::Observer for Record {
    #[inline]
    fn finished(&mut self, rank: u32, op: u32, start: Time, end: Time) {
        self.spans[self.first[rank as usize] as usize + op as usize] = (start, end);
    }
    fn slowed_by_memory(&mut self, rank: u32, by: Time) {
        self.slowed_by_memory.resize(self.first.len() - 1, Time::ZERO);
        self.slowed_by_memory[rank as usize] = by;
    }
}
