//! When a copy may start ahead of its use, in the closed form: the rule of `Writer::gate` in seconds.

use super::PolicyInputs;
use crate::step::unit::Unit;
use stepsim_spec::workload::{PrefetchSpec, PrefetchUnit};

/// A visit that has begun.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct VisitSpan {
    /// When its kernels began, in seconds.
    pub start: f64,
    /// When they ended.
    pub end: f64,
    /// Bytes that it needed.
    pub bytes: f64,
    /// Its kernels.
    pub kernels: f64,
}

/// The earliest start of a copy of `bytes` for the next visit, a number of layers, kernels or bytes ahead of it:
/// `visits` have begun, newest first, and the last kernel before it ends `now`.
pub fn gate(
    prefetch: &PrefetchSpec,
    bytes: f64,
    now: f64,
    mut visits: impl Iterator<Item = VisitSpan>,
) -> f64 {
    let depth = prefetch.depth as f64;
    match prefetch.unit {
        PrefetchUnit::Layers => {
            let back = usize::try_from(prefetch.depth).unwrap_or(usize::MAX);
            visits.nth(back).map_or(0.0, |visit| visit.end)
        }
        PrefetchUnit::Bytes => {
            let mut ahead = bytes;
            let gate = visits.find(|visit| {
                let over = ahead > depth;
                ahead += visit.bytes;
                over
            });
            gate.map_or(0.0, |visit| visit.end)
        }
        PrefetchUnit::Ops if depth == 0.0 => now,
        PrefetchUnit::Ops => {
            let mut left = depth;
            for visit in visits {
                if left < visit.kernels {
                    return visit.end - (visit.end - visit.start) * left / visit.kernels;
                }
                left -= visit.kernels;
            }
            0.0
        }
    }
}

/// Visits that a copy of `bytes` a unit is ahead of its own, where units are of the mean size.
pub(super) fn visits_ahead(given: &PolicyInputs<'_>, bytes: impl Fn(&Unit) -> f64) -> usize {
    let prefetch = given.shares.workload.offload.prefetch;
    let mean = |of: &dyn Fn(&Unit) -> f64| {
        given.units().map(|u| of(u.unit)).sum::<f64>() / given.units().count().max(1) as f64
    };
    match prefetch.unit {
        PrefetchUnit::Layers => usize::try_from(prefetch.depth).unwrap_or(usize::MAX),
        PrefetchUnit::Bytes => {
            let each = mean(&bytes).max(1.0);
            let weights = mean(&|unit| given.shares.weight_bytes(unit) as f64).max(1.0);
            let room = prefetch.depth as f64 - each;
            if room < 0.0 { 0 } else { 1 + (room / weights) as usize }
        }
        PrefetchUnit::Ops => {
            let kernels =
                |unit: &Unit| unit.plan.forward.iter().filter(|i| i.kernel().is_some()).count() as f64;
            (prefetch.depth as f64 / mean(&kernels).max(1.0)).ceil() as usize
        }
    }
}
