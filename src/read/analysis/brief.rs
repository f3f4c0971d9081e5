//! What a row of a study needs of a run: the sums alone, none of a report's lists. Figures equal the report's.

use std::collections::BTreeMap;

use super::cause::Causes;
use super::idle::IdleTimes;
use super::kind::OpKind;
use super::overlap::exposes;
use super::{memory, stalls};
use crate::core::engine::Record;
use crate::core::ids::RankId;
use crate::core::program::World;
use crate::core::units::{PS_PER_S, Time};

/// A stretch of time that comes so many times more than it was played.
pub type Section = ((Time, Time), u64);

/// Seconds of a mean rank that stood still for communication, by its kind: the report's `exposed_s`. `weights` are the ranks
/// that each simulated one stands for; what lies in a section counts so many times more.
pub fn exposed(
    world: &World,
    record: &Record,
    idle: &mut IdleTimes,
    weights: &[u64],
    section: Option<Section>,
) -> BTreeMap<OpKind, f64> {
    let mut causes = Causes::new(world, record);
    let (mut times, mut occurs) = ([0u128; OpKind::ALL.len()], [false; OpKind::ALL.len()]);
    let mut pieces = Vec::new();
    for (rank, weight) in weights.iter().enumerate() {
        let rank = RankId(rank as u32);
        pieces.clear();
        stalls::stalls_of(&mut causes, idle, rank, &mut pieces);
        for stall in &pieces {
            let Some(kind) = exposes(&causes, stall) else { continue };
            let again = section.map_or(0, |((from, until), more)| {
                u128::from(stall.end.min(until).saturating_sub(stall.start.max(from)).0) * u128::from(more)
            });
            times[kind as usize] += u128::from(*weight) * (u128::from(stall.time().0) + again);
        }
        let index = causes.index_of(rank);
        index.by_slot.iter().flatten().for_each(|op| occurs[index.kinds[op.index()] as usize] = true);
    }
    let all: f64 = weights.iter().map(|weight| *weight as f64).sum();
    let seconds = |kind: OpKind| times[kind as usize] as f64 / all / PS_PER_S;
    OpKind::ALL.into_iter().filter(|k| occurs[*k as usize]).map(|k| (k, seconds(k))).collect()
}

/// The highest level of the fullest tier of a name: the report's `peak_bytes`; `None` where the machine has none.
pub fn peak_bytes(world: &World, record: &Record, tier: &str) -> Option<u64> {
    let causes = Causes::new(world, record);
    let peaks = memory::peaks(&causes);
    let named = world.tiers.iter().zip(peaks).filter(|(of, _)| *of.name == *tier);
    named.map(|(_, peak)| peak.bytes.0).max()
}
