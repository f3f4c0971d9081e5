//! Ops that come again.
//!
//! Where a step goes on by turns of its schedule, a shorter one is played, and one of its turns counts for all turns
//! that were left out: of each stream the ops of a turn, and a stretch of time that is as long as one. A sum over ops
//! counts these ops as often as the turn recurs, a sum over time counts the stretch as often. Both are sums of whole
//! numbers, and so equal the whole step's to the last digit.

use std::ops::Range;

use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::Program;
use stepsim_core::units::Time;

/// A turn of a run that recurs; by default none does.
#[derive(Clone, Debug, Default)]
pub struct Recurring {
    /// How many times more.
    pub more: u64,
    /// From when until when.
    pub within: (Time, Time),
    /// Its ops, by rank and stream, as a range of the stream's ops.
    pub ops: Vec<Vec<Range<u32>>>,
    /// By rank: what device memory added to kernels in it.
    pub slowed_by_memory: Vec<Time>,
}

impl Recurring {
    /// By how much it makes the step longer.
    pub fn longer(&self) -> Time {
        (self.within.1 - self.within.0) * self.more
    }
    /// When that happens in the whole step which happens at a moment of the short one.
    pub fn moment(&self, at: Time) -> Time {
        if at > self.within.1 { at + self.longer() } else { at }
    }
    /// How much of the whole step is like a stretch of the short one.
    pub fn time(&self, start: Time, end: Time) -> Time {
        let (from, until) = self.within;
        end - start + end.min(until).saturating_sub(start.max(from)) * self.more
    }
    /// How often an op of a rank of the short step comes in the whole one.
    pub fn of_rank<'a>(
        &'a self,
        rank: RankId,
        program: &'a Program,
    ) -> impl Fn(OpId) -> u64 + Copy + use<'a> {
        let streams = self.ops.get(rank.index()).map_or(&[][..], Vec::as_slice);
        move |op| {
            if streams.is_empty() {
                return 1;
            }
            let again = streams[usize::from(program.ops[op.index()].stream)].contains(&op.0);
            1 + self.more * u64::from(again)
        }
    }
    /// The time that device memory adds to kernels of a rank in the whole step, from its time in the `short` one.
    pub fn slowed(&self, rank: RankId, short: Time) -> Time {
        short + self.slowed_by_memory.get(rank.index()).copied().unwrap_or_default() * self.more
    }
}
