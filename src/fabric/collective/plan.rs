//! Transfers on groups of one geometry: the algorithm chosen for each, and the actions that the engine plays.

use super::Transfer;
use super::choice::AlgorithmChoice;
use super::geometry::Geometry;
use super::latency::Latency;
use super::pattern::Pattern;
use super::schedule::{Adjust, PatternRoutes, RoundGroup, limit, routes_of};
use super::steps::steps;
use stepsim_core::ids::TransferId;
use stepsim_core::known::number_of;
use stepsim_core::program::{Action, Flow};
use stepsim_core::units::Time;

/// A transfer on groups of one geometry: the choice, and its schedule.
#[derive(Debug)]
pub(super) struct GeometryPlan {
    pub transfer: TransferId,
    pub choice: AlgorithmChoice,
    pub phases: Vec<RoundGroup>,
    /// For each phase, its path among the plan's fluid paths.
    pub path_of_phase: Vec<u32>,
}

/// The actions that all groups of one geometry and one set of transfers share.
#[derive(Debug)]
pub(super) struct GroupPlan {
    pub geometry: Geometry,
    pub patterns: Vec<Pattern>,
    /// `fluid_paths[i]`: index into `patterns`, and weight.
    pub fluid_paths: Vec<Vec<(u32, u32)>>,
    pub planned: Vec<GeometryPlan>,
}

impl GroupPlan {
    /// Without transfers yet.
    pub fn new(geometry: Geometry) -> GroupPlan {
        GroupPlan { geometry, patterns: vec![], fluid_paths: vec![], planned: vec![] }
    }
    /// Plans one more transfer as it was chosen to be carried out: `each` of its transfers, or one flow for a phase.
    pub fn add(&mut self, transfer: TransferId, t: &Transfer, choice: AlgorithmChoice, each: bool) {
        let (algorithm, g) = (choice.algorithm, &self.geometry);
        let phases = match each {
            true => algorithm.phases(t, g, choice.chunks),
            false => algorithm.fluid_phases(t, g, choice.chunks),
        };
        let path_of_phase = phases.iter().map(|phase| self.fluid_path(phase)).collect();
        self.planned.push(GeometryPlan { transfer, choice, phases, path_of_phase });
    }

    /// The index of a phase's path among the fluid paths, added if new.
    fn fluid_path(&mut self, phase: &RoundGroup) -> u32 {
        let number = |(pattern, weight)| (number_of(&mut self.patterns, pattern), weight);
        let weights = phase.fluid().1.into_iter().map(number).collect();
        number_of(&mut self.fluid_paths, weights)
    }
    fn index_of(&self, pattern: Pattern) -> usize {
        self.patterns.iter().position(|p| *p == pattern).unwrap_or(0)
    }

    /// One flow for each phase. `latencies[pattern]` is what its routes pay.
    pub fn fluid_action(&self, p: &GeometryPlan, parts: f64, t: &Transfer, latencies: &[Latency]) -> Action {
        let choice = &p.choice;
        let lag = self.lag(p, t, latencies);
        let mut base = choice.base + Time::from_s(lag.unwrap_or(0.0).max(0.0));
        let flows = p.phases.iter().zip(&p.path_of_phase).map(|(phase, &path)| {
            let bytes = phase.fluid().0 * choice.overhead / parts;
            let rounds = match lag {
                Some(_) => Time::ZERO,
                None => phase.latency(|pattern| latencies[self.index_of(pattern)].longest),
            };
            let latency = Time::from_s(rounds.s() * choice.latency) + base;
            base = Time::ZERO;
            Flow { latency, bytes, rate_limit: limit(bytes, choice.least), path }
        });
        Action::Phases(flows.collect())
    }

    /// The time of an algorithm beyond its bytes on links of these latencies, if it has a formula for it.
    fn lag(&self, p: &GeometryPlan, t: &Transfer, latencies: &[Latency]) -> Option<f64> {
        let own = || p.phases.iter().flat_map(|phase| &phase.parts).map(|part| self.index_of(part.pattern));
        let longest =
            |of: &dyn Fn(&Latency) -> Time| own().map(|i| of(&latencies[i])).max().unwrap_or_default();
        let mut g = self.geometry.laden(p.choice.overhead);
        if g.sites.is_none() && g.uplinks.is_none() && g.nodes > 1 {
            let [inside, between] = [longest(&|l| l.inside), longest(&|l| l.between)];
            if inside > Time::ZERO {
                g.intra.latency = inside;
            }
            // A ring hops inside the node first.
            let hop = if g.per_node > 1 && g.rings() > 1 && own().any(|i| self.patterns[i] == Pattern::Ring) {
                g.intra.latency
            } else {
                Time::ZERO
            };
            g.inter.latency = between.saturating_sub(hop);
        }
        p.choice.algorithm.lag(t, &g.hurried(p.choice.latency), p.choice.chunks)
    }

    /// One flow for each transfer. `latencies[path]` is the latency of a route.
    pub fn step_action(&self, p: &GeometryPlan, parts: f64, t: &Transfer, latencies: &[Time]) -> Action {
        let mut first = Vec::with_capacity(self.patterns.len());
        let mut next = 1;
        for &pattern in &self.patterns {
            first.push(next);
            next += routes_of(pattern, &self.geometry);
        }
        let hurried: Vec<Time>;
        let latencies = if p.choice.latency == 1.0 {
            latencies
        } else {
            hurried = latencies.iter().map(|t| Time::from_s(t.s() * p.choice.latency)).collect();
            &hurried
        };
        let routes =
            PatternRoutes { first: &|pattern| first[self.index_of(pattern)], latency: latencies, nothing: 0 };
        let adjust = Adjust {
            scale: p.choice.overhead / parts,
            extra: Time::ZERO,
            base: p.choice.base,
            least: p.choice.least,
        };
        let choice = &p.choice;
        let own = choice.algorithm.steps(t, &self.geometry, choice.chunks, &routes, adjust);
        own.unwrap_or_else(|| steps(&p.phases, &self.geometry, &routes, adjust))
    }
}
