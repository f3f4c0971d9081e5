//! Latencies on the routes of a pattern before bytes move.

use stepsim_core::units::Time;

/// Latencies of the routes of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Latency {
    /// The longest; of routes over several legs, the sum of the longest of each.
    pub longest: Time,
    /// The longest between members of one node; zero without.
    pub inside: Time,
    /// Between nodes: the longest, but the mean where bytes go all the way round; zero without.
    pub between: Time,
}
