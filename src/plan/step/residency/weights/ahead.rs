//! Closed form of the memory of gathered weights whose shards live on tiers: a forward and a backward pass of each
//! chunk, walked visit by visit on idle links.
//!
//! A shard is there from the start of its copy to the end of its gather, the gathered weights from the start of the
//! gather to the end of the visit. A visit sees at its fullest all that is there at one moment of it.

use super::gather_time::gather_time;
use crate::step::residency::away::fraction_away;
use crate::step::residency::{PolicyInputs, UnitTimes, VisitSpan, gate};

/// Bytes that are on the device from one moment to another.
#[derive(Clone, Copy, Default)]
struct There {
    bytes: f64,
    from: f64,
    to: f64,
}

/// A walk through the passes of a chunk.
struct PassWalk<'g, 'a> {
    given: &'g PolicyInputs<'a>,
    /// When the links carry nothing, and the last visit is over.
    copy: f64,
    gather: f64,
    end: f64,
    visits: Vec<VisitSpan>,
    /// By visit: its shard, and its gathered weights.
    there: Vec<[There; 2]>,
}

/// Bytes on the device during each forward and backward visit of each chunk; a gather may start behind the visit so
/// many (`gates`: forward, backward) before its own, and not before its pass.
pub(super) fn during(given: &PolicyInputs<'_>, gates: [usize; 2]) -> Vec<Vec<[f64; 2]>> {
    let of_chunk = |(units, ends): &(Vec<UnitTimes<'_>>, bool)| {
        let n = units.len();
        let mut walk =
            PassWalk { given, copy: 0.0, gather: 0.0, end: 0.0, visits: Vec::new(), there: Vec::new() };
        units.iter().for_each(|unit| walk.gathers(unit, (gates[0], 0), false));
        for (i, unit) in units.iter().enumerate().rev() {
            if *ends && i + 1 == n {
                // The units at the model's end are read again at once.
                walk.reads_again(unit);
            } else {
                walk.gathers(unit, (gates[1], n), true);
            }
        }
        (0..n).map(|i| [walk.fullest(i), walk.fullest(2 * n - 1 - i)]).collect()
    };
    given.chunks.iter().map(of_chunk).collect()
}

impl PassWalk<'_, '_> {
    /// The next visit gathers its weights, behind the visit `back` before it where that is in the pass that starts at
    /// `start`.
    fn gathers(&mut self, unit: &UnitTimes<'_>, (back, start): (usize, usize), backward: bool) {
        let shares = self.given.shares;
        let placed = &shares.placed.weights;
        let parts = shares.shard_parts(unit.unit, unit.unit.weight_bytes(shares.bytes.weights));
        let shard = parts.iter().sum::<u64>() as f64;
        let own = shard * fraction_away(placed);
        let prefetch = shares.workload.offload.prefetch;
        let from = self.copy.max(gate(&prefetch, own, self.end, self.visits.iter().rev().copied()));
        self.copy = from + self.given.copies(placed, shard)[0];
        let behind = self.visits.len().checked_sub(back).filter(|at| *at >= start).or(start.checked_sub(1));
        let begins = self.gather.max(behind.map_or(0.0, |at| self.visits[at].end)).max(self.copy);
        let seconds = gather_time(self.given, unit.unit, unit.unit.weight_bytes(1.0), backward);
        self.gather = begins + seconds.unwrap_or(0.0);
        let shard = There { bytes: own, from, to: self.gather };
        self.visit(unit, backward, [shard, There { from: begins, ..self.whole(unit) }]);
    }
    /// The next visit is a backward one that reads what is there already.
    fn reads_again(&mut self, unit: &UnitTimes<'_>) {
        let whole = There { from: self.end, ..self.whole(unit) };
        self.visit(unit, true, [There::default(), whole]);
    }
    fn whole(&self, unit: &UnitTimes<'_>) -> There {
        let shares = self.given.shares;
        let bytes = unit.unit.plan.parameters.total() as f64 * shares.weight_message_bytes;
        There { bytes: bytes * shares.live_share(unit.unit), ..There::default() }
    }
    fn visit(&mut self, unit: &UnitTimes<'_>, backward: bool, [shard, whole]: [There; 2]) {
        let start = self.end.max(self.gather);
        self.end = start + if backward { unit.backward } else { unit.forward };
        let unit = unit.unit;
        let (own, again, kept) = match backward {
            true => (&unit.plan.backward, unit.repeated(), unit.kept_bytes as f64),
            false => (&unit.plan.forward, Vec::new(), 0.0),
        };
        let kernels = own.iter().chain(&again).filter(|item| item.kernel().is_some()).count() as f64;
        let bytes = self.given.shares.weight_bytes(unit) as f64 + kept;
        self.visits.push(VisitSpan { start, end: self.end, bytes, kernels });
        self.there.push([shard, There { to: self.end, ..whole }]);
    }
    /// The most that is there at one moment of a visit.
    fn fullest(&self, visit: usize) -> f64 {
        let VisitSpan { start, end, .. } = self.visits[visit];
        let beside = self.there.iter().flatten().filter(|there| there.from < end && there.to > start);
        let beside: Vec<&There> = beside.collect();
        let at = |moment: f64| {
            let there = beside.iter().filter(|there| there.from <= moment && there.to > moment);
            there.map(|there| there.bytes).sum::<f64>()
        };
        beside.iter().map(|there| at(there.from.max(start))).fold(0.0, f64::max)
    }
}
