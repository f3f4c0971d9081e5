//! Adds communicators to a world: picks an algorithm for each transfer and writes paths and actions.
//!
//! Cost: a communicator costs its routes (each once per pattern of the algorithms chosen for it) and two hash
//! look-ups; choosing and building actions happens once for each geometry and set of transfers.

use rustc_hash::FxHashMap;
use thiserror::Error;

use super::algorithm::{ALGORITHMS, Algorithm, Unsupported};
use super::geometry::{Fabric, Geometry, Layout, LinkClass, Network, measure};
use super::pattern::{Pattern, Route};
use super::schedule::{Adjust, Phase, Routes, routes_of, steps};
use super::table::MeasuredTable;
use super::tuning::DeviceTuning;
use super::{Op, Transfer};
use crate::ids::{CommId, DeviceId, RankId, ResourceId, TransferId};
use crate::program::{Action, Comm, Flow, Span, World};
use crate::units::Time;

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

/// What cannot be lowered.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CollectiveError {
    /// Two members have no route between them.
    #[error("the group is not connected: {0}")]
    NotConnected(String),
    /// The algorithm asked for cannot run on the group, or none can.
    #[error(transparent)]
    Unsupported(#[from] Unsupported),
    /// A group without members, or with a member twice.
    #[error("{0}")]
    BadGroup(String),
}

/// Which algorithm carries out a transfer, and how.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The algorithm.
    pub algorithm: &'static dyn Algorithm,
    /// Name of the wire protocol (`LL`, `LL128`, `Simple`), or `-` where protocols are not told apart.
    pub protocol: String,
    /// Pipeline chunks.
    pub chunks: u32,
    /// Compute units (SMs) that the communication kernel occupies on each device while it runs.
    pub sms: u32,
    /// Wire bytes for each byte of payload.
    pub overhead: f64,
    /// Paid once, when the kernel starts.
    pub base: Time,
    /// Expected time in seconds on an idle network.
    pub expected_s: f64,
}

impl Choice {
    /// The algorithm as theory has it: no protocol, no kernel.
    pub fn theory(
        algorithm: &'static dyn Algorithm,
        t: &Transfer,
        g: &Geometry,
        chunks: Option<u32>,
    ) -> Choice {
        let chunks = chunks.unwrap_or_else(|| algorithm.chunks(t, g)).max(1);
        let expected_s = algorithm.closed_form(t, g, chunks);
        let protocol = "-".into();
        Choice { algorithm, protocol, chunks, sms: 0, overhead: 1.0, base: Time::ZERO, expected_s }
    }
    /// The same algorithm, made to last as long as was measured: what does not fit in its latency and wire time comes
    /// first, and what is too long is taken from the wire time.
    fn lasting(self, measured_s: f64, t: &Transfer, g: &Geometry) -> Choice {
        let links_s = self.algorithm.closed_form(&Transfer { bytes: 0, ..*t }, g, self.chunks);
        let wire_s = self.algorithm.closed_form(t, g, self.chunks) - links_s;
        let rest_s = measured_s - links_s - wire_s * self.overhead;
        let overhead = if rest_s >= 0.0 || wire_s <= 0.0 {
            self.overhead
        } else {
            ((measured_s - links_s) / wire_s).max(0.0)
        };
        let expected_s = measured_s.max(links_s);
        Choice { base: Time::from_s(rest_s), overhead, expected_s, ..self }
    }
}

/// Picks algorithms.
#[derive(Clone, Debug, Default)]
pub enum Chooser {
    /// The best closed form among the algorithms that the group can run; costs as theory has them.
    #[default]
    Best,
    /// Always the same algorithm.
    Always {
        /// Which.
        algorithm: &'static dyn Algorithm,
        /// Its pipeline chunks; its own choice if absent.
        chunks: Option<u32>,
        /// What its kernels cost; as theory has it if absent.
        tuning: Option<&'static DeviceTuning>,
    },
    /// As NCCL does on an NVIDIA machine.
    Tuned(&'static DeviceTuning),
    /// Measured times where a table covers the op and the group; another chooser picks the algorithm, and decides
    /// alone elsewhere.
    Measured {
        /// The tables; the first that covers a transfer counts.
        tables: Vec<MeasuredTable>,
        /// Picks algorithms.
        otherwise: Box<Chooser>,
    },
}

impl Chooser {
    /// What a machine does by default: NCCL's choice where its devices are known there, else the best closed form.
    pub fn for_device(name: &str) -> Chooser {
        DeviceTuning::of(name).map_or(Chooser::Best, Chooser::Tuned)
    }

    /// Chooses for one transfer on one geometry.
    ///
    /// # Errors
    /// [`Unsupported`] if the algorithm asked for, or every algorithm, cannot run there.
    pub fn choose(&self, t: &Transfer, g: &Geometry) -> Result<Choice, Unsupported> {
        match self {
            Chooser::Always { algorithm, chunks, tuning } if t.op != Op::SendRecv => {
                let priced = match tuning {
                    Some(tuning) => tuning.price(*algorithm, t, g, *chunks),
                    None => Choice::theory(*algorithm, t, g, *chunks),
                };
                let unsupported = |why| Unsupported::new(algorithm.name(), why, t.op, g);
                algorithm.supports(t.op, g).map(|()| priced).map_err(unsupported)
            }
            Chooser::Tuned(tuning) | Chooser::Always { tuning: Some(tuning), .. } => {
                tuning.choose(t, g).ok_or_else(|| Unsupported::none(t.op, g))
            }
            Chooser::Measured { tables, otherwise } => {
                let choice = otherwise.choose(t, g)?;
                let table = tables.iter().find(|table| table.covers(t.op, g.size, g.nodes));
                Ok(match table {
                    Some(table) => choice.lasting(table.time(t.bytes), t, g),
                    None => choice,
                })
            }
            Chooser::Best | Chooser::Always { .. } => {
                let can = ALGORITHMS.iter().filter(|a| a.supports(t.op, g).is_ok());
                can.map(|a| Choice::theory(*a, t, g, None))
                    .min_by(|a, b| a.expected_s.total_cmp(&b.expected_s))
                    .ok_or_else(|| Unsupported::none(t.op, g))
            }
        }
    }
}

/// A transfer on groups of one geometry: the choice, and its schedule.
#[derive(Debug)]
struct Planned {
    transfer: TransferId,
    choice: Choice,
    phases: Vec<Phase>,
    /// For each phase, its path among the plan's fluid paths.
    path_of_phase: Vec<u32>,
}

/// What all groups of one geometry and one set of transfers share.
#[derive(Debug)]
struct Plan {
    geometry: Geometry,
    patterns: Vec<Pattern>,
    /// `fluid_paths[i]`: index into `patterns`, and weight.
    fluid_paths: Vec<Vec<(u32, u32)>>,
    planned: Vec<Planned>,
}

type ChannelKey = (Time, u64, Option<(LinkClass, bool)>, Box<[TransferId]>);

/// Adds communicators to worlds. See the module's text.
pub struct Lowering<'m> {
    net: &'m dyn Network,
    fabric: Fabric,
    fidelity: Fidelity,
    chooser: Chooser,
    transfers: Vec<Transfer>,
    transfer_ids: FxHashMap<Transfer, TransferId>,
    plans: Vec<Plan>,
    plan_ids: FxHashMap<(Geometry, Box<[TransferId]>), u32>,
    /// Profile of a plan whose patterns (or routes, in `steps`) have these latencies.
    profiles: FxHashMap<(u32, Box<[Time]>), u32>,
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

    /// The transfer of an id.
    pub fn transfer_of(&self, id: TransferId) -> Transfer {
        self.transfers[id.index()]
    }

    /// What a group on these devices looks like, and what would be chosen for a transfer on it.
    ///
    /// # Errors
    /// As [`Lowering::comm`].
    pub fn explain(&self, t: &Transfer, devices: &[DeviceId]) -> Result<(Geometry, Choice), CollectiveError> {
        let layout = measure(self.net, &self.fabric, devices).map_err(CollectiveError::NotConnected)?;
        let choice = self.chooser.choose(t, &layout.geometry)?;
        Ok((layout.geometry, choice))
    }

    /// What was chosen for a transfer on communicators of a profile; `None` for channels, copies and lone ranks.
    pub fn choice(&self, profile: u32, transfer: TransferId) -> Option<(&Geometry, &Choice)> {
        let plan = &self.plans[*self.plan_of_profile.get(&profile)? as usize];
        let planned = plan.planned.iter().find(|p| p.transfer == transfer)?;
        Some((&plan.geometry, &planned.choice))
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
            let between = self.net.node_of(devices[0]) != self.net.node_of(devices[1]);
            let rate = route_rate(self.net, &route);
            let link = LinkClass { latency, rate: rate.round() as u64 };
            let comm = self.add_channel(world, members, &route, latency, transfers, Some((link, between)));
            self.tally.route = route;
            return Ok(comm);
        }
        let layout = measure(self.net, &self.fabric, devices).map_err(CollectiveError::NotConnected)?;
        let plan = self.plan(&layout.geometry, transfers)?;
        let first = world.paths.len() as u32;
        let latencies = match self.fidelity {
            Fidelity::Formula => Vec::new(),
            Fidelity::Fluid => {
                fluid_paths(self.net, &self.plans[plan as usize], &layout, world, &mut self.tally)?
            }
            Fidelity::Steps => {
                step_paths(self.net, &self.plans[plan as usize], &layout, world, &mut self.tally)?
            }
        };
        let paths = Span { start: first, len: world.paths.len() as u32 - first };
        let key = (plan, latencies.into_boxed_slice());
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

    /// With `ends`, the transfers are sends over such a link, inside a node or between nodes, by a kernel that the
    /// chooser knows the cost of.
    fn add_channel(
        &mut self,
        world: &mut World,
        members: &[RankId],
        route: &[ResourceId],
        latency: Time,
        transfers: &[TransferId],
        ends: Option<(LinkClass, bool)>,
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

    /// The actions of channels: of fixed time at a rate, or flows of which each of `parts` carries its share.
    fn channel_profile(&self, world: &mut World, key: &ChannelKey, rate: Option<f64>, parts: f64) -> u32 {
        let (latency, _, ends, transfers) = key;
        let actions = transfers.iter().map(|&t| {
            let transfer = &self.transfers[t.index()];
            let choice = ends.and_then(|(link, between)| {
                self.chooser.choose(transfer, &Geometry::pair(link, between)).ok()
            });
            let (base, overhead) = choice.map_or((Time::ZERO, 1.0), |c| (c.base, c.overhead));
            let (latency, bytes) = (*latency + base, transfer.bytes as f64 * overhead / parts);
            let action = match rate {
                Some(rate) => Action::Fixed(latency + Time::from_s(bytes / rate)),
                None => Action::Phases(vec![Flow { latency, bytes, rate_limit: f64::INFINITY, path: 0 }]),
            };
            (t, action)
        });
        push_profile(world, actions)
    }

    /// The plan of a geometry and a set of transfers.
    fn plan(&mut self, geometry: &Geometry, transfers: &[TransferId]) -> Result<u32, Unsupported> {
        let key = (geometry.clone(), transfers.into());
        if let Some(&plan) = self.plan_ids.get(&key) {
            return Ok(plan);
        }
        let mut plan =
            Plan { geometry: geometry.clone(), patterns: vec![], fluid_paths: vec![], planned: vec![] };
        for &transfer in transfers {
            let t = self.transfers[transfer.index()];
            let choice = self.chooser.choose(&t, geometry)?;
            let phases = choice.algorithm.phases(&t, geometry, choice.chunks);
            let path_of_phase = phases.iter().map(|phase| plan.fluid_path(phase)).collect();
            plan.planned.push(Planned { transfer, choice, phases, path_of_phase });
        }
        self.plans.push(plan);
        let id = self.plans.len() as u32 - 1;
        self.plan_ids.insert(key, id);
        Ok(id)
    }

    /// The actions of a plan on routes with these latencies.
    fn build_profile(&self, world: &mut World, plan: u32, latencies: &[Time]) -> u32 {
        let plan = &self.plans[plan as usize];
        let parts = f64::from(self.net.parts());
        let actions = plan.planned.iter().map(|p| {
            let action = match self.fidelity {
                Fidelity::Formula => Action::Fixed(Time::from_s(p.choice.expected_s)),
                Fidelity::Fluid => plan.fluid_action(p, parts, latencies),
                Fidelity::Steps => plan.step_action(p, parts, &self.transfers[p.transfer.index()], latencies),
            };
            (p.transfer, action)
        });
        push_profile(world, actions)
    }
}

impl Plan {
    /// The index of a phase's path among the fluid paths, added if new.
    fn fluid_path(&mut self, phase: &Phase) -> u32 {
        let weights: Vec<(u32, u32)> =
            phase.fluid().1.into_iter().map(|(pattern, weight)| (self.pattern(pattern), weight)).collect();
        let at = self.fluid_paths.iter().position(|p| *p == weights).unwrap_or_else(|| {
            self.fluid_paths.push(weights);
            self.fluid_paths.len() - 1
        });
        at as u32
    }
    fn pattern(&mut self, pattern: Pattern) -> u32 {
        let at = self.patterns.iter().position(|p| *p == pattern).unwrap_or_else(|| {
            self.patterns.push(pattern);
            self.patterns.len() - 1
        });
        at as u32
    }
    fn index_of(&self, pattern: Pattern) -> usize {
        self.patterns.iter().position(|p| *p == pattern).unwrap_or(0)
    }

    /// One flow for each phase. `latencies[pattern]` is the latency of one round.
    fn fluid_action(&self, p: &Planned, parts: f64, latencies: &[Time]) -> Action {
        let mut base = p.choice.base;
        let flows = p.phases.iter().zip(&p.path_of_phase).map(|(phase, &path)| {
            let bytes = phase.fluid().0 * p.choice.overhead / parts;
            // What fills and drains a pipeline holds no link for long: it is paid as latency.
            let filling =
                f64::from(phase.fill) * phase.unit * p.choice.overhead / self.geometry.flat().bandwidth();
            let latency =
                phase.latency(|pattern| latencies[self.index_of(pattern)]) + Time::from_s(filling) + base;
            base = Time::ZERO;
            Flow { latency, bytes, rate_limit: f64::INFINITY, path }
        });
        Action::Phases(flows.collect())
    }

    /// One flow for each transfer. `latencies[path]` is the latency of a route.
    fn step_action(&self, p: &Planned, parts: f64, t: &Transfer, latencies: &[Time]) -> Action {
        let mut first = Vec::with_capacity(self.patterns.len());
        let mut next = 1;
        for &pattern in &self.patterns {
            first.push(next);
            next += routes_of(pattern, &self.geometry);
        }
        let routes =
            Routes { first: &|pattern| first[self.index_of(pattern)], latency: latencies, nothing: 0 };
        let adjust = Adjust {
            scale: p.choice.overhead / parts,
            extra: Time::ZERO,
            base: p.choice.base,
            rate_limit: f64::INFINITY,
        };
        let choice = &p.choice;
        let own = choice.algorithm.steps(t, &self.geometry, choice.chunks, &routes, adjust);
        own.unwrap_or_else(|| steps(&p.phases, &self.geometry, &routes, adjust))
    }
}

/// Bytes per second over a route, each of its parts at once.
fn route_rate(net: &dyn Network, route: &[ResourceId]) -> f64 {
    let crossings = |r: &ResourceId| route.iter().filter(|q| *q == r).count() as f64;
    let parts = f64::from(net.parts());
    route.iter().map(|r| net.capacity(*r).0 * parts / crossings(r)).fold(f64::INFINITY, f64::min)
}

/// Adds a row of actions to the world.
fn push_profile(world: &mut World, actions: impl Iterator<Item = (TransferId, Action)>) -> u32 {
    let mut row = Vec::new();
    for (transfer, action) in actions {
        if row.len() <= transfer.index() {
            row.resize(transfer.index() + 1, World::NO_ACTION);
        }
        row[transfer.index()] = world.actions.len() as u32;
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

/// Counts how often a path crosses each resource; kept between paths so that nothing is allocated for one.
#[derive(Default)]
struct Tally {
    count: Vec<u32>,
    seen: Vec<ResourceId>,
    route: Vec<ResourceId>,
    tree: Vec<ResourceId>,
}

impl Tally {
    /// Starts a path; returns where its uses begin.
    fn begin(&mut self, world: &World) -> u32 {
        self.seen.clear();
        world.uses.len() as u32
    }
    fn add(&mut self, resource: ResourceId, weight: u32) {
        if self.count.len() <= resource.index() {
            self.count.resize(resource.index() + 1, 0);
        }
        let count = &mut self.count[resource.index()];
        if *count == 0 {
            self.seen.push(resource);
        }
        *count += weight;
    }
    /// Ends the path and adds it to the world.
    fn end(&mut self, world: &mut World, begin: u32) {
        for &r in &self.seen {
            world.uses.push((r, std::mem::take(&mut self.count[r.index()])));
        }
        world.paths.push(Span { start: begin, len: self.seen.len() as u32 });
    }

    /// Adds a route's resources, `weight` times each; returns its latency.
    fn add_route(
        &mut self,
        net: &dyn Network,
        layout: &Layout,
        route: Route<'_>,
        weight: u32,
    ) -> Result<Time, CollectiveError> {
        match route {
            Route::Walk(walk) => self.add_walk(net, layout, walk, weight),
            Route::Gather(at) => self.add_tree(net, layout, at, true, weight),
            Route::Scatter(at) => self.add_tree(net, layout, at, false, weight),
        }
    }
    fn add_walk(
        &mut self,
        net: &dyn Network,
        layout: &Layout,
        walk: &[u32],
        weight: u32,
    ) -> Result<Time, CollectiveError> {
        let mut latency = Time::ZERO;
        let mut route = std::mem::take(&mut self.route);
        for hop in walk.windows(2) {
            route.clear();
            let (from, to) = (layout.devices[hop[0] as usize], layout.devices[hop[1] as usize]);
            latency += net.route(from, to, &mut route).map_err(CollectiveError::NotConnected)?;
            route.iter().for_each(|&r| self.add(r, weight));
        }
        self.route = route;
        Ok(latency)
    }
    /// A tree over a switch: each link of the routes between `at` and all members once, and `at`'s own port on the
    /// other side as well, since its contribution passes the switch too.
    fn add_tree(
        &mut self,
        net: &dyn Network,
        layout: &Layout,
        at: u32,
        gather: bool,
        weight: u32,
    ) -> Result<Time, CollectiveError> {
        let mut latency = Time::ZERO;
        let mut route = std::mem::take(&mut self.route);
        let mut tree = std::mem::take(&mut self.tree);
        tree.clear();
        let here = layout.devices[at as usize];
        for (i, &there) in layout.devices.iter().enumerate().filter(|&(i, _)| i != at as usize) {
            route.clear();
            let (from, to) = if gather { (there, here) } else { (here, there) };
            latency = latency.max(net.route(from, to, &mut route).map_err(CollectiveError::NotConnected)?);
            tree.extend_from_slice(&route);
            if i == usize::from(at == 0) {
                route.clear();
                net.route(to, from, &mut route).map_err(CollectiveError::NotConnected)?;
                tree.extend(if gather { route.first() } else { route.last() });
            }
        }
        tree.sort_unstable();
        tree.dedup();
        tree.iter().for_each(|&r| self.add(r, weight));
        (self.route, self.tree) = (route, tree);
        Ok(latency)
    }
}

/// Adds one path for each of the plan's fluid paths; returns the largest route latency of each pattern.
fn fluid_paths(
    net: &dyn Network,
    plan: &Plan,
    layout: &Layout,
    world: &mut World,
    tally: &mut Tally,
) -> Result<Vec<Time>, CollectiveError> {
    let mut latencies = vec![Time::ZERO; plan.patterns.len()];
    for parts in &plan.fluid_paths {
        let begin = tally.begin(world);
        for &(pattern, weight) in parts {
            let mut result = Ok(());
            let mut worst = [Time::ZERO; 3];
            let pattern_of = plan.patterns[pattern as usize];
            pattern_of.links(&plan.geometry, &mut |route, times, leg| {
                if result.is_ok() {
                    match tally.add_route(net, layout, route, weight * times) {
                        Ok(latency) => worst[leg] = latency.max(worst[leg]),
                        Err(e) => result = Err(e),
                    }
                }
            });
            let legs = pattern_of.legs(&plan.geometry);
            latencies[pattern as usize] =
                worst.into_iter().zip(legs).map(|(t, hops)| t * u64::from(hops)).sum();
            result?;
        }
        tally.end(world, begin);
    }
    Ok(latencies)
}

/// Adds an empty path, then one for each route of each pattern; returns the latency of each.
fn step_paths(
    net: &dyn Network,
    plan: &Plan,
    layout: &Layout,
    world: &mut World,
    tally: &mut Tally,
) -> Result<Vec<Time>, CollectiveError> {
    let begin = tally.begin(world);
    tally.end(world, begin);
    let mut latencies = vec![Time::ZERO];
    for pattern in &plan.patterns {
        let mut result = Ok(());
        pattern.routes(&plan.geometry, &mut |route, _| {
            if result.is_ok() {
                let begin = tally.begin(world);
                match tally.add_route(net, layout, route, 1) {
                    Ok(latency) => latencies.push(latency),
                    Err(e) => result = Err(e),
                }
                tally.end(world, begin);
            }
        });
        result?;
    }
    Ok(latencies)
}
