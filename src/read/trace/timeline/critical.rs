//! The critical path, on ranks that are shown and others.
//!
//! Coarser detail is coarser here too: ops of one row that follow each other in one phase of a micro-batch (and in
//! one layer of it) are one piece of the path.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use super::passes;
use super::places::places;
use super::shown::{Critical, Detail, Timeline};
use crate::analysis::kind::OpKind;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::Phase;
use stepsim_core::units::Time;

/// An op of the path, or several that follow each other in one phase of a micro-batch on one rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathPiece {
    /// The first op, with the end of the last; times within the window.
    pub link: Critical,
    /// How many ops; none where it waited, for what the name says.
    pub ops: u64,
    /// The wait before it.
    pub wait: Option<&'static str>,
}

/// The whole path, on ranks that are shown and others, in order of time.
pub fn pieces(timeline: &Timeline) -> Vec<PathPiece> {
    let mut pieces: Vec<PathPiece> = Vec::new();
    for link in timeline.critical {
        for (wait, start, end) in waits(link) {
            if let Some((start, end)) = timeline.within((start, end)) {
                pieces.push(PathPiece { link: Critical { start, end, ..*link }, ops: 0, wait: Some(wait) });
            }
        }
        let Some((start, end)) = timeline.within((link.start, link.end)) else { continue };
        let before = pieces.last_mut().filter(|piece| piece.wait.is_none() && piece.link.end == start);
        match before.filter(|piece| together(timeline, link, &piece.link)) {
            Some(piece) => (piece.link.end, piece.ops) = (end, piece.ops + 1),
            None => pieces.push(PathPiece { link: Critical { start, end, ..*link }, ops: 1, wait: None }),
        }
    }
    pieces
}

/// For each traced rank, its ops on the path that are seen.
pub fn ops_by_rank(timeline: &Timeline) -> Vec<FxHashSet<OpId>> {
    let place_of = places(timeline);
    let mut ops = vec![FxHashSet::default(); timeline.ranks.len()];
    for link in timeline.critical.iter().filter(|link| timeline.seen((link.start, link.end)).is_some()) {
        if let Some(place) = place_of.get(&link.rank) {
            ops[*place].insert(link.op);
        }
    }
    ops
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

/// True if an op of the path is shown in one piece with the one `before` it.
fn together(timeline: &Timeline, link: &Critical, before: &Critical) -> bool {
    if before.rank != link.rank {
        return false;
    }
    let program = timeline.world.program_of(link.rank);
    let [a, b] = [before.op, link.op].map(|id| &program.ops[id.index()]);
    let [x, y] = [a, b].map(|op| &program.infos[op.info as usize]);
    timeline.detail != Detail::Op
        && a.stream == b.stream
        && x.phase == y.phase
        && passes::same(program, before.op, link.op)
        && (timeline.detail >= Detail::Phase || x.layer == y.layer)
}
