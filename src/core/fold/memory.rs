//! Ranks that may compete for a tier.
//!
//! Admission to a full tier is decided rank by rank, so ranks that share a tier which can fill up must not merge with
//! each other. They are told apart by their place, in order of ids, among the users of that tier: the first users of
//! all hosts may still merge, and so may the second ones.
//!
//! A bound from above decides that a tier cannot fill up. On one stream, the sum taken less the sum given back is
//! largest at some op; the level of a tier is at most the resident bytes plus the sum of these maxima over the streams
//! of all its users. The bound is far from tight where one stream allocates what another frees.

use super::transfers::numbered;
use crate::ids::RankId;
use crate::program::{MemoryWhen, Program, World};

/// For every rank a number; ranks of different numbers must not merge. `needs` belong to programs.
pub(super) fn turns(world: &World, needs: &[Vec<Need>]) -> Vec<u32> {
    let need = |rank: u32, number: usize| {
        needs[world.ranks[rank as usize].program.index()].get(number).copied().unwrap_or_default()
    };
    let mut demand = vec![Need::default(); world.tiers.len()];
    for_each_use(world, |rank, number, tier, count| {
        let need = need(rank, number);
        demand[tier].most += need.most * u128::from(count);
        demand[tier].takes |= need.takes;
    });
    let may_fill =
        |tier: usize| demand[tier].takes && demand[tier].most > u128::from(world.tiers[tier].capacity.0);
    if !(0..world.tiers.len()).any(may_fill) {
        return vec![0; world.ranks.len()];
    }
    let mut users = vec![0u32; world.tiers.len()];
    let mut last = vec![u32::MAX; world.tiers.len()];
    let mut places: Vec<Vec<u32>> = vec![Vec::new(); world.ranks.len()];
    for_each_use(world, |rank, _, tier, _| {
        if may_fill(tier) {
            if last[tier] != rank {
                last[tier] = rank;
                users[tier] += 1;
            }
            places[rank as usize].push(users[tier]);
        }
    });
    numbered(places.iter()).0
}

/// Calls `visit(rank, tier number, tier, count)` for every use of a tier, rank by rank.
pub(super) fn for_each_use(world: &World, mut visit: impl FnMut(u32, usize, usize, u32)) {
    for rank in 0..world.ranks.len() as u32 {
        for (number, bound) in world.tiers_of(RankId(rank)).iter().enumerate() {
            if bound.tier.index() < world.tiers.len() {
                visit(rank, number, bound.tier.index(), bound.count);
            }
        }
    }
}

/// The demand of one rank on one of its tiers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Need {
    /// No more bytes than this at any moment.
    most: u128,
    /// True if an op allocates: without that, nothing ever waits.
    takes: bool,
}

/// By slot, whether an op of a program uses it; slots behind the last one used are not listed. And the needs of the
/// program by tier number.
pub(super) fn needs(program: &Program) -> (Vec<bool>, Vec<Need>) {
    let numbers =
        program.memory.iter().chain(&program.resident).map(|e| e.tier as usize + 1).max().unwrap_or(0);
    let mut needs = vec![Need::default(); numbers];
    for effect in &program.resident {
        needs[effect.tier as usize].most += u128::from(effect.bytes);
    }
    // By stream and tier, the level so far and the highest.
    let mut levels = vec![[0i128; 2]; program.streams.len() * numbers];
    let mut used = Vec::new();
    for op in &program.ops {
        op.note_slot(&mut used);
        for effect in &program.memory[op.memory.range()] {
            let (tier, bytes) = (effect.tier as usize, i128::from(effect.bytes));
            let takes = effect.when == MemoryWhen::AllocAtStart;
            // An op on no stream is refused before it is played.
            let Some([level, most]) = levels.get_mut(usize::from(op.stream) * numbers + tier) else {
                continue;
            };
            *level += if takes { bytes } else { -bytes };
            *most = (*most).max(*level);
            needs[tier].takes |= takes;
        }
    }
    for (at, [_, most]) in levels.into_iter().enumerate() {
        needs[at % numbers].most += most as u128;
    }
    (used, needs)
}
