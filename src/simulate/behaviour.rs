//! The ranks that are drawn: one of each set that did the same at the same times.
//!
//! Ranks behave alike if they run one program and all of their ops began and ended at the same times, in the run as it
//! was played: folded or not, and whether they were folded together or not, the answer is the same. Where noise makes
//! every rank different there are too many to look at; then the first of each stage is drawn, and of the whole job the
//! rank that computes longest and the one that waits longest.

use std::collections::BTreeMap;
use std::hash::Hasher;

use rustc_hash::{FxHashMap, FxHasher};

use super::Simulation;
use stepsim_core::ids::RankId;
use stepsim_core::program::StreamKind;
use stepsim_core::units::Time;

/// Most ranks that are drawn unasked, where there are not more stages.
const MOST: usize = 16;

/// A rank that is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawnRank {
    /// The rank, the lowest of those that behave like it.
    pub rank: RankId,
    /// How many others behave like it; 0 where that was not asked.
    pub like_it: u32,
}

impl DrawnRank {
    /// Ranks that were asked for one by one.
    pub fn asked(ranks: impl IntoIterator<Item = RankId>) -> Vec<DrawnRank> {
        ranks.into_iter().map(|rank| DrawnRank { rank, like_it: 0 }).collect()
    }

    /// Its name: `rank 00 ×2.85 · stage 0 · tp 0 dp 0 · 4 alike`.
    pub fn name(self, run: &Simulation) -> String {
        let name = run.plan.rank_name(self.rank);
        match self.like_it {
            0 => name,
            others => format!("{name} · {} alike", others + 1),
        }
    }
}

/// The behaviour of a rank: its program, and a number for its times.
type Behaviour = (u32, u64);

/// The ranks that are drawn unasked.
pub fn drawn(run: &Simulation) -> Vec<DrawnRank> {
    let all = alike(run);
    let stages = all.iter().map(|drawn| run.plan.stage(drawn.rank)).max().unwrap_or(0) as usize + 1;
    if all.len() > MOST.max(stages) { few(run, &all) } else { all }
}

/// One rank of each behaviour.
pub fn alike(run: &Simulation) -> Vec<DrawnRank> {
    let world = &run.plan.world;
    let mut known: FxHashMap<RankId, u64> = FxHashMap::default();
    let mut alike: BTreeMap<Behaviour, DrawnRank> = BTreeMap::new();
    for rank in (0..world.ranks.len() as u32).map(RankId) {
        let source = run.folded.source(rank);
        let when = *known.entry(source).or_insert_with(|| when(run, rank));
        let program = world.ranks[rank.index()].program.0;
        let class = alike.entry((program, when));
        class.and_modify(|drawn| drawn.like_it += 1).or_insert(DrawnRank { rank, like_it: 0 });
    }
    let mut all: Vec<DrawnRank> = alike.into_values().collect();
    all.sort_by_key(|drawn| drawn.rank);
    all
}

/// A number for the times of a rank's ops.
fn when(run: &Simulation, rank: RankId) -> u64 {
    let source = run.folded.source(rank).index();
    let ops = run.record.first[source] as usize..run.record.first[source + 1] as usize;
    let mut hasher = FxHasher::default();
    for (start, end) in &run.record.spans[ops] {
        hasher.write_u64(start.0);
        hasher.write_u64(end.0);
    }
    hasher.finish()
}

/// The first of each stage, the rank that computes longest and the one that waits longest.
fn few(run: &Simulation, all: &[DrawnRank]) -> Vec<DrawnRank> {
    let mut picked: BTreeMap<RankId, DrawnRank> = BTreeMap::new();
    let mut stages = std::collections::BTreeSet::new();
    let first = all.iter().filter(|drawn| stages.insert(run.plan.stage(drawn.rank)));
    picked.extend(first.map(|drawn| (drawn.rank, *drawn)));
    let busy: Vec<Time> = all.iter().map(|drawn| busy(run, drawn.rank)).collect();
    let place = |i: &usize| (busy[*i], std::cmp::Reverse(*i));
    let longest = (0..all.len()).max_by_key(place);
    let shortest = (0..all.len()).min_by_key(|i| (busy[*i], *i));
    picked.extend(longest.into_iter().chain(shortest).map(|i| (all[i].rank, all[i])));
    picked.into_values().collect()
}

/// How long kernels of a rank ran.
fn busy(run: &Simulation, rank: RankId) -> Time {
    let program = run.plan.world.program_of(rank);
    let source = run.folded.source(rank);
    let kernels = program.streams.iter().filter(|stream| stream.kind == StreamKind::Compute);
    let spans = kernels.flat_map(|stream| &stream.ops).map(|op| run.record.span(source, *op));
    Time(spans.map(|(start, end)| end.0.saturating_sub(start.0)).sum())
}
