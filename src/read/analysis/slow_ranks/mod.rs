//! Ranks whose kernels take longer than their device needs: stragglers.

mod reading;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use reading::SlowOnes;
use stepsim_core::program::{Rank, World};

/// Stretches of numbers that are told one by one.
const TOLD: usize = 3;

/// Ranks that are slow by the same factor, to two digits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlowRanks {
    /// In words: `ranks 0–3 (×2.85)`.
    pub name: String,
    /// Their numbers.
    pub ranks: Vec<u32>,
    /// Factor on the time of their kernels, of the slowest.
    pub slowness: f64,
}

/// The slow ranks of a world, slowest first; `members` are the ranks of the job that each of its ranks stands for.
pub(crate) fn slow_ranks<'m>(world: &World, members: impl Iterator<Item = &'m [u32]>) -> Vec<SlowRanks> {
    let slow =
        world.ranks.iter().zip(members).filter_map(|(rank, members)| Some((rank, rank.slow()?, members)));
    let mut slow: Vec<(&Rank, String, &[u32])> = slow.collect();
    slow.sort_by(|a, b| b.0.slowness.total_cmp(&a.0.slowness));
    let group = |alike: &[(&Rank, String, &[u32])]| {
        let mut ranks: Vec<u32> = alike.iter().flat_map(|(_, _, members)| members.iter().copied()).collect();
        ranks.sort_unstable();
        let (slowest, factor, _) = &alike[0];
        SlowRanks { name: format!("{} ({factor})", in_words(&ranks)), ranks, slowness: slowest.slowness }
    };
    slow.chunk_by(|a, b| a.1 == b.1).map(group).collect()
}

/// Numbers in ascending order as people say them.
pub fn in_words(ranks: &[u32]) -> String {
    let stretches: Vec<&[u32]> = ranks.chunk_by(|a, b| a + 1 == *b).collect();
    let told = stretches.iter().take(TOLD).map(|s| match s {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}–{last}"),
        [] => String::new(),
    });
    let told = told.collect::<Vec<_>>().join(", ");
    let left: usize = stretches.iter().skip(TOLD).map(|s| s.len()).sum();
    let more = if left > 0 { format!(" and {left} more") } else { String::new() };
    format!("rank{} {told}{more}", if ranks.len() == 1 { "" } else { "s" })
}
