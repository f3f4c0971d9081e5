//! The critical path: from the op that ended last, back through what bound each start, across ranks, to time zero.
//!
//! The links of the chain touch: each op starts when the one before it ends, or waits for memory in between. So
//! their times and those waits sum to the step time exactly. Shortening an op that is not on the chain never
//! shortens the step; where several chains are equally long, one is shown (a rank's own predecessor before its
//! waits, its own cause before a peer's).

mod by_rank;
mod reading;

use std::collections::BTreeMap;
use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::{Binding, Causes};
use super::idle::IdleTimes;
use super::kind::OpKind;
use super::stalls::contended_from;
pub use by_rank::PathWalk;
pub use reading::CriticalPathReading;
pub(crate) use reading::path_parts;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::program::{NO_MICRO_BATCH, Phase, World};
use stepsim_core::units::Time;

/// An op on the critical path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathLink {
    /// Whose op; of a communication, the member that arrived last.
    pub rank: RankId,
    /// The op.
    pub op: OpId,
    /// When it became ready: earlier than `start` only if it waited for memory, later than the end of the link before
    /// it only by the latency of a launch.
    pub ready: Time,
    /// When it started.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// The part of it, at its end, that contention added.
    pub contention: Time,
}

/// The critical path and what it is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CriticalPath {
    /// The ops in the order of time.
    pub links: Vec<PathLink>,
    /// Time of the ops by kind, contention left out: index with `kind as usize`.
    pub by_kind: [Time; OpKind::ALL.len()],
    /// Time that contention added to communication on the path.
    pub contention: Time,
    /// Time that the path waited for room on a full tier.
    pub memory: Time,
}

impl CriticalPath {
    /// Time of the path on each rank that it visits, in the order of ranks: each link from the end of the one before
    /// it, so that the way of a launch is its own rank's. They sum to the step time.
    pub fn by_rank(&self) -> Vec<(RankId, Time)> {
        let before = std::iter::once(Time::ZERO).chain(self.links.iter().map(|l| l.end));
        let mut ranks: Vec<(RankId, Time)> =
            self.links.iter().zip(before).map(|(l, before)| (l.rank, l.end - before)).collect();
        ranks.sort_by_key(|r| r.0);
        ranks.chunk_by(|a, b| a.0 == b.0).map(|c| (c[0].0, c.iter().map(|r| r.1).sum())).collect()
    }
    /// All of it: equal to the step time.
    pub fn total(&self) -> Time {
        self.by_kind.iter().copied().sum::<Time>() + self.contention + self.memory
    }
}

/// Finds the critical path of a run.
pub fn critical_path(causes: &mut Causes, idle: &mut IdleTimes) -> CriticalPath {
    let mut path = CriticalPath::default();
    let mut next = last_op(causes);
    while let Some((rank, op)) = next {
        let (rank, op) = match causes.binding(rank, op) {
            Binding::Member(peer, theirs) => (peer, theirs),
            Binding::Memory => causes.last_arrival(rank, op).map_or((rank, op), |last| (last.rank, last.op)),
            _ => (rank, op),
        };
        let (start, end) = causes.span(rank, op);
        let own = causes.ready(rank, op);
        let contention =
            contended_from(causes, idle, rank, op).map_or(Time::ZERO, |from| end - from.min(end));
        let kind = causes.kind(rank, op);
        path.by_kind[kind as usize] += end - start - contention;
        path.contention += contention;
        path.memory += start - own.time;
        path.links.push(PathLink { rank, op, ready: own.time, start, end, contention });
        next = own.op().map(|before| (rank, before));
        if let Some(before) = own.op() {
            // The way from the host to the device.
            let way = own.time - causes.span(rank, before).1;
            path.by_kind[causes.kind(rank, before) as usize] += way;
        }
    }
    path.links.reverse();
    path
}

/// The op that ends last; of several, the first of the lowest rank.
fn last_op(causes: &Causes) -> Option<(RankId, OpId)> {
    let record = causes.record();
    let i = record.spans.iter().position(|&(_, end)| end == record.step_end)? as u64;
    let rank = record.first.partition_point(|&first| first <= i) - 1;
    Some((causes.first_of(RankId(rank as u32)), OpId((i - record.first[rank]) as u32)))
}

/// Above this number of stretches, the stretches of one rank are joined whatever they do.
const MOST_STRETCHES: usize = 2000;

/// The chain of binding waits from the end of the step to its start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CriticalPathReport {
    /// Ops on it.
    pub ops: u64,
    /// How often it passes from one rank to another.
    pub rank_changes: u64,
    /// Time of its ops by kind; with contention and memory it sums to the step time.
    pub by_kind_s: BTreeMap<OpKind, f64>,
    /// The part of `compute` by class of kernels.
    #[serde(default)]
    pub by_class_s: BTreeMap<KernelClass, f64>,
    /// Time that contention added.
    pub contention_s: f64,
    /// The same by kind of the ops that it held up.
    #[serde(skip)]
    pub contention_by_kind_s: BTreeMap<OpKind, f64>,
    /// Time spent waiting for room on a full tier.
    pub memory_s: f64,
    /// The part of it on each rank that it visits, longest first.
    #[serde(default)]
    pub ranks: Vec<OnRank>,
    /// The path in the order of time, without gaps: neighbours on one rank, of one phase and micro-batch, are joined.
    #[serde(default)]
    pub stretches: Vec<Stretch>,
}

/// The part of a critical path on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnRank {
    /// The rank; of several that are alike the lowest.
    pub rank: u32,
    /// Its pipeline stage.
    pub stage: u32,
    /// From the end of the op before to the end of its own, summed: of all ranks the step time.
    pub time_s: f64,
}

/// A stretch of the critical path on one rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stretch {
    /// The rank; of several that are alike the lowest.
    pub rank: u32,
    /// From when.
    pub start_s: f64,
    /// Until when.
    pub end_s: f64,
    /// Phase of the step; empty where several are joined.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Micro-batch, where it is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub micro_batch: Option<u32>,
    /// Ops of it.
    pub ops: u64,
    /// Its time by kind of op.
    pub by_kind_s: BTreeMap<OpKind, f64>,
}

/// A part of a path that comes again, behind itself.
pub struct Again {
    /// Its links: those behind the first moment of a state, up to the one across the second.
    pub links: Range<usize>,
    /// How often it comes again.
    pub turns: u64,
    /// How much later each time.
    pub turn: Time,
    /// And how many micro-batches of a direction further on.
    pub micro_batches: u32,
    /// Micro-batches of a direction in the step that was played, and in the whole.
    pub per_direction: [u32; 2],
}

impl Again {
    /// The number of a micro-batch `turns` turns later.
    fn later(&self, micro_batch: u32, turns: u64) -> u32 {
        if micro_batch == NO_MICRO_BATCH {
            return micro_batch;
        }
        let [few, all] = self.per_direction;
        micro_batch / few * all + micro_batch % few + turns as u32 * self.micro_batches
    }
}

/// The path of a run; `place` gives a simulated rank's number in the job and its pipeline stage.
pub(crate) fn section(
    path: &CriticalPath,
    world: &World,
    again: Option<&Again>,
    place: impl Fn(RankId) -> (u32, u32),
) -> CriticalPathReport {
    let times = |link: usize| 1 + again.filter(|a| a.links.contains(&link)).map_or(0, |a| a.turns);
    let mut kinds = [Time::ZERO; OpKind::ALL.len()];
    let mut classes: BTreeMap<KernelClass, Time> = BTreeMap::new();
    let mut contention = [Time::ZERO; OpKind::ALL.len()];
    let (mut memory, mut ops, mut hops) = (Time::ZERO, 0, 0);
    let mut on_rank: BTreeMap<RankId, Time> = BTreeMap::new();
    let mut last: Option<(&PathLink, OpKind)> = None;
    for (i, link) in path.links.iter().enumerate() {
        let (times, kind) = (times(i), OpKind::of(world.program_of(link.rank), link.op));
        kinds[kind as usize] += (link.end - link.start - link.contention) * times;
        contention[kind as usize] += link.contention * times;
        memory += (link.start - link.ready) * times;
        if let Some((before, of)) = last {
            // The way from the host to the device.
            kinds[of as usize] += (link.ready - before.end) * times;
            hops += if before.rank == link.rank { 0 } else { times };
        }
        let program = world.program_of(link.rank);
        if let Some(class) = program.infos[program.ops[link.op.index()].info as usize].class {
            *classes.entry(class).or_default() += (link.end - link.start) * times;
        }
        let before = last.map_or(Time::ZERO, |(before, _)| before.end);
        *on_rank.entry(link.rank).or_default() += (link.end - before) * times;
        ops += times;
        last = Some((link, kind));
    }
    let seconds = |times: [Time; OpKind::ALL.len()]| -> BTreeMap<OpKind, f64> {
        let times = OpKind::ALL.into_iter().zip(times).filter(|k| k.1 > Time::ZERO);
        times.map(|(kind, time)| (kind, time.s())).collect()
    };
    CriticalPathReport {
        ops,
        rank_changes: hops,
        by_kind_s: seconds(kinds),
        by_class_s: classes.into_iter().map(|(class, time)| (class, time.s())).collect(),
        contention_s: contention.into_iter().sum::<Time>().s(),
        contention_by_kind_s: seconds(contention),
        memory_s: memory.s(),
        ranks: on_ranks(on_rank, &place),
        stretches: stretches(path, world, again, |rank| place(rank).0),
    }
}

/// The longest first.
fn on_ranks(times: BTreeMap<RankId, Time>, place: impl Fn(RankId) -> (u32, u32)) -> Vec<OnRank> {
    let mut times: Vec<_> = times.into_iter().map(|(rank, time)| (place(rank), time)).collect();
    times.sort_by_key(|&(place, time)| (std::cmp::Reverse(time), place));
    times.into_iter().map(|((rank, stage), time)| OnRank { rank, stage, time_s: time.s() }).collect()
}

/// A stretch in the making.
#[derive(Clone)]
struct StretchBuilder {
    rank: RankId,
    phase: Phase,
    micro_batch: u32,
    start: Time,
    end: Time,
    ops: u64,
    /// Those of no op are absent.
    kinds: [Option<Time>; OpKind::ALL.len()],
}

impl StretchBuilder {
    /// True if it goes on where another one ends.
    fn continues(&self, before: &StretchBuilder) -> bool {
        (self.rank, self.phase, self.micro_batch) == (before.rank, before.phase, before.micro_batch)
    }
    fn join(&mut self, behind: &StretchBuilder) {
        (self.end, self.ops) = (behind.end, self.ops + behind.ops);
        for (time, more) in self.kinds.iter_mut().zip(behind.kinds) {
            *time = more.map_or(*time, |more| Some(time.unwrap_or_default() + more));
        }
    }
}

/// Some links of a path, neighbours of one rank, phase and micro-batch joined.
fn pieces(path: &CriticalPath, world: &World, links: Range<usize>) -> Vec<StretchBuilder> {
    // A stretch begins where the one before it ends: the way from a host to its device belongs to the op behind it.
    let mut before = links.start.checked_sub(1).map_or(Time::ZERO, |last| path.links[last].end);
    let mut pieces: Vec<StretchBuilder> = Vec::new();
    for link in &path.links[links] {
        let program = world.program_of(link.rank);
        let op = &program.ops[link.op.index()];
        let (phase, micro_batch) = (program.infos[op.info as usize].phase, op.micro_batch);
        let mut kinds = [None; OpKind::ALL.len()];
        kinds[OpKind::of(program, link.op) as usize] = Some(link.end - before);
        let piece = StretchBuilder {
            rank: link.rank,
            phase,
            micro_batch,
            start: before,
            end: link.end,
            ops: 1,
            kinds,
        };
        before = link.end;
        push(&mut pieces, piece);
    }
    pieces
}

fn push(pieces: &mut Vec<StretchBuilder>, piece: StretchBuilder) {
    match pieces.last_mut().filter(|last| piece.continues(last)) {
        Some(last) => last.join(&piece),
        None => pieces.push(piece),
    }
}

fn stretches(
    path: &CriticalPath,
    world: &World,
    again: Option<&Again>,
    number: impl Fn(RankId) -> u32,
) -> Vec<Stretch> {
    let all = path.links.len();
    let mut groups = match again {
        None => pieces(path, world, 0..all),
        Some(again) => {
            let mut groups = Vec::new();
            let mut add = |some: &[StretchBuilder], turns: u64| {
                for piece in some {
                    let micro_batch = again.later(piece.micro_batch, turns);
                    let [start, end] = [piece.start, piece.end].map(|at| at + again.turn * turns);
                    push(&mut groups, StretchBuilder { micro_batch, start, end, ..piece.clone() });
                }
            };
            add(&pieces(path, world, 0..again.links.end), 0);
            let turn = pieces(path, world, again.links.clone());
            (1..=again.turns).for_each(|turns| add(&turn, turns));
            add(&pieces(path, world, again.links.end..all), again.turns);
            groups
        }
    };
    let fine = groups.len() <= MOST_STRETCHES;
    if !fine {
        groups.dedup_by(|piece, last| {
            let joins = piece.rank == last.rank;
            if joins {
                last.join(piece);
            }
            joins
        });
    }
    let stretch = |piece: StretchBuilder| Stretch {
        rank: number(piece.rank),
        start_s: piece.start.s(),
        end_s: piece.end.s(),
        phase: if fine { piece.phase.name().into() } else { String::new() },
        micro_batch: Some(piece.micro_batch).filter(|m| fine && *m != NO_MICRO_BATCH),
        ops: piece.ops,
        by_kind_s: OpKind::ALL
            .into_iter()
            .zip(piece.kinds)
            .filter_map(|(kind, time)| Some((kind, time?.s())))
            .collect(),
    };
    groups.into_iter().map(stretch).collect()
}
