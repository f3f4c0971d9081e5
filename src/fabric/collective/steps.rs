//! Every transfer of an algorithm as a flow that waits for what it needs and for nothing else.
//!
//! A transfer *waits* until its sender holds what it sends: until the flows have ended by which it received since it
//! last sent. It *queues* behind the flows by which its sender last sent and its receiver last received, as one port
//! carries one message after the other: its latency may run before those are over, its bytes not. Chains of transfers
//! (rings side by side, slices of one ring) hold bytes of their own; slices share the ports of their ring, rings do
//! not.

use super::geometry::Geometry;
use super::pattern::Route;
use super::schedule::{Adjust, PatternRoutes, RepeatedPattern, RoundGroup, limit, routes_of};
use stepsim_core::program::{Action, BEHIND, Flow, Rounds};
use stepsim_core::units::Time;

/// A position that more flows than this touched in a round gets a join: a flow of no bytes that waits for them all,
/// so that its next transfers have one parent each.
const JOIN_ABOVE: usize = 16;

/// Every transfer of the phases as a flow.
pub(super) fn steps(
    phases: &[RoundGroup],
    g: &Geometry,
    routes: &PatternRoutes<'_>,
    adjust: Adjust,
) -> Action {
    let lanes = phases.iter().flat_map(|p| p.parts.iter().map(|q| q.lane)).max().unwrap_or(0);
    let mut lanes: Vec<StepLane> = (0..=lanes).map(|number| StepLane::new(number, phases)).collect();
    let mut steps = FlowWriter { graph: Rounds::default(), g, routes, adjust };
    for (i, phase) in phases.iter().enumerate() {
        for lane in &mut lanes {
            steps.rounds(phase, lane, lane.last_phase == Some(i));
        }
    }
    steps.graph.into()
}

/// Flows of the round at hand and of earlier rounds that later flows wait for or queue behind.
#[derive(Clone, Debug, Default)]
struct Flows {
    before: Vec<u32>,
    now: Vec<u32>,
    /// True if something was sent on after the flows of `before`.
    used: bool,
}

/// Parts that wait for each other.
struct StepLane {
    number: u16,
    /// The last phase that has a part of it.
    last_phase: Option<usize>,
    chains: u32,
    slices: u32,
    /// By slice, chain and position: what brought the bytes that the position has not sent on.
    held: Vec<Flows>,
    /// By chain and position, first for sending, then for receiving: what the port carried last.
    ports: Vec<Flows>,
    /// The places of `held` and `ports` that the round at hand touched.
    touched: [Vec<usize>; 2],
}

impl StepLane {
    fn new(number: u16, phases: &[RoundGroup]) -> StepLane {
        let last_phase = phases.iter().rposition(|phase| phase.parts.iter().any(|part| part.lane == number));
        let (held, ports, touched) = Default::default();
        StepLane { number, last_phase, chains: 0, slices: 0, held, ports, touched }
    }
    /// Divides it into chains and slices. Where a phase is divided otherwise than the one before, each of its
    /// transfers waits for all chains and slices before it at its position.
    fn divide(&mut self, chains: u32, slices: u32, n: u32) {
        if (self.chains, self.slices) == (chains, slices) {
            return;
        }
        let all = |old: &[Flows], kinds: usize, copies: u32| -> Vec<Flows> {
            let of_kind = old.len() / kinds;
            let merged = |kind: usize| (0..n as usize).map(move |at| (kind, at));
            let union = |(kind, at): (usize, usize)| {
                let own = old[kind * of_kind..(kind + 1) * of_kind].iter().skip(at).step_by(n as usize);
                let mut before: Vec<u32> = own.flat_map(|flows| flows.before.iter().copied()).collect();
                before.sort_unstable();
                Flows { before, ..Flows::default() }
            };
            let copied = (0..kinds).flat_map(|kind| (0..copies).flat_map(move |_| merged(kind)));
            copied.map(union).collect()
        };
        self.held = all(&self.held, 1, chains * slices);
        self.ports = all(&self.ports, 2, chains);
        (self.chains, self.slices) = (chains, slices);
    }
    /// Notes a flow of the round at hand: what of `held` and of `ports` it touches.
    fn note(&mut self, flow: u32, held: usize, ports: [usize; 2]) {
        let [places, port_places] = &mut self.touched;
        let add = |flows: &mut [Flows], place: usize, touched: &mut Vec<usize>| {
            if flows[place].now.is_empty() {
                touched.push(place);
            }
            flows[place].now.push(flow);
        };
        add(&mut self.held, held, places);
        for port in ports {
            add(&mut self.ports, port, port_places);
            self.ports[port].used = true;
        }
    }
}

/// The flows of an action, being written.
struct FlowWriter<'a> {
    graph: Rounds,
    g: &'a Geometry,
    routes: &'a PatternRoutes<'a>,
    adjust: Adjust,
}

impl FlowWriter<'_> {
    /// The rounds of one lane of a phase; what its `last` one touches does not matter to any other.
    fn rounds(&mut self, phase: &RoundGroup, lane: &mut StepLane, last: bool) {
        let parts: Vec<&RepeatedPattern> = phase.parts.iter().filter(|p| p.lane == lane.number).collect();
        let Some(rounds) = parts.iter().map(|p| p.times).max() else {
            return;
        };
        let chains = parts.iter().map(|part| part.pattern.chains(self.g)).max().unwrap_or(1);
        lane.divide(chains, phase.slices, self.g.size);
        let mut round = 0;
        while round < rounds {
            let begin = self.graph.len();
            for slice in 0..phase.slices {
                let goes_on = !last || round + 1 < rounds || slice + 1 < phase.slices;
                parts.iter().for_each(|part| self.round(phase, part, [round, slice], lane, goes_on));
                self.join(lane);
            }
            round += 1;
            // A round that waits only for the one before it, of the same make, can be repeated as a block.
            let size = self.graph.len() - begin;
            let until = parts.iter().map(|p| p.times).filter(|&t| t >= round).min().unwrap_or(round);
            let steady =
                until > round && begin >= size && size > 0 && self.graph.last_wait_from(size, begin - size);
            if steady && round > 1 {
                self.graph.repeat(size, until - round);
                let offset = (until - round) * size;
                let all = lane.held.iter_mut().chain(&mut lane.ports).flat_map(|flows| &mut flows.before);
                all.filter(|id| **id >= begin).for_each(|id| *id += offset);
                round = until;
            }
        }
    }

    /// The transfers of a slice of a part in one round.
    fn round(
        &mut self,
        phase: &RoundGroup,
        part: &RepeatedPattern,
        [round, slice]: [u32; 2],
        lane: &mut StepLane,
        goes_on: bool,
    ) {
        let FlowWriter { graph, g, routes, adjust } = self;
        let mut path = (routes.first)(part.pattern);
        let per_chain = match part.pattern.chains(g) {
            1 => u32::MAX,
            chains => routes_of(part.pattern, g) / chains,
        };
        let unit = phase.unit / f64::from(phase.slices);
        let (mut index, mut waits) = (0, Vec::new());
        part.pattern.routes(g, &mut |route: Route<'_>, weight| {
            let chain = index / per_chain;
            index += 1;
            path += 1;
            if round >= part.times {
                return;
            }
            let (from, to) = (route.sender(), route.receiver());
            let held = |at: u32| (((slice * lane.chains + chain) * g.size) + at) as usize;
            let sends = (chain * g.size + from) as usize;
            let receives = ((lane.chains + chain) * g.size + to) as usize;
            waits.clear();
            lane.held[held(from)].used = true;
            waits.extend_from_slice(&lane.held[held(from)].before);
            let data = waits.len();
            for port in [sends, receives] {
                for flow in &lane.ports[port].before {
                    if !waits.contains(flow) && !waits.contains(&(flow | BEHIND)) {
                        waits.push(flow | BEHIND);
                    }
                }
            }
            let base = if data == 0 { adjust.base } else { Time::ZERO };
            let bytes = unit * f64::from(part.weight * weight) * adjust.scale;
            let latency = routes.latency[path as usize - 1] + adjust.extra + base;
            let flow = Flow { latency, bytes, rate_limit: limit(bytes, adjust.least), path: path - 1 };
            let id = graph.flow(flow, &waits);
            if goes_on {
                let held = held(to);
                lane.note(id, held, [sends, receives]);
            }
        });
    }

    /// Ends a round: what it touched is what the next one waits for.
    fn join(&mut self, lane: &mut StepLane) {
        for (flows, touched) in [&mut lane.held, &mut lane.ports].into_iter().zip(&mut lane.touched) {
            touched.sort_unstable();
            // A flow that was sent on is not waited for again; nor is the flow that a port carried before.
            for place in touched.drain(..) {
                let Flows { before, now, used } = &mut flows[place];
                if *used {
                    before.clear();
                }
                before.append(now);
                *used = false;
                if before.len() > JOIN_ABOVE {
                    let path = self.routes.nothing;
                    let join = Flow { latency: Time::ZERO, bytes: 0.0, rate_limit: f64::INFINITY, path };
                    let id = self.graph.flow(join, before);
                    before.clear();
                    before.push(id);
                }
            }
        }
    }
}
