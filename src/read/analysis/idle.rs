//! How long an action takes with the machine to itself; what a run adds to that is contention.
//!
//! Hazards:
//! * The coefficients of a folded world count the communicators that were merged into one, so contention among
//!   merged ones is inside them. [`IdleTimes::unfolded`] looks the times up in the world before folding.
//! * A graph of flows is played alone once for each communicator that is asked about: flows of one action that share a
//!   link are no contention.

use rustc_hash::FxHashMap;

use stepsim_core::engine::uncontended;
use stepsim_core::ids::{CommId, ResourceId, TransferId};
use stepsim_core::program::{Action, World};
use stepsim_core::units::Time;

/// Looks up action times on idle resources; each is computed once.
pub struct IdleTimes<'a> {
    world: &'a World,
    original: Option<&'a [u32]>,
    known: FxHashMap<(CommId, TransferId), Time>,
    latencies: FxHashMap<(CommId, TransferId), Time>,
}

impl<'a> IdleTimes<'a> {
    /// Times of a world that is not folded.
    pub fn new(world: &'a World) -> IdleTimes<'a> {
        IdleTimes { world, original: None, known: FxHashMap::default(), latencies: FxHashMap::default() }
    }
    /// Times of a folded world: `original[comm]` is the number of a communicator of the unfolded `world` that folded
    /// into `comm` (`Folded::comms.representative`).
    pub fn unfolded(world: &'a World, original: &'a [u32]) -> IdleTimes<'a> {
        IdleTimes { original: Some(original), ..IdleTimes::new(world) }
    }
    /// The time of a transfer on a communicator of the analysed world; zero if the profile has no such action.
    pub fn get(&mut self, comm: CommId, transfer: TransferId) -> Time {
        let comm = self.original.map_or(comm, |o| CommId(o[comm.index()]));
        let compute = || uncontended::time_alone(self.world, comm, transfer.0).unwrap_or_default();
        *self.known.entry((comm, transfer)).or_insert_with(compute)
    }
    /// The part of it that no bandwidth shortens.
    pub fn latency(&mut self, comm: CommId, transfer: TransferId) -> Time {
        let comm = self.original.map_or(comm, |o| CommId(o[comm.index()]));
        let compute = || uncontended::latency_alone(self.world, comm, transfer.0).unwrap_or_default();
        *self.latencies.entry((comm, transfer)).or_insert_with(compute)
    }
    /// The resources that a transfer crosses, each with its bytes a second: merged ranks make none of them narrower.
    pub(super) fn links(&self, comm: CommId, transfer: TransferId) -> Vec<(ResourceId, f64)> {
        let comm = self.original.map_or(comm, |o| CommId(o[comm.index()]));
        let flows = action(self.world, comm, transfer).map(|action| action.flows()).unwrap_or_default();
        let crossed = flows.iter().flat_map(|flow| self.world.path(comm, flow.path));
        let rate = |link: &ResourceId| self.world.resources()[link.index()].capacity.0;
        crossed.map(|(link, times)| (*link, rate(link) / f64::from(*times))).collect()
    }
}

/// The action that a transfer is on a communicator, if its profile has one.
pub(crate) fn action(world: &World, comm: CommId, transfer: TransferId) -> Option<&Action> {
    let profile = &world.profiles[world.comms[comm.index()].profile as usize];
    world.actions.get(*profile.get(transfer.index())? as usize)
}
