//! The critical path on the ranks that are shown.
//!
//! Coarser detail is coarser here too: ops of one row that follow each other in one phase of a micro-batch (and in
//! one layer of it) are one step of the path.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::passes;
use super::places::places;
use super::shown::{Critical, Detail, Timeline};
use crate::analysis::kind::OpKind;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::Phase;
use stepsim_core::units::Time;

/// An op of the path on the row of a rank, or several that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPiece {
    /// The first op, with the end of the last.
    pub link: Critical,
    /// How many ops; none where it waited, for what the name says.
    pub ops: u64,
    /// The wait before it.
    pub wait: Option<&'static str>,
    /// The arrow from the op before it, if that is on another rank.
    pub into: Option<u64>,
    /// The arrow to the op after it, if that is on another rank.
    pub out: Option<u64>,
}

/// The path by rank.
#[derive(Debug)]
pub struct PathByRank {
    /// For each traced rank, the steps on it in order of time.
    pub steps: Vec<Vec<PathPiece>>,
    /// For each traced rank, its ops on the path.
    pub ops: Vec<Vec<OpId>>,
}

impl PathByRank {
    /// The visible part of the path; its arrows are numbered after `count`, which they add to.
    pub fn new(timeline: &Timeline, count: &mut u64) -> PathByRank {
        let place_of = places(timeline);
        let mut steps: Vec<Vec<PathPiece>> = vec![Vec::new(); timeline.ranks.len()];
        let mut ops: Vec<Vec<OpId>> = vec![Vec::new(); timeline.ranks.len()];
        let mut last: Option<(usize, OpId)> = None;
        for link in timeline.critical {
            let Some(&place) = place_of.get(&link.rank) else { continue };
            for (wait, start, end) in waits(link) {
                if timeline.seen((start, end)).is_some() {
                    let link = Critical { start, end, ..*link };
                    steps[place].push(PathPiece { link, ops: 0, wait: Some(wait), into: None, out: None });
                }
            }
            let Some((start, end)) = timeline.seen((link.start, link.end)) else { continue };
            ops[place].push(link.op);
            let before = last.replace((place, link.op));
            if let Some((_, op)) = before.filter(|(before, _)| *before == place)
                && let Some(step) = steps[place].last_mut()
                && step.wait.is_none()
                && step.link.end.round_ns() == start
                && together(timeline, link, op)
            {
                step.link.end = link.end;
                step.ops += 1;
                continue;
            }
            let mut step = PathPiece { link: *link, ops: 1, wait: None, into: None, out: None };
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
        PathByRank { steps, ops }
    }
}

/// The waits between the end of the op before and the start of an op: the way of its launch, then a wait for room.
fn waits(link: &Critical) -> [(&'static str, Time, Time); 2] {
    [("launch latency", link.from, link.ready), ("wait for room", link.ready, link.start)]
}

/// The part of the path on one rank, in one phase of a micro-batch: the path without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathSlice {
    /// The rank.
    pub rank: RankId,
    /// The phase.
    pub phase: Phase,
    /// The micro-batch.
    pub micro_batch: u32,
    /// From when, in nanoseconds.
    pub start: u64,
    /// Until when.
    pub end: u64,
}

/// The whole path, on ranks that are shown and others, in order of time.
pub fn stretches(timeline: &Timeline) -> Vec<PathSlice> {
    let (from, until) = timeline.window_ns();
    let mut all: Vec<PathSlice> = Vec::new();
    for link in timeline.critical {
        let program = timeline.world.program_of(link.rank);
        let op = &program.ops[link.op.index()];
        let phase = program.infos[op.info as usize].phase;
        let [start, end] = [link.from, link.end].map(|at| at.round_ns().clamp(from, until));
        let next = PathSlice { rank: link.rank, phase, micro_batch: op.micro_batch, start, end };
        match all.last_mut() {
            _ if start == end => {}
            Some(last) if PathSlice { start, end, ..*last } == next => last.end = end,
            _ => all.push(next),
        }
    }
    all
}

/// A rank with this part of the path is named.
const MOST: f64 = 0.5;
/// Kinds of ops that are named, and the part of the path that one must have.
const KINDS: usize = 3;
const LEAST: f64 = 0.005;

/// The whole path in one line, where most of it lies and what it is of: `critical path: 91.4 % on rank 0896 · stage 7;
/// compute 82.7 %, tensor parallel 15.4 %`.
pub fn in_words(timeline: &Timeline, stretches: &[PathSlice]) -> String {
    let mut ranks: BTreeMap<RankId, u64> = BTreeMap::new();
    for stretch in stretches {
        *ranks.entry(stretch.rank).or_default() += stretch.end - stretch.start;
    }
    let whole = ranks.values().sum::<u64>() as f64;
    let percent = |part: u64| format!("{:.1} %", 100.0 * part as f64 / whole);
    let kinds = kinds(timeline).into_iter().filter(|(_, time)| *time as f64 >= LEAST * whole).take(KINDS);
    let kinds: Vec<String> =
        kinds.map(|(kind, time)| format!("{} {}", kind.words(), percent(time))).collect();
    let most = ranks.iter().max_by_key(|(rank, time)| (**time, Reverse(**rank)));
    let place = match most {
        _ if ranks.len() == 1 => String::new(),
        Some((rank, time)) if *time as f64 >= MOST * whole => {
            let name = timeline.name_of(*rank);
            let place: Vec<&str> = name.split(" · ").take(2).collect();
            format!("{} on {}; ", percent(*time), place.join(" · "))
        }
        _ => format!("{} ranks in turn; ", ranks.len()),
    };
    format!("critical path: {place}{}", kinds.join(", "))
}

/// How many nanoseconds of the path ops of each kind take, with what they waited for; most first.
fn kinds(timeline: &Timeline) -> Vec<(OpKind, u64)> {
    let (from, until) = timeline.window_ns();
    let mut times: BTreeMap<OpKind, u64> = BTreeMap::new();
    for link in timeline.critical {
        let kind = OpKind::of(timeline.world.program_of(link.rank), link.op);
        let [start, end] = [link.from, link.end].map(|at| at.round_ns().clamp(from, until));
        *times.entry(kind).or_default() += end - start;
    }
    let mut times: Vec<_> = times.into_iter().collect();
    times.sort_by_key(|(kind, time)| (Reverse(*time), *kind));
    times
}

/// True if an op of the path is shown in one step with the op `before` it on the same rank.
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
