//! From the phases of an algorithm to what the engine plays: fluid activities, or every transfer as a flow.
//!
//! A [`Phase`] is a number of lock-step rounds. In each, every route of its patterns carries `weight · unit` bytes.
//! *Lock-step* means that all transfers of a round take equally long and each waits only for those by which its
//! sender last sent or received (and its receiver, where not all members take part in every round), so that rounds
//! begin and end together on an idle network.

use super::geometry::Geometry;
use super::pattern::{Pattern, Route};
use crate::core::program::{Action, Flow, Rounds};
use crate::core::units::Time;

/// Some lock-step rounds, described together.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// What runs side by side.
    pub parts: Vec<Part>,
    /// Bytes of a route of weight 1 in one round.
    pub unit: f64,
    /// Rounds that a pipeline needs beyond `times` to fill and drain: the `i`-th route of the pattern is active in
    /// rounds `i .. i + times`.
    pub fill: u32,
}

/// A pattern that repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Part {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Multiplies the bytes of each route.
    pub weight: u32,
    /// Number of rounds.
    pub times: u32,
    /// Parts of different lanes do not wait for each other in `steps`.
    pub lane: u16,
}

impl Phase {
    /// `times` rounds of one pattern with `unit` bytes a route.
    pub fn new(pattern: Pattern, times: u32, unit: f64) -> Phase {
        Phase { parts: vec![Part { pattern, weight: 1, times, lane: 0 }], unit, fill: 0 }
    }
    /// Bytes for each unit of path coefficient when the phase is one activity, and the weight of each pattern in the
    /// path's coefficients. The greatest common factor of the weights is taken out, so that algorithms which differ
    /// only in the number of rounds share a path.
    pub(super) fn fluid(&self) -> (f64, Vec<(Pattern, u32)>) {
        let mut weights: Vec<(Pattern, u32)> = Vec::new();
        for part in &self.parts {
            let weight = part.weight * part.times;
            match weights.iter_mut().find(|(pattern, _)| *pattern == part.pattern) {
                Some((_, sum)) => *sum += weight,
                None => weights.push((part.pattern, weight)),
            }
        }
        let common = weights.iter().fold(0, |g, (_, weight)| gcd(g, *weight)).max(1);
        weights.iter_mut().for_each(|(_, weight)| *weight /= common);
        (self.unit * f64::from(common), weights)
    }
    /// Latency of all rounds, given the latency of one round of each part.
    pub(super) fn latency(&self, alpha: impl Fn(Pattern) -> Time) -> Time {
        let rounds = |p: &Part| alpha(p.pattern) * u64::from(p.times + self.fill);
        self.parts.iter().map(rounds).max().unwrap_or_default()
    }
    /// Number of transfers.
    pub fn transfers(&self, g: &Geometry) -> u64 {
        self.parts.iter().map(|p| u64::from(p.times) * u64::from(routes_of(p.pattern, g))).sum()
    }
}

/// Number of routes of a pattern.
pub(super) fn routes_of(pattern: Pattern, g: &Geometry) -> u32 {
    if let Pattern::AllPairs | Pattern::RailPairs = pattern {
        return g.size.saturating_mul(g.size - 1);
    }
    let mut count = 0;
    pattern.routes(g, &mut |_, _| count += 1);
    count
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// A position that more flows than this touched in a round gets a join: a flow of no bytes that waits for them all,
/// so that its next transfers have one parent each.
const JOIN_ABOVE: usize = 16;

/// What `steps` needs to know of the paths: where each pattern's routes begin among the communicator's paths, each
/// route's latency, and a path that crosses nothing.
pub struct Routes<'a> {
    /// Path of a pattern's first route.
    pub first: &'a dyn Fn(Pattern) -> u32,
    /// Latency of each path.
    pub latency: &'a [Time],
    /// A path that crosses nothing.
    pub nothing: u32,
}

/// Every transfer of the phases as a flow.
pub(super) fn steps(phases: &[Phase], g: &Geometry, routes: &Routes<'_>, adjust: Adjust) -> Action {
    let lanes = phases.iter().flat_map(|p| p.parts.iter().map(|q| q.lane)).max().unwrap_or(0);
    let mut lanes: Vec<Lane> = (0..=lanes).map(|number| Lane::new(number, phases, g)).collect();
    let mut steps = Steps { graph: Rounds::default(), g, routes, adjust };
    for (i, phase) in phases.iter().enumerate() {
        for lane in &mut lanes {
            steps.rounds(phase, lane, lane.last_phase == Some(i));
        }
    }
    steps.graph.into()
}

/// How a protocol changes the transfers of an algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Adjust {
    /// Wire bytes for each byte of payload.
    pub scale: f64,
    /// Added to every transfer's latency.
    pub extra: Time,
    /// Added to the latency of the transfers that wait for none: the start of the kernel.
    pub base: Time,
    /// The least time of one transfer on the wire.
    pub least: Time,
}

/// Bytes per second of a transfer that takes no less than `least`.
pub(super) fn limit(bytes: f64, least: Time) -> f64 {
    if least > Time::ZERO { bytes / least.s() } else { f64::INFINITY }
}

/// Parts that wait for each other.
struct Lane {
    number: u16,
    /// The last phase that has a part of it.
    last_phase: Option<usize>,
    /// By position: the flows by which it last sent or received.
    touched: Vec<Vec<u32>>,
    /// The same of the round at hand, and the positions that have any.
    now: Vec<Vec<u32>>,
    at: Vec<u32>,
}

impl Lane {
    fn new(number: u16, phases: &[Phase], g: &Geometry) -> Lane {
        let last_phase = phases.iter().rposition(|phase| phase.parts.iter().any(|part| part.lane == number));
        let nobody = vec![Vec::new(); g.size as usize];
        Lane { number, last_phase, touched: nobody.clone(), now: nobody, at: Vec::new() }
    }
    /// Notes a flow of the round at hand.
    fn touch(&mut self, position: u32, flow: u32) {
        let flows = &mut self.now[position as usize];
        if flows.is_empty() {
            self.at.push(position);
        }
        flows.push(flow);
    }
}

/// The flows of an action, being written.
struct Steps<'a> {
    graph: Rounds,
    g: &'a Geometry,
    routes: &'a Routes<'a>,
    adjust: Adjust,
}

impl Steps<'_> {
    /// The rounds of one lane of a phase; what its `last` one touches does not matter to any other.
    fn rounds(&mut self, phase: &Phase, lane: &mut Lane, last: bool) {
        let parts: Vec<&Part> = phase.parts.iter().filter(|p| p.lane == lane.number).collect();
        let Some(rounds) = parts.iter().map(|p| p.times + phase.fill).max() else {
            return;
        };
        let mut round = 0;
        while round < rounds {
            let begin = self.graph.len();
            let goes_on = !last || round + 1 < rounds;
            parts.iter().for_each(|part| self.round(phase, part, round, lane, goes_on));
            self.join(lane);
            round += 1;
            // A round that waits only for the one before it, of the same make, can be repeated as a block.
            let size = self.graph.len() - begin;
            let until = parts.iter().map(|p| p.times).filter(|&t| t >= round).min().unwrap_or(round);
            let steady = phase.fill == 0
                && until > round
                && begin >= size
                && size > 0
                && self.graph.last_wait_from(size, begin - size);
            if steady && round > 1 {
                self.graph.repeat(size, until - round);
                let offset = (until - round) * size;
                lane.touched.iter_mut().flatten().filter(|id| **id >= begin).for_each(|id| *id += offset);
                round = until;
            }
        }
    }

    /// The transfers of a part in one round.
    fn round(&mut self, phase: &Phase, part: &Part, round: u32, lane: &mut Lane, goes_on: bool) {
        let Steps { graph, g, routes, adjust } = self;
        let mut path = (routes.first)(part.pattern);
        let (mut index, mut both) = (0, Vec::new());
        part.pattern.routes(g, &mut |route: Route<'_>, weight| {
            let active = match phase.fill {
                0 => round < part.times,
                _ => (index..index + part.times).contains(&round),
            };
            index += 1;
            path += 1;
            if !active {
                return;
            }
            let (from, to) = (route.sender(), route.receiver());
            let waits = if part.pattern.waits_for_receiver() && from != to {
                both.clear();
                both.extend([from, to].iter().flat_map(|at| &lane.touched[*at as usize]));
                both.sort_unstable();
                both.dedup();
                &both
            } else {
                &lane.touched[from as usize]
            };
            let base = if waits.is_empty() { adjust.base } else { Time::ZERO };
            let bytes = phase.unit * f64::from(part.weight * weight) * adjust.scale;
            let latency = routes.latency[path as usize - 1] + adjust.extra + base;
            let flow = Flow { latency, bytes, rate_limit: limit(bytes, adjust.least), path: path - 1 };
            let id = graph.flow(flow, waits);
            if goes_on {
                lane.touch(from, id);
                if to != from {
                    lane.touch(to, id);
                }
            }
        });
    }

    /// Ends a round: what it touched is what the next one waits for.
    fn join(&mut self, lane: &mut Lane) {
        lane.at.sort_unstable();
        for position in lane.at.drain(..).map(|position| position as usize) {
            let flows = &mut lane.touched[position];
            std::mem::swap(flows, &mut lane.now[position]);
            lane.now[position].clear();
            if flows.len() > JOIN_ABOVE {
                let path = self.routes.nothing;
                let join = Flow { latency: Time::ZERO, bytes: 0.0, rate_limit: f64::INFINITY, path };
                let id = self.graph.flow(join, flows);
                flows.clear();
                flows.push(id);
            }
        }
    }
}
