//! The rate through chosen resources over time, from the record.
//!
//! A communication op puts `flow bytes × path coefficient` through each resource of each of its flows' paths, between
//! its recorded start and end. Inside the op the flows of its phases follow one another: each first pays its latency,
//! in which nothing moves, then moves its bytes at a steady rate. The parts in which bytes move are stretched alike,
//! from what they take on an idle machine to what the op took. So the bytes are exact, and where contention changes
//! in the middle of an op the rate shown is its mean. Flows of a graph (fidelity `steps`) are spread evenly over the
//! op, after the shortest latency among them.
//!
//! In a folded world the coefficients count how many of the merged communicators cross **one** resource of a class:
//! the rate holds for each resource of the class.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::idle;
use stepsim_core::engine::Record;
use stepsim_core::ids::{CommId, OpId, RankId, ResourceId, TransferId};
use stepsim_core::program::{Action, Flow, Work, World};
use stepsim_core::units::{Bandwidth, Time};

/// From `time` on, bytes pass a resource at a rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateChange {
    /// When.
    pub time: Time,
    /// The resource.
    pub resource: ResourceId,
    /// The new rate.
    pub rate: Bandwidth,
}

/// A stretch of an op in which nothing moves, and then bytes through some of the chosen resources.
#[derive(Debug)]
struct FlowStretch {
    latency: Time,
    /// Seconds of the moving part on an idle machine.
    moving_s: f64,
    /// (place among the chosen resources, bytes).
    bytes: Vec<(usize, f64)>,
}

/// The changes of rate of the chosen resources, in order of time.
pub fn rates(world: &World, record: &Record, chosen: &[ResourceId]) -> Vec<RateChange> {
    // Whole bytes per second, so that what begins and ends cancels to nothing.
    let mut changes: Vec<BTreeMap<Time, i64>> = vec![BTreeMap::new(); chosen.len()];
    uses(world, record, chosen, |place, (from, until), bytes| {
        let rate = (bytes / (until - from).s()).round() as i64;
        *changes[place].entry(from).or_insert(0) += rate;
        *changes[place].entry(until).or_insert(0) -= rate;
    });
    let mut all: Vec<RateChange> = Vec::new();
    for (&resource, changes) in chosen.iter().zip(changes) {
        let mut rate = 0i64;
        all.extend(changes.into_iter().filter(|(_, change)| *change != 0).map(|(time, change)| {
            rate += change;
            RateChange { time, resource, rate: Bandwidth(rate as f64) }
        }));
    }
    all.sort_by_key(|change| change.time);
    all
}

/// Calls back with what the ops of a run put through the chosen resources, in no special order: the place of the
/// resource among them, from when until when, and the bytes, which come evenly.
pub fn uses(
    world: &World,
    record: &Record,
    chosen: &[ResourceId],
    mut each: impl FnMut(usize, (Time, Time), f64),
) {
    let mut place = vec![usize::MAX; world.resources.len()];
    chosen.iter().enumerate().for_each(|(i, r)| place[r.index()] = i);
    for (rank, comms) in watched(world, &place) {
        let mut known: FxHashMap<(u16, TransferId), Vec<FlowStretch>> = FxHashMap::default();
        for (op, what) in (0..).zip(&world.program_of(rank).ops) {
            let Work::Comm { slot, transfer } = what.work else { continue };
            let Some(comm) = comms[usize::from(slot)] else { continue };
            let parts = known.entry((slot, transfer)).or_insert_with(|| parts(world, comm, transfer, &place));
            spread(parts, record.span(rank, OpId(op)), &mut each);
        }
    }
}

/// The communicators that cross resources which have a place, under their first member by its slots: all members begin
/// and end together.
fn watched(world: &World, place: &[usize]) -> BTreeMap<RankId, Vec<Option<CommId>>> {
    let mut watched = BTreeMap::new();
    for comm in (0..world.comms.len() as u32).map(CommId) {
        let crosses = |path| world.path(comm, path).iter().any(|(r, _)| place[r.index()] != usize::MAX);
        if !(0..world.comms[comm.index()].paths.len).any(crosses) {
            continue;
        }
        let Some(&rank) = world.members_of(comm).first() else { continue };
        let slots = world.slots_of(rank);
        let of_rank = watched.entry(rank).or_insert_with(|| vec![None; slots.len()]);
        if let Some(slot) = slots.iter().position(|c| *c == comm) {
            of_rank[slot] = Some(comm);
        }
    }
    watched
}

/// The parts of a transfer.
fn parts(world: &World, comm: CommId, transfer: TransferId, place: &[usize]) -> Vec<FlowStretch> {
    let part = |flow: &Flow| {
        let path = world.path(comm, flow.path);
        let slowest = |&(r, a): &(ResourceId, u32)| f64::from(a) / world.resources[r.index()].capacity.0;
        let per_byte = path.iter().map(slowest).fold(1.0 / flow.rate_limit, f64::max);
        let here = path.iter().filter(|(r, _)| place[r.index()] != usize::MAX);
        FlowStretch {
            latency: flow.latency,
            moving_s: flow.bytes * per_byte,
            bytes: here.map(|(r, a)| (place[r.index()], flow.bytes * f64::from(*a))).collect(),
        }
    };
    match idle::action(world, comm, transfer) {
        None | Some(Action::Fixed(_)) => Vec::new(),
        Some(Action::Phases(flows)) => flows.iter().map(part).collect(),
        Some(action @ (Action::Graph { .. } | Action::Rounds(_))) => {
            let played =
                |(flow, times): (&Flow, u32)| part(&Flow { bytes: flow.bytes * f64::from(times), ..*flow });
            let parts: Vec<FlowStretch> = action.counted().map(played).collect();
            let latency = parts.iter().map(|p| p.latency).min().unwrap_or_default();
            let bytes = parts.into_iter().flat_map(|p| p.bytes).collect();
            vec![FlowStretch { latency, moving_s: 1.0, bytes }]
        }
    }
}

/// Lays the parts over the span of an op.
fn spread(
    parts: &[FlowStretch],
    (start, end): (Time, Time),
    each: &mut impl FnMut(usize, (Time, Time), f64),
) {
    let latency: Time = parts.iter().map(|p| p.latency).sum();
    let moving: f64 = parts.iter().map(|p| p.moving_s).sum();
    let stretch = if moving > 0.0 { (end - start).saturating_sub(latency).s() / moving } else { 0.0 };
    let mut now = start;
    for part in parts {
        let from = now + part.latency;
        let until = (from + Time::from_s(part.moving_s * stretch)).min(end);
        now = until;
        if from < until {
            part.bytes.iter().for_each(|&(place, bytes)| each(place, (from, until), bytes));
        }
    }
}
