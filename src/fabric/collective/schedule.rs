//! From the phases of an algorithm to what the engine plays: fluid activities, or every transfer as a flow.
//!
//! A [`RoundGroup`] is a number of rounds. In each, every route of its patterns carries `weight · unit` bytes. **No
//! member waits for a round of another**: a transfer waits until its sender has received what it sends, and its bytes
//! queue behind those that the sender sent and the receiver received before; the latency of both may run meanwhile.
//! Where all transfers of a round take equally long, rounds begin and end together on an idle network all the same.

use super::geometry::Geometry;
use super::pattern::Pattern;
use stepsim_core::units::Time;

/// Some rounds, described together.
#[derive(Clone, Debug, PartialEq)]
pub struct RoundGroup {
    /// Parts that run side by side.
    pub parts: Vec<RepeatedPattern>,
    /// Bytes of a route of weight 1 in one round.
    pub unit: f64,
    /// Into how many slices the bytes of a route are cut, each sent on as soon as it is there.
    pub slices: u32,
}

/// A pattern that repeats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RepeatedPattern {
    /// Who sends to whom.
    pub pattern: Pattern,
    /// Multiplies the bytes of each route.
    pub weight: u32,
    /// Number of rounds.
    pub times: u32,
    /// Parts of different lanes do not wait for each other in `steps`.
    pub lane: u16,
}

impl RoundGroup {
    /// `times` rounds of one pattern with `unit` bytes a route.
    pub fn new(pattern: Pattern, times: u32, unit: f64) -> RoundGroup {
        RoundGroup::beside(vec![RepeatedPattern { pattern, weight: 1, times, lane: 0 }], unit)
    }
    /// Parts side by side, with `unit` bytes a route of weight 1.
    pub fn beside(parts: Vec<RepeatedPattern>, unit: f64) -> RoundGroup {
        RoundGroup { parts, unit, slices: 1 }
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
        let rounds = |p: &RepeatedPattern| alpha(p.pattern) * u64::from(p.times);
        self.parts.iter().map(rounds).max().unwrap_or_default()
    }
    /// Number of transfers.
    pub fn transfers(&self, g: &Geometry) -> u64 {
        let routes = |p: &RepeatedPattern| u64::from(p.times) * u64::from(routes_of(p.pattern, g));
        self.parts.iter().map(routes).sum::<u64>() * u64::from(self.slices)
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

/// The paths as `steps` needs them: where each pattern's routes begin among the communicator's paths, each route's
/// latency, and a path that crosses nothing.
pub struct PatternRoutes<'a> {
    /// Path of a pattern's first route.
    pub first: &'a dyn Fn(Pattern) -> u32,
    /// Latency of each path.
    pub latency: &'a [Time],
    /// A path that crosses nothing.
    pub nothing: u32,
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
