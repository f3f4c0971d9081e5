//! How large a timeline would be: what browsers hold is limited.

use rustc_hash::FxHashMap;

use super::critical::{pieces, stretches};
use super::rows::{Pairs, RankRows};
use super::shown::{Detail, Timeline, TracedRank};

/// Slices of a timeline that a browser opens with ease. Of the shipped workloads `gpt3-175b` comes closest (0.44
/// million slices, 63 MB of `.pftrace`): Perfetto's trace processor reads it in 5 s. `megatron-1t` (1.3 million at the
/// coarsest, 176 MB) takes 8 s and 0.7 GB, 1.0 GB as JSON; in headless Chromium on two busy cores (load 10) it was
/// there after 28 to 32 s.
pub const EASY: u64 = 500_000;

/// Slices of a JSON timeline that Perfetto still opens in a browser: ten million events take it 2.7 of its 4 GiB,
/// twice as many fail, and arrows and counters are events too.
pub const FITS_IN_JSON: u64 = 5_000_000;
/// The same of a `.pftrace`, where a slice is two packets.
pub const FITS_IN_PERFETTO: u64 = 3_000_000;

/// Slices of a timeline: one rank's of each program, times the number of ranks that run it, and the critical path.
pub fn slices(timeline: &Timeline) -> u64 {
    of_ranks(timeline, &|traced| of_rank(timeline, traced))
}

/// At least as many as [`slices`], at this detail and coarser ones.
pub fn most(timeline: &Timeline) -> u64 {
    of_ranks(timeline, &|traced| {
        let stalls = timeline.stalls.map_or(0, |stalls| stalls(traced.rank).len() as u64);
        RankRows::most(timeline, traced) + stalls + stalls / super::stalls::LEAST
    })
}

fn of_ranks(timeline: &Timeline, of_rank: &dyn Fn(&TracedRank) -> u64) -> u64 {
    let mut alike: FxHashMap<u32, (&TracedRank, u64)> = FxHashMap::default();
    for traced in timeline.ranks {
        let program = timeline.world.ranks[traced.rank.index()].program;
        alike.entry(program.0).or_insert((traced, 0)).1 += 1;
    }
    let path = pieces(timeline).len();
    let whole = stretches(timeline);
    let stays = whole.chunk_by(|a, b| a.rank == b.rank).count();
    (path + stays + whole.len()) as u64
        + alike.into_values().map(|(traced, ranks)| ranks * of_rank(traced)).sum::<u64>()
}

fn of_rank(timeline: &Timeline, traced: &TracedRank) -> u64 {
    if timeline.detail == Detail::Pass {
        let stalls =
            timeline.stalls.map_or(0, |stalls| stalls(traced.rank).chunk_by(|a, b| a.end == b.start).count());
        return (RankRows::new(timeline, traced, Pairs::Apart).turns.len() + stalls) as u64;
    }
    let rows = RankRows::count(timeline, traced, Pairs::Apart);
    let stalls = timeline.stalls.map_or(0, |stalls| {
        let stalls = stalls(traced.rank);
        let stretches = super::stalls::stretches(timeline, &stalls).len();
        stretches + stalls.iter().filter(|stall| super::stalls::shown(timeline, stall).is_some()).count()
    });
    (rows + stalls) as u64
}
