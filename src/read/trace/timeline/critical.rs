//! The critical path on the ranks that are shown.
//!
//! Coarser detail is coarser here too: ops of one row that follow each other in one phase of a micro-batch (and in one layer of it)
//! are one step of the path.

use super::passes;
use super::places::places;
use super::shown::{Critical, Detail, Timeline};
use crate::core::ids::OpId;

/// An op of the path on the row of a rank, or several that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPiece {
    /// The first op; the end is that of the last.
    pub link: Critical,
    /// How many ops.
    pub ops: u64,
    /// The arrow from the op before it, if that is on another rank.
    pub into: Option<u64>,
    /// The arrow to the op after it, if that is on another rank.
    pub out: Option<u64>,
}

/// The path by rank.
#[derive(Debug)]
pub struct Path {
    /// For each traced rank, the steps on it in order of time.
    pub steps: Vec<Vec<PathPiece>>,
    /// For each traced rank, its ops on the path.
    pub ops: Vec<Vec<OpId>>,
}

impl Path {
    /// What of the path is seen; its arrows are numbered after `count`, which they add to.
    pub fn new(timeline: &Timeline, count: &mut u64) -> Path {
        let place_of = places(timeline);
        let (from, until) = timeline.window_ns();
        let mut steps: Vec<Vec<PathPiece>> = vec![Vec::new(); timeline.ranks.len()];
        let mut ops: Vec<Vec<OpId>> = vec![Vec::new(); timeline.ranks.len()];
        let mut last: Option<(usize, OpId)> = None;
        for link in timeline.critical {
            let Some(&place) = place_of.get(&link.rank) else { continue };
            let (start, end) = (link.start.round_ns(), link.end.round_ns());
            if start >= end || end <= from || start >= until {
                continue;
            }
            ops[place].push(link.op);
            let before = last.replace((place, link.op));
            if let Some((_, op)) = before.filter(|(before, _)| *before == place)
                && let Some(step) = steps[place].last_mut()
                && step.link.end.round_ns() == start
                && together(timeline, link, op)
            {
                step.link.end = link.end;
                step.ops += 1;
                continue;
            }
            let mut step = PathPiece { link: *link, ops: 1, into: None, out: None };
            if let Some((before, _)) = before.filter(|(before, _)| *before != place)
                && let Some(left) = steps[before].last_mut()
                && left.link.start.round_ns() + 1 < end
            {
                *count += 1;
                left.out = Some(*count);
                step.into = Some(*count);
            }
            steps[place].push(step);
        }
        Path { steps, ops }
    }
}

/// Whether an op of the path is shown in one step with the op `before` it on the same rank.
fn together(timeline: &Timeline, link: &Critical, before: OpId) -> bool {
    let program = timeline.world.program_of(link.rank);
    let [a, b] = [before, link.op].map(|id| &program.ops[id.index()]);
    let [x, y] = [a, b].map(|op| &program.infos[op.info as usize]);
    timeline.detail != Detail::Op
        && a.stream == b.stream
        && x.phase == y.phase
        && passes::same(program, before, link.op)
        && (timeline.detail == Detail::Phase || x.layer == y.layer)
}
