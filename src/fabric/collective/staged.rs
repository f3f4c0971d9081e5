//! The cost of an expert exchange in two stages: it brings a kernel of its own, so there is nothing to choose.

use super::algorithm::Algorithm;
use super::choice::{AlgorithmChoice, Why};
use super::geometry::Geometry;
use super::transfer::Transfer;
use super::two_stage::{TwoStageExchange, latency_s, wire_s};
use super::unsupported::UnsupportedAlgorithm;
use stepsim_core::units::Time;
use stepsim_spec::collectives::SecondStage;

/// The cost of the exchange on a group.
///
/// # Errors
/// The group's nodes hold different numbers of its members, or it is a torus.
pub(super) fn choice(
    t: &Transfer,
    staged: &SecondStage,
    g: &Geometry,
) -> Result<AlgorithmChoice, UnsupportedAlgorithm> {
    let unsupported = |why| UnsupportedAlgorithm::new(TwoStageExchange.name(), why, t.op, g);
    TwoStageExchange.supports(t.op, g).map_err(unsupported)?;
    let network_s = t.bytes as f64 / g.inter.bandwidth() * 1000.0 / f64::from(staged.network_share.max(1));
    let least = staged.least.max(Time::from_s(network_s.max(wire_s(t, g))));
    let base = staged.start;
    Ok(AlgorithmChoice {
        sms: staged.units,
        base,
        least,
        expected_s: base.s() + latency_s(t, g) + least.s(),
        why: Why::AskedFor,
        ..AlgorithmChoice::theory(&TwoStageExchange, t, g, Some(1))
    })
}
