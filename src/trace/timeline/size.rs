//! How large a timeline would be: what browsers hold is limited.

use rustc_hash::FxHashMap;

use super::critical::Path;
use super::rows::{Level, Rows};
use super::{Timeline, TracedRank};

/// Slices of a timeline that a browser opens with ease: within half a minute, in less than a gigabyte.
pub const EASY: u64 = 1_000_000;

/// Slices of a JSON timeline that Perfetto still opens in a browser: ten million events take it 2.7 of its 4 GiB, twice as
/// many fail, and arrows and counters are events too.
pub const FITS_IN_JSON: u64 = 5_000_000;
/// The same of a `.pftrace`, where a slice is two packets.
pub const FITS_IN_PERFETTO: u64 = 3_000_000;

/// Slices of a timeline: those of one rank of each program, times how many ranks run it, and the critical path.
pub fn slices(timeline: &Timeline) -> u64 {
    let mut alike: FxHashMap<u32, (&TracedRank, u64)> = FxHashMap::default();
    for traced in timeline.ranks {
        let program = timeline.world.ranks[traced.rank.index()].program;
        alike.entry(program.0).or_insert((traced, 0)).1 += 1;
    }
    let path: usize = Path::new(timeline, &mut 0).steps.iter().map(Vec::len).sum();
    path as u64 + alike.into_values().map(|(traced, ranks)| ranks * of_rank(timeline, traced)).sum::<u64>()
}

fn of_rank(timeline: &Timeline, traced: &TracedRank) -> u64 {
    let rows = Rows::new(timeline, traced);
    let passes = rows.pieces.iter().filter(|piece| piece.level == Level::Pass).count();
    let stalls = timeline.stalls.map_or(0, |stalls| {
        stalls(traced.rank).iter().filter(|stall| super::stalls::shown(timeline, stall).is_some()).count()
    });
    (rows.pieces.len() + passes + stalls) as u64
}
