//! Stalls and what they lead to: the op that held a rank up, here or elsewhere, and the kernel that then could start.

use super::arrows::{Arrows, Between, End};
use super::layout::{Direction, places, span};
use super::rows::Rows;
use super::{Stall, Timeline, TracedRank};
use crate::ids::{OpId, RankId};
use crate::program::NO_MICRO_BATCH;
use crate::trace::writer::arrow_head;

/// Start and end in nanoseconds of a stall that is seen.
pub fn shown(timeline: &Timeline, stall: &Stall) -> Option<(u64, u64)> {
    let (from, until) = timeline.window_ns();
    let (start, end) = (stall.start.round_ns(), stall.end.round_ns());
    (start < end && end > from && start < until).then_some((start, end))
}

/// What held the rank up: the op that was waited for, or what that waited for itself.
fn source(stall: &Stall) -> Option<(RankId, OpId)> {
    stall.blocker.or(stall.op)
}

/// Numbers the arrows to stalls from ops of other ranks that are shown; adds their tails to `between`, and returns for
/// each traced rank its stalls (by their number) with the arrows that arrive.
pub fn between_ranks(timeline: &Timeline, between: &mut Between) -> Vec<Vec<(u32, u64)>> {
    let mut into = vec![Vec::new(); timeline.ranks.len()];
    let Some(stalls) = timeline.stalls.filter(|_| timeline.ranks.len() > 1) else { return into };
    let places = places(timeline);
    for (place, traced) in timeline.ranks.iter().enumerate() {
        for (i, stall) in (0..).zip(&stalls(traced.rank)) {
            let (Some((rank, op)), Some((_, end))) = (source(stall), shown(timeline, stall)) else {
                continue;
            };
            let Some(&theirs) = places.get(&rank).filter(|theirs| **theirs != place) else { continue };
            let (from, until) = timeline.window_ns();
            let (first, last) = span(timeline, &timeline.ranks[theirs], op);
            let (first, last) = (first.round_ns(), last.round_ns());
            if first < last && last > from && first < until && first < arrow_head(end) {
                between.count += 1;
                let tail = End { op, id: between.count, direction: Direction::Send };
                between.ends[theirs].push(tail);
                into[place].push((i, between.count));
            }
        }
    }
    into
}

/// Adds the arrows between stalls and ops of one rank, numbered on from those that it has; `piece_of` finds the slice of
/// an op. Returns those that leave and those that arrive at stalls, by the stall's number.
pub fn within_rank(
    timeline: &Timeline,
    traced: &TracedRank,
    stalls: &[Stall],
    rows: &Rows,
    first_id: u64,
    arrows: &mut Arrows,
) -> [Vec<(u32, u64)>; 2] {
    let [mut out, mut into] = [Vec::new(), Vec::new()];
    for (i, stall) in (0..).zip(stalls) {
        let Some((start, end)) = shown(timeline, stall) else { continue };
        let mine = source(stall).filter(|(rank, _)| *rank == traced.rank);
        if let Some(from) = mine.and_then(|(_, op)| arrows.piece_of[op.index()])
            && rows.pieces[from as usize].start < arrow_head(end)
        {
            let id = first_id + arrows.count;
            arrows.count += 1;
            arrows.out.push((from, id));
            into.push((i, id));
        }
        let after =
            stall.waiting.filter(|_| stalls.get(i as usize + 1).is_none_or(|s| s.waiting != stall.waiting));
        if let Some(to) = after.and_then(|op| arrows.piece_of[op.index()])
            && start < arrow_head(rows.pieces[to as usize].end)
        {
            let id = first_id + arrows.count;
            arrows.count += 1;
            out.push((i, id));
            arrows.into.push((to, id));
        }
    }
    arrows.out.sort_unstable();
    arrows.into.sort_unstable();
    [out, into]
}

/// Rank, layer and micro-batch of what was waited for, as far as there are any.
pub fn waited(timeline: &Timeline, stall: &Stall) -> [Option<u64>; 3] {
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
