//! Why a device stood still, and what ended each gap.
//!
//! The kernel that ends a gap tells why it began no sooner. Was it launched only after the device had run dry, the
//! time up to the launch is the host's (`host`; `host, in a synchronisation` where the launching thread waited for
//! the device) and the rest is the launch itself. Was it queued before, it waited for an event of another stream
//! where a `StreamWaitEvent` was queued right before it (newer profiles name the wait itself: `cuda_sync`), else the
//! gap is that between two kernels. No two kernels are further apart than some microseconds by themselves: a longer
//! gap has a cause that the file does not tell.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::breakdown::Sets;
use super::classes::Family;
use super::model::{DeviceEvent, Does, Mark, RankEvents};
use stepsim_core::intervals::Intervals;

/// Gaps that are listed.
const LISTED: usize = 10;

/// Longest gap (ns) between two kernels in a queue; on measured devices it is 1 to 10 µs.
const BETWEEN_KERNELS: i64 = 50_000;

/// The cause of a longer one.
const UNEXPLAINED: &str = "queued, cause not in the file";

/// A piece of time in which nothing ran, with its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdlePiece {
    /// Nanoseconds.
    pub from: i64,
    /// Nanoseconds.
    pub to: i64,
    /// In words.
    pub cause: String,
}

/// A stretch without computing kernels and copies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IdleGap {
    /// When it begins, from the start of the window.
    pub at_s: f64,
    /// How long it is.
    pub length_s: f64,
    /// The part in which communication ran.
    pub communication_s: f64,
    /// The rest by cause.
    pub idle_s: BTreeMap<String, f64>,
    /// The event that ended it: `launch late`, `communication`, `event wait`, `queue`, `queued, cause not in the file`
    /// where no kernel queued behind another waits so long, or `unknown` where the launch is not in the file.
    pub ended_by: String,
    /// The kernel before.
    pub before: String,
    /// The kernel after.
    pub after: String,
}

impl IdleGap {
    /// The beginning of the next kernel's name, without the return type and what follows the template arguments.
    pub fn next(&self) -> String {
        let name = self.after.strip_prefix("void ").unwrap_or(&self.after);
        let plain = name.strip_prefix("(anonymous namespace)::").unwrap_or(name);
        let end = plain.find(['<', '(']).filter(|end| *end > 3).unwrap_or(plain.len());
        plain[..end].chars().take(40).collect()
    }
}

/// The pieces of idle time of some events of a profile, in order; they sum to the idle time of `sets`. A simulated
/// rank is idle where its compute stream stood still for no communication that ran, and says why.
pub fn pieces(profile: &RankEvents, events: &[DeviceEvent], sets: &Sets) -> Vec<IdlePiece> {
    let mut out = Vec::new();
    if profile.simulated {
        let piece = |stall: &Mark| IdlePiece { from: stall.start, to: stall.end, cause: stall.name.clone() };
        return profile.stalls.iter().map(piece).collect();
    }
    for (from, to) in sets.busy.gaps(sets.window).iter() {
        let next = &events[events.partition_point(|e| e.start < to)];
        let Some(call) = profile.launch_of(next) else {
            out.push(IdlePiece { from, to, cause: "unknown: launched outside the file".to_string() });
            continue;
        };
        let mut push = |from: i64, to: i64, cause: &str| {
            if from < to {
                out.push(IdlePiece { from, to, cause: cause.to_string() });
            }
        };
        if call.start > from {
            let launched = call.start.min(to);
            let synced = synchronised_until(profile, next, from, launched);
            push(from, synced, "host, in a synchronisation");
            push(synced, launched, "host");
            push(launched, to, "launch");
        } else if waited(profile, next) {
            push(from, to, "event wait");
        } else if to - from > BETWEEN_KERNELS {
            push(from, to, UNEXPLAINED);
        } else {
            push(from, to, "between kernels");
        }
    }
    out
}

/// Up to when the thread that launched `event` was in a synchronising call after `from`; `from` if it was in none.
fn synchronised_until(profile: &RankEvents, event: &DeviceEvent, from: i64, launched: i64) -> i64 {
    let before = event.launch.unwrap_or(0) as usize;
    let thread = profile.calls[before].thread;
    let earlier = profile.calls[..before].iter().rev().take_while(|c| c.thread == thread && c.end > from);
    let ends = earlier.filter(|c| c.does == Does::Synchronize).map(|c| c.end.min(launched));
    ends.max().unwrap_or(from).max(from)
}

/// True if `event` stood behind a wait for an event: the file says so, or where it names no waits at all, its launch
/// directly follows a `StreamWaitEvent` of its thread.
pub(super) fn waited(profile: &RankEvents, event: &DeviceEvent) -> bool {
    if !profile.waits.is_empty() {
        return event.launch.is_some_and(|launch| profile.waits.contains_key(&launch));
    }
    let before = event.launch.unwrap_or(0) as usize;
    let thread = profile.calls[before].thread;
    let earlier = profile.calls[..before].iter().rev().take_while(|c| c.thread == thread);
    earlier.take_while(|c| c.does != Does::Launch).any(|c| c.does == Does::StreamWait)
}

/// Time by cause.
pub fn by_cause(pieces: &[IdlePiece]) -> BTreeMap<String, f64> {
    let mut ns: BTreeMap<&str, i64> = BTreeMap::new();
    for piece in pieces {
        *ns.entry(&piece.cause).or_default() += piece.to - piece.from;
    }
    ns.into_iter().map(|(cause, ns)| (cause.to_string(), super::clock::seconds(ns))).collect()
}

/// The longest gaps between computing kernels and copies, longest first.
pub fn gaps(profile: &RankEvents, events: &[DeviceEvent], sets: &Sets, pieces: &[IdlePiece]) -> Vec<IdleGap> {
    let kernels: Vec<&DeviceEvent> = events.iter().filter(|e| e.family != Family::Communication).collect();
    let running = Intervals::union(kernels.iter().map(|e| (e.start, e.end)));
    let mut gaps: Vec<(i64, i64)> = running.gaps(sets.window).iter().collect();
    gaps.sort_by_key(|(from, to)| (from - to, *from));
    gaps.truncate(LISTED);
    let last_end: Vec<i64> = kernels
        .iter()
        .scan(i64::MIN, |end, e| {
            *end = e.end.max(*end);
            Some(*end)
        })
        .collect();
    let name = |event: Option<&&DeviceEvent>, none: &str| {
        event.map_or_else(|| none.to_string(), |e| profile.name_of(e).to_string())
    };
    let gap = |(from, to): (i64, i64)| {
        let gap = Intervals::union([(from, to)]);
        let next = kernels.get(kernels.partition_point(|e| e.start < to));
        let before = last_end.partition_point(|end| *end < from);
        let inside = &pieces[pieces.partition_point(|p| p.to <= from)..];
        let inside: Vec<IdlePiece> = inside.iter().take_while(|p| p.from < to).cloned().collect();
        IdleGap {
            at_s: super::clock::seconds(from - sets.window.0),
            length_s: super::clock::seconds(to - from),
            communication_s: super::clock::seconds(sets.comm.meet(&gap).length()),
            idle_s: by_cause(&inside),
            ended_by: ended_by(profile, sets, next.copied(), (from, to)).to_string(),
            before: name(kernels.get(before).filter(|e| e.end == from), "start of the window"),
            after: name(next, "end of the window"),
        }
    };
    gaps.into_iter().map(gap).collect()
}

/// The last thing that had to happen before the next kernel could start.
fn ended_by(profile: &RankEvents, sets: &Sets, next: Option<&DeviceEvent>, gap: (i64, i64)) -> &'static str {
    let Some(next) = next else { return "end of the window" };
    let communicated = sets.comm.meet(&Intervals::union([gap])).iter().last().map(|(_, end)| end);
    let launched = profile.launch_of(next).map(|c| c.start).filter(|start| *start > gap.0);
    match (communicated, launched) {
        (Some(end), launch) if launch.is_none_or(|l| l <= end) => "communication",
        (_, Some(_)) => "launch late",
        _ if profile.simulated => "queue",
        _ if next.launch.is_none() => "unknown",
        _ if waited(profile, next) => "event wait",
        _ if gap.1 - gap.0 > BETWEEN_KERNELS => UNEXPLAINED,
        _ => "queue",
    }
}
