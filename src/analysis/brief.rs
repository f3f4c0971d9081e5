//! What a row of a study needs of a run: the sums alone, none of a report's lists. Figures equal the report's.

use std::collections::BTreeMap;

use super::cause::Causes;
use super::idle::IdleTimes;
use super::kind::OpKind;
use super::{memory, overlap, stalls};
use crate::engine::Record;
use crate::ids::RankId;
use crate::program::World;
use crate::units::PS_PER_S;

/// Seconds of a mean rank that stood still for communication, by its kind: the report's `exposed_s`. `weights` are the ranks
/// that each simulated one stands for.
pub fn exposed(
    world: &World,
    record: &Record,
    idle: &mut IdleTimes,
    weights: &[u64],
) -> BTreeMap<OpKind, f64> {
    let mut causes = Causes::new(world, record);
    let (mut times, mut ops) = ([0u128; OpKind::ALL.len()], [0u64; OpKind::ALL.len()]);
    let mut pieces = Vec::new();
    for (rank, weight) in weights.iter().enumerate() {
        let rank = RankId(rank as u32);
        pieces.clear();
        stalls::stalls_of(&mut causes, idle, rank, &mut pieces);
        for (kind, found) in overlap::overlap(&causes, rank, &pieces).iter().enumerate() {
            times[kind] += u128::from(*weight) * u128::from(found.exposed.0);
            ops[kind] += found.ops;
        }
    }
    let all: f64 = weights.iter().map(|weight| *weight as f64).sum();
    let seconds = |kind: OpKind| times[kind as usize] as f64 / all / PS_PER_S;
    OpKind::ALL.into_iter().filter(|k| ops[*k as usize] > 0).map(|k| (k, seconds(k))).collect()
}

/// The highest level of the fullest tier of a name: the report's `peak_bytes`; `None` where the machine has none.
pub fn peak_bytes(world: &World, record: &Record, tier: &str) -> Option<u64> {
    let causes = Causes::new(world, record);
    let peaks = memory::peaks(&causes);
    let named = world.tiers.iter().zip(peaks).filter(|(of, _)| of.name == tier);
    named.map(|(_, peak)| peak.bytes.0).max()
}
