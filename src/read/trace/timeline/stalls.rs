//! Stalls and what they lead to: the op that held a rank up, here or elsewhere, and the kernel that then could start.
//!
//! Viewers draw an arrow from the end of its source to the start of its destination, and what held a rank up ends when
//! the stall ends: an arrow to the stall would lead back in time. So it leads to the kernel that was set free, which
//! begins as the stall ends; to the stall only where no kernel follows.

use rustc_hash::{FxHashMap, FxHashSet};

use super::arrows::{ArrowEnd, Arrows, Between};
use super::places::{TransferEnd, places, span};
use super::rows::RankRows;
use super::shown::{Detail, StallSlice, Timeline, TracedRank};
use crate::analysis::kind::OpKind;
use crate::trace::writer::arrow_head;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::{NO_MICRO_BATCH, Work};

/// Start and end in nanoseconds of a stall that is seen.
pub fn shown(timeline: &Timeline, stall: &StallSlice) -> Option<(u64, u64)> {
    timeline.seen((stall.start, stall.end))
}

/// Fewest stalls of a stretch: fewer are as wide as it.
pub(super) const LEAST: u64 = 4;

/// Stalls in a row: each begins where the one before ended, with no kernel between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StallRun {
    /// Number of the first one that is seen.
    pub first: u32,
    /// Start and end in nanoseconds.
    pub span: (u64, u64),
    /// How many are seen.
    pub stalls: u64,
    /// The two causes that take most of it, longest first.
    pub name: String,
}

/// The stretches of a rank's stalls in order of time.
pub fn stretches(timeline: &Timeline, stalls: &[StallSlice]) -> Vec<StallRun> {
    let mut stretches = Vec::new();
    let mut number = 0;
    for run in stalls.chunk_by(|a, b| a.end == b.start) {
        let mut stretch = StallRun { first: number, span: (u64::MAX, 0), stalls: 0, name: String::new() };
        let mut causes: Vec<(&str, u64)> = Vec::new();
        for stall in run {
            if let Some((start, end)) = shown(timeline, stall) {
                if stretch.stalls == 0 {
                    stretch.first = number;
                }
                stretch.span = (stretch.span.0.min(start), end);
                stretch.stalls += 1;
                match causes.iter_mut().find(|cause| cause.0 == stall.cause) {
                    Some(cause) => cause.1 += end - start,
                    None => causes.push((stall.cause, end - start)),
                }
            }
            number += 1;
        }
        if stretch.stalls >= LEAST {
            causes.sort_by_key(|cause| std::cmp::Reverse(cause.1));
            let firsts: Vec<&str> = causes.iter().take(2).map(|cause| cause.0).collect();
            stretch.name = firsts.join(" and ");
            stretches.push(stretch);
        }
    }
    stretches
}

/// The kind of communication that a stall exposes, as the report counts it: it ran on the rank, which stood still for
/// it.
pub fn exposes(timeline: &Timeline, traced: &TracedRank, stall: &StallSlice) -> Option<OpKind> {
    let (_, op) = stall.op.filter(|(rank, _)| *rank == traced.rank)?;
    let program = timeline.world.program_of(traced.rank);
    let is_comm = matches!(program.ops[op.index()].work, Work::Comm { .. });
    (is_comm && stall.start >= span(timeline, traced, op).0).then(|| OpKind::of(program, op))
}

/// The source of the delay: the awaited op, or the op that it waited for itself.
fn source(stall: &StallSlice) -> Option<(RankId, OpId)> {
    stall.blocker.or(stall.op)
}

/// True if the next stall holds the same kernel up because of the same op: an arrow to the kernel then leaves with
/// that one.
fn goes_on(stalls: &[StallSlice], i: usize) -> bool {
    let same = |next: &StallSlice| next.waiting == stalls[i].waiting && source(next) == source(&stalls[i]);
    stalls.get(i + 1).is_some_and(same)
}

/// Numbers the arrows from ops of other ranks that are shown to the stalls that they cause, or to the kernels that were
/// held up; adds the ends at ops to `between`, and returns for each traced rank its stalls (by their number) with the
/// arrows that arrive.
pub fn between_ranks(timeline: &Timeline, between: &mut Between) -> Vec<Vec<(u32, u64)>> {
    let mut into = vec![Vec::new(); timeline.ranks.len()];
    let Some(stalls) = timeline.stalls.filter(|_| timeline.ranks.len() > 1 && timeline.detail < Detail::Pass)
    else {
        return into;
    };
    let places = places(timeline);
    let seen = |place: usize, op: OpId| {
        timeline.seen(span(timeline, &timeline.ranks[place], op)).map(|(start, _)| start)
    };
    for (place, traced) in timeline.ranks.iter().enumerate() {
        let stalls = stalls(traced.rank);
        for (i, stall) in stalls.iter().enumerate() {
            let (Some((rank, op)), Some((start, _))) = (source(stall), shown(timeline, stall)) else {
                continue;
            };
            let Some(&theirs) = places.get(&rank).filter(|theirs| **theirs != place) else { continue };
            let Some(began) = seen(theirs, op) else { continue };
            let kernel = stall.waiting.filter(|op| seen(place, *op).is_some_and(|start| began <= start));
            let id = between.count + 1;
            match kernel {
                Some(_) if goes_on(&stalls, i) => continue,
                Some(op) => between.ends[place].push(ArrowEnd { op, id, direction: TransferEnd::Receive }),
                None if began <= start => into[place].push((i as u32, id)),
                None => continue,
            }
            between.count = id;
            between.ends[theirs].push(ArrowEnd { op, id, direction: TransferEnd::Send });
        }
    }
    into
}

/// Adds the arrows between stalls and ops of one rank, numbered on from those that it has; `piece_of` finds the slice
/// of an op. Returns those that leave and those that arrive at stalls, by the stall's number; `held_up` are those
/// that arrive from other ranks. Where ops are merged, none leads from a stall to its kernel.
pub fn within_rank(
    timeline: &Timeline,
    traced: &TracedRank,
    (stalls, held_up): (&[StallSlice], &[(u32, u64)]),
    rows: &RankRows,
    first_id: u64,
    arrows: &mut Arrows,
) -> [Vec<(u32, u64)>; 2] {
    let (mut out, mut into) = (Vec::new(), held_up.to_vec());
    let mut joined = joined(arrows);
    for (i, stall) in (0..).zip(stalls) {
        let Some((start, _)) = shown(timeline, stall) else { continue };
        let kernel = stall.waiting.and_then(|op| arrows.piece_of[op.index()]);
        let kernel = kernel.filter(|to| start < arrow_head(rows.pieces[*to as usize].end));
        let mine = source(stall).filter(|(rank, _)| *rank == traced.rank);
        let from = mine.and_then(|(_, op)| arrows.piece_of[op.index()]);
        let leads = |from: u32, ns: u64| {
            let piece = &rows.pieces[from as usize];
            piece.start <= ns && !rows.goes_on(piece, ns)
        };
        let frees = |to: u32| {
            !goes_on(stalls, i as usize)
                && from.is_some_and(|from| leads(from, rows.pieces[to as usize].start))
        };
        match (from, kernel) {
            (Some(from), Some(to)) if frees(to) && joined.insert((from, to)) => {
                let id = arrows.next(first_id);
                arrows.out.push((from, id));
                arrows.into.push((to, id));
            }
            (Some(from), None) if leads(from, start) => {
                let id = arrows.next(first_id);
                arrows.out.push((from, id));
                into.push((i, id));
            }
            _ => {}
        }
        let last = stalls.get(i as usize + 1).is_none_or(|next| next.waiting != stall.waiting);
        if let Some(to) = kernel.filter(|_| last && timeline.detail == Detail::Op) {
            let id = arrows.next(first_id);
            out.push((i, id));
            arrows.into.push((to, id));
        }
    }
    arrows.out.sort_unstable();
    arrows.into.sort_unstable();
    into.sort_unstable();
    [out, into]
}

/// The slices that arrows of a rank join.
fn joined(arrows: &Arrows) -> FxHashSet<(u32, u32)> {
    let from: FxHashMap<u64, u32> = arrows.out.iter().map(|(piece, id)| (*id, *piece)).collect();
    arrows.into.iter().filter_map(|(to, id)| Some((*from.get(id)?, *to))).collect()
}

/// Rank, layer and micro-batch of what was waited for, as far as there are any.
pub fn waited(timeline: &Timeline, stall: &StallSlice) -> [Option<u64>; 3] {
    let of = |(rank, op): (RankId, OpId)| {
        let program = timeline.world.program_of(rank);
        let op = &program.ops[op.index()];
        let layer = program.infos[op.info as usize].layer.map(u64::from);
        (layer, (op.micro_batch != NO_MICRO_BATCH).then_some(u64::from(op.micro_batch)))
    };
    let (layer, micro_batch) = stall.op.map_or((None, None), of);
    let (blocking_layer, _) = stall.blocker.map_or((None, None), of);
    [source(stall).map(|(rank, _)| u64::from(rank.0)), layer.or(blocking_layer), micro_batch]
}
