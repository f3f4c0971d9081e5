//! How long an action takes with the machine to itself; what a run adds to that is contention.
//!
//! A flow's time is `latency + bytes / min(rate limit, min over its path of capacity / coefficient)`. Phases follow
//! one another; a graph of flows takes its longest chain of such times.
//!
//! Hazards:
//! * The coefficients of a folded world count the communicators that were merged into one, so contention among
//!   merged ones is inside them. [`IdleTimes::unfolded`] looks the times up in the world before folding.
//! * In a graph, flows of one action that share a link are counted as contention.

use rustc_hash::FxHashMap;

use crate::ids::{CommId, TransferId};
use crate::program::{Action, Flow, World};
use crate::units::Time;

/// Looks up action times on idle resources; each is computed once.
pub struct IdleTimes<'a> {
    world: &'a World,
    original: Option<&'a [CommId]>,
    known: FxHashMap<(CommId, TransferId), Time>,
}

impl<'a> IdleTimes<'a> {
    /// Times of a world that is not folded.
    pub fn new(world: &'a World) -> IdleTimes<'a> {
        IdleTimes { world, original: None, known: FxHashMap::default() }
    }
    /// Times of a folded world: `original[comm]` is a communicator of the unfolded `world` that folded into `comm`.
    pub fn unfolded(world: &'a World, original: &'a [CommId]) -> IdleTimes<'a> {
        IdleTimes { world, original: Some(original), known: FxHashMap::default() }
    }
    /// The time of a transfer on a communicator of the analysed world; zero if the profile has no such action.
    pub fn get(&mut self, comm: CommId, transfer: TransferId) -> Time {
        let comm = self.original.map_or(comm, |o| o[comm.index()]);
        let world = self.world;
        *self.known.entry((comm, transfer)).or_insert_with(|| idle_time(world, comm, transfer))
    }
}

/// The action that a transfer is on a communicator, if its profile has one.
pub(crate) fn action(world: &World, comm: CommId, transfer: TransferId) -> Option<&Action> {
    let profile = &world.profiles[world.comms[comm.index()].profile as usize];
    match profile.get(transfer.index()) {
        Some(&i) if i != World::NO_ACTION => Some(&world.actions[i as usize]),
        _ => None,
    }
}

/// The time of a transfer on a communicator with all resources to itself.
pub fn idle_time(world: &World, comm: CommId, transfer: TransferId) -> Time {
    match action(world, comm, transfer) {
        None => Time::ZERO,
        Some(Action::Fixed(time)) => *time,
        Some(Action::Phases(flows)) => flows.iter().map(|f| flow_time(world, comm, f)).sum(),
        Some(Action::Graph { flows, parents, parent_ids }) => {
            let mut end = vec![Time::ZERO; flows.len()];
            for (i, flow) in flows.iter().enumerate() {
                let ready = parent_ids[parents[i].range()].iter().map(|&p| end[p as usize]).max();
                end[i] = ready.unwrap_or_default() + flow_time(world, comm, flow);
            }
            end.into_iter().max().unwrap_or_default()
        }
    }
}

fn flow_time(world: &World, comm: CommId, flow: &Flow) -> Time {
    let mut rate = flow.rate_limit;
    for &(resource, coefficient) in world.path(comm, flow.path) {
        rate = rate.min(world.resources[resource.index()].capacity.0 / f64::from(coefficient));
    }
    if flow.bytes <= 0.0 {
        return flow.latency;
    }
    flow.latency + Time::from_s(flow.bytes / rate)
}
