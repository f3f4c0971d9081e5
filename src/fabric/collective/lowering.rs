//! Adds communicators to a world: picks an algorithm for each transfer and writes paths and actions.
//!
//! Cost: a communicator costs its routes (each once per pattern of the algorithms chosen for it) and two hash
//! look-ups; choosing and building actions happens once for each geometry and set of transfers.

use rustc_hash::FxHashMap;

use super::choice::AlgorithmChoice;
use super::chooser::Chooser;
use super::error::CollectiveError;
use super::geometry::{DomainWiring, EndDistance, Geometry, NeighbourLink};
use super::latency::Latency;
use super::network::Network;
use super::paths::{Tally, fluid_paths, step_paths};
use super::plan::GroupPlan;
use super::probe::measure;
use super::unsupported::UnsupportedAlgorithm;
use super::{Op, Transfer};
use stepsim_core::ids::{CommId, DeviceId, RankId, ResourceId, TransferId};
use stepsim_core::program::{Action, Comm, Flow, Span, World};
use stepsim_core::units::Time;

/// How finely collectives are played out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Fidelity {
    /// A fixed time by the closed form; no link is used.
    Formula,
    /// One activity for each phase over all its links.
    #[default]
    Fluid,
    /// Every transfer of every round is a flow.
    Steps,
}

/// The costs on the routes of a communicator at one fidelity.
#[derive(PartialEq, Eq, Hash)]
enum Latencies {
    /// It does not.
    Unasked,
    /// By pattern.
    Patterns(Box<[Latency]>),
    /// By path.
    Paths(Box<[Time]>),
}

type ChannelKey = (Time, u64, Option<(NeighbourLink, EndDistance)>, Box<[TransferId]>);

/// Adds communicators to worlds. See the module's text.
pub struct Lowering<'m> {
    pub(super) net: &'m dyn Network,
    pub(super) fabric: DomainWiring,
    fidelity: Fidelity,
    chooser: Chooser,
    transfers: Vec<Transfer>,
    transfer_ids: FxHashMap<Transfer, TransferId>,
    plans: Vec<GroupPlan>,
    plan_ids: FxHashMap<(Geometry, Box<[TransferId]>), u32>,
    /// Profile of a plan whose patterns (or routes, in `steps`) have these latencies.
    profiles: FxHashMap<(u32, Latencies), u32>,
    /// Profile of channels with this latency, rate (as bits, where times are fixed), link of a send, and transfers.
    channels: FxHashMap<ChannelKey, u32>,
    last_channel: Option<(ChannelKey, u32)>,
    plan_of_profile: FxHashMap<u32, u32>,
    tally: Tally,
}

impl<'m> Lowering<'m> {
    /// For one machine.
    pub fn new(net: &'m dyn Network, fidelity: Fidelity, chooser: Chooser) -> Lowering<'m> {
        Lowering {
            net,
            fabric: net.fabric(),
            fidelity,
            chooser,
            transfers: Vec::new(),
            transfer_ids: FxHashMap::default(),
            plans: Vec::new(),
            plan_ids: FxHashMap::default(),
            profiles: FxHashMap::default(),
            channels: FxHashMap::default(),
            last_channel: None,
            plan_of_profile: FxHashMap::default(),
            tally: Tally::default(),
        }
    }

    /// The id by which programs name a transfer; equal transfers have one id.
    pub fn transfer(&mut self, t: Transfer) -> TransferId {
        *self.transfer_ids.entry(t).or_insert_with(|| {
            self.transfers.push(t);
            TransferId(self.transfers.len() as u32 - 1)
        })
    }

    /// All transfers, in the order of their ids.
    pub fn transfers(&self) -> &[Transfer] {
        &self.transfers
    }

    /// The transfer of an id.
    pub fn transfer_of(&self, id: TransferId) -> Transfer {
        self.transfers[id.index()]
    }

    /// The geometry of a group on these devices, and the choice for a transfer on it.
    ///
    /// # Errors
    /// As [`Lowering::comm`].
    pub fn explain(
        &self,
        t: &Transfer,
        devices: &[DeviceId],
    ) -> Result<(Geometry, AlgorithmChoice), CollectiveError> {
        let layout = measure(self.net, &self.fabric, devices).map_err(CollectiveError::NotConnected)?;
        let choice = self.chooser.choose(t, &layout.geometry)?;
        Ok((layout.geometry, choice))
    }

    /// The plan of a profile, if it does `transfer`; `None` for channels, copies and lone ranks.
    pub(super) fn plan_of(&self, profile: u32, transfer: TransferId) -> Option<&GroupPlan> {
        let plan = &self.plans[*self.plan_of_profile.get(&profile)? as usize];
        plan.planned.iter().any(|p| p.transfer == transfer).then_some(plan)
    }

    /// Adds a communicator of `members` on `devices` (in the same order) that will do `transfers` (no other).
    /// For [`Op::SendRecv`] the first member sends to the second.
    ///
    /// # Errors
    /// [`CollectiveError`]: the group is empty, unconnected, or no algorithm fits.
    pub fn comm(
        &mut self,
        world: &mut World,
        members: &[RankId],
        devices: &[DeviceId],
        transfers: &[TransferId],
    ) -> Result<CommId, CollectiveError> {
        if members.is_empty() || members.len() != devices.len() {
            return Err(CollectiveError::BadGroup(format!(
                "a communicator has {} member(s) on {} device(s): give one device for each of at least one member",
                members.len(),
                devices.len()
            )));
        }
        if members.len() == 1 {
            return Ok(self.add_channel(world, members, &[], Time::ZERO, transfers, None));
        }
        if members.len() == 2 && transfers.iter().all(|t| self.transfers[t.index()].op == Op::SendRecv) {
            let mut route = std::mem::take(&mut self.tally.route);
            route.clear();
            let latency =
                self.net.route(devices[0], devices[1], &mut route).map_err(CollectiveError::NotConnected)?;
            let apart = EndDistance::of(self.net, devices[0], devices[1]);
            let rate = route_rate(self.net, &route);
            let link = NeighbourLink { latency, rate: rate.round() as u64 };
            let comm = self.add_channel(world, members, &route, latency, transfers, Some((link, apart)));
            self.tally.route = route;
            return Ok(comm);
        }
        let layout = measure(self.net, &self.fabric, devices).map_err(CollectiveError::NotConnected)?;
        let plan = self.plan(&layout.geometry, transfers)?;
        let first = world.paths.len() as u32;
        let latencies = match self.fidelity {
            Fidelity::Formula => Latencies::Unasked,
            Fidelity::Fluid => {
                let paths =
                    fluid_paths(self.net, &self.plans[plan as usize], &layout, world, &mut self.tally)?;
                Latencies::Patterns(paths.into())
            }
            Fidelity::Steps => {
                let paths =
                    step_paths(self.net, &self.plans[plan as usize], &layout, world, &mut self.tally)?;
                Latencies::Paths(paths.into())
            }
        };
        let paths = Span { start: first, len: world.paths.len() as u32 - first };
        let key = (plan, latencies);
        let profile = match self.profiles.get(&key) {
            Some(&p) => p,
            None => {
                let p = self.build_profile(world, plan, &key.1);
                self.plan_of_profile.insert(p, plan);
                self.profiles.insert(key, p);
                p
            }
        };
        Ok(push_comm(world, members, profile, paths))
    }

    /// Adds a communicator whose transfers each take one given route without any kernel: a copy between tiers (one
    /// member). An empty route takes no time beyond the latency.
    pub fn channel(
        &mut self,
        world: &mut World,
        members: &[RankId],
        route: &[ResourceId],
        latency: Time,
        transfers: &[TransferId],
    ) -> CommId {
        self.add_channel(world, members, route, latency, transfers, None)
    }

    /// With `ends`, the transfers are sends over such a link between ends so far apart, by a kernel that the
    /// chooser knows the cost of.
    fn add_channel(
        &mut self,
        world: &mut World,
        members: &[RankId],
        route: &[ResourceId],
        latency: Time,
        transfers: &[TransferId],
        ends: Option<(NeighbourLink, EndDistance)>,
    ) -> CommId {
        let fixed = route.is_empty() || self.fidelity == Fidelity::Formula;
        let parts = if ends.is_some() { f64::from(self.net.parts()) } else { 1.0 };
        let rate = if fixed { route_rate(self.net, route) / parts } else { 0.0 };
        // Channels come in long runs of equal ones: most find their profile without a look-up.
        let profile = match &self.last_channel {
            Some((key, profile))
                if (key.0, key.1, key.2, &*key.3) == (latency, rate.to_bits(), ends, transfers) =>
            {
                *profile
            }
            _ => {
                let key: ChannelKey = (latency, rate.to_bits(), ends, transfers.into());
                let profile = match self.channels.get(&key) {
                    Some(profile) => *profile,
                    None => self.channel_profile(world, &key, fixed.then_some(rate), parts),
                };
                self.channels.insert(key.clone(), profile);
                self.last_channel = Some((key, profile));
                profile
            }
        };
        let first = world.paths.len() as u32;
        if !fixed {
            let begin = self.tally.begin(world);
            route.iter().for_each(|&r| self.tally.add(r, 1));
            self.tally.end(world, begin);
        }
        let paths = Span { start: first, len: world.paths.len() as u32 - first };
        push_comm(world, members, profile, paths)
    }

    /// The actions of channels: of fixed time at a rate, or as flows that each carry their share (`parts`).
    fn channel_profile(&self, world: &mut World, key: &ChannelKey, rate: Option<f64>, parts: f64) -> u32 {
        let (latency, _, ends, transfers) = key;
        let actions = transfers.iter().map(|&t| {
            let transfer = &self.transfers[t.index()];
            let choice = ends
                .and_then(|(link, apart)| self.chooser.choose(transfer, &Geometry::pair(link, apart)).ok());
            let (base, overhead) = choice.map_or((Time::ZERO, 1.0), |c| (c.base, c.overhead));
            let (latency, bytes) = (*latency + base, transfer.bytes as f64 * overhead / parts);
            let action = match rate {
                Some(rate) => Action::Fixed(latency + Time::from_s(bytes / rate)),
                None => Action::Phases(vec![Flow { latency, bytes, rate_limit: f64::INFINITY, path: 0 }]),
            };
            (t, action, 1000)
        });
        push_profile(world, actions)
    }

    /// Compute units of a choice in thousandths of the usual.
    fn units(&self, choice: &AlgorithmChoice) -> u16 {
        match self.chooser.kernel_units() {
            0 => 1000,
            usual => (choice.sms * 1000 / usual).min(60_000) as u16,
        }
    }

    /// The plan of a geometry and a set of transfers.
    fn plan(&mut self, geometry: &Geometry, transfers: &[TransferId]) -> Result<u32, UnsupportedAlgorithm> {
        let key = (geometry.clone(), transfers.into());
        if let Some(&plan) = self.plan_ids.get(&key) {
            return Ok(plan);
        }
        let mut plan = GroupPlan::new(geometry.clone());
        for &transfer in transfers {
            let t = self.transfers[transfer.index()];
            plan.add(transfer, &t, self.chooser.choose(&t, geometry)?, self.fidelity == Fidelity::Steps);
        }
        self.plans.push(plan);
        let id = self.plans.len() as u32 - 1;
        self.plan_ids.insert(key, id);
        Ok(id)
    }

    /// The actions of a plan on routes with these latencies.
    fn build_profile(&self, world: &mut World, plan: u32, latencies: &Latencies) -> u32 {
        let plan = &self.plans[plan as usize];
        let parts = f64::from(self.net.parts());
        let actions = plan.planned.iter().map(|p| {
            let t = &self.transfers[p.transfer.index()];
            let action = match latencies {
                Latencies::Unasked => Action::Fixed(Time::from_s(p.choice.expected_s)),
                Latencies::Patterns(latencies) => plan.fluid_action(p, parts, t, latencies),
                Latencies::Paths(latencies) => plan.step_action(p, parts, t, latencies),
            };
            (p.transfer, action, self.units(&p.choice))
        });
        push_profile(world, actions)
    }
}

/// Bytes per second over a route, each of its parts at once.
fn route_rate(net: &dyn Network, route: &[ResourceId]) -> f64 {
    let crossings = |r: &ResourceId| route.iter().filter(|q| *q == r).count() as f64;
    let parts = f64::from(net.parts());
    route.iter().map(|r| net.capacity(*r).0 * parts / crossings(r)).fold(f64::INFINITY, f64::min)
}

/// Adds a row of actions to the world.
fn push_profile(world: &mut World, actions: impl Iterator<Item = (TransferId, Action, u16)>) -> u32 {
    let mut row = Vec::new();
    for (transfer, action, units) in actions {
        if row.len() <= transfer.index() {
            row.resize(transfer.index() + 1, World::NO_ACTION);
        }
        row[transfer.index()] = world.actions.len() as u32;
        world.action_units.resize(world.actions.len(), 1000);
        world.action_units.push(units);
        world.actions.push(action);
    }
    world.profiles.push(row);
    world.profiles.len() as u32 - 1
}

fn push_comm(world: &mut World, members: &[RankId], profile: u32, paths: Span) -> CommId {
    let span = Span { start: world.members.len() as u32, len: members.len() as u32 };
    world.members.extend_from_slice(members);
    world.comms.push(Comm { needed: span.len, profile, members: span, paths });
    CommId(world.comms.len() as u32 - 1)
}

impl Geometry {
    /// The geometry of a group of devices on a machine.
    ///
    /// # Errors
    /// Two members have no route between them.
    pub fn of(net: &dyn Network, devices: &[DeviceId]) -> Result<Geometry, CollectiveError> {
        let layout = measure(net, &net.fabric(), devices).map_err(CollectiveError::NotConnected)?;
        Ok(layout.geometry)
    }
}
