//! Runs of several steps: how long each took.

use stepsim_core::engine::Record;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::World;
use stepsim_core::units::Time;

/// How long each round of the programs (each step of the run) took: from the end of the one before, on the last rank,
/// to its own end there. They sum to the time of the run. One for a world without rounds.
pub fn round_times(world: &World, record: &Record) -> Vec<Time> {
    let mut ends: Vec<Time> = Vec::new();
    for rank in (0..record.ranks()).map(RankId) {
        let mut first = 0;
        for (round, &until) in world.program_of(rank).rounds.iter().enumerate() {
            let end = (first..until).map(|op| record.span(rank, OpId(op)).1).max().unwrap_or_default();
            if round == ends.len() {
                ends.push(Time::ZERO);
            }
            ends[round] = ends[round].max(end);
            first = until;
        }
    }
    match ends.last_mut() {
        Some(last) => *last = record.step_end,
        None => ends.push(record.step_end),
    }
    let starts = std::iter::once(Time::ZERO).chain(ends.iter().copied());
    ends.iter().zip(starts).map(|(end, start)| end.saturating_sub(start)).collect()
}
