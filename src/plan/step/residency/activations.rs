//! Activations: kept between the passes, or copied out behind the forward visit and in before the backward one.
//!
//! Every kept tensor goes out unless the backward visit is among the next that prefetch looks ahead to, or among the
//! next `offload.activations_stay_visits`: then it stays.
//! The unit decides what is kept at all, and what is computed again (`Unit::kept_bytes`).

use rustc_hash::FxHashMap;

use super::away::fraction_away;
use super::copies::Cargo;
use super::law::windows_across;
use super::prefetch::visits_ahead;
use super::{ClassBytes, Law, LinkDemand, PolicyInputs, Residency, UnitMessages, UnitTimes};
use crate::step::chain::{Chain, Visit};
use crate::step::unit::Unit;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, ProgramBuilder};
use stepsim_fabric::collective::CollectiveError;
use stepsim_schedule::Pass;

/// Activations of all units; a share of them may live on tiers.
#[derive(Default)]
pub struct MovedActivations {
    /// Those that went out, by unit, micro-batch and share.
    moved_out: FxHashMap<(u32, u32, u32), OpId>,
}

impl Residency for MovedActivations {
    fn begin(&mut self, _units: usize) {}
    fn resident(&self, _w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        Vec::new()
    }
    fn begin_step(&mut self, _w: &Writer<'_, '_>) {
        self.moved_out.clear();
    }

    fn arrive(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let kept = w.kept(visit.unit);
        for (i, away) in w.setup.shares.placed.activations.iter().enumerate() {
            let Some(out) = self.moved_out.remove(&(visit.unit, visit.micro_batch, i as u32)) else {
                continue;
            };
            let waits: Vec<OpId> = w.prefetch_gate(b, kept).into_iter().chain([out]).collect();
            let what = (MemoryClass::Activations, "prefetch activations");
            let cargo = Cargo::of(w, visit, what, away.of(kept));
            w.fetch(b, away, cargo, &waits, true).into_iter().for_each(|op| chain.wait(op));
        }
    }

    fn leave(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        if visit.pass != Pass::Forward {
            return;
        }
        let near = w.setup.shares.workload.offload.visits_near();
        let mut soon = w.visits.ahead().iter().take(near);
        if soon.any(|c| c.backward && c.unit == visit.unit && c.micro_batch == visit.micro_batch) {
            return;
        }
        let kept = w.kept(visit.unit);
        for (i, away) in w.setup.shares.placed.activations.iter().enumerate() {
            let cargo = Cargo::of(w, visit, (MemoryClass::Activations, "offload activations"), away.of(kept));
            if let Some(op) = w.send(b, away, cargo, &[end], cargo.bytes, true) {
                self.moved_out.insert((visit.unit, visit.micro_batch, i as u32), op);
            }
        }
    }
}

impl Law for MovedActivations {
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        Ok(closed_form(given, |_| true))
    }
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        held(given, |_| true)
    }
}

/// Share of each unit's kept activations that goes out, by chunk: none where the last stage wants it again among the
/// next visits. That stage turns round at its end: behind a unit come the forward visits of the units after it, and
/// then their backward ones.
fn shares_out(given: &PolicyInputs<'_>, goes_out: impl Fn(&Unit) -> bool) -> Vec<Vec<f64>> {
    let offload = &given.shares.workload.offload;
    let away = fraction_away(&given.shares.placed.activations);
    let of_chunk = |(units, ends): &(Vec<UnitTimes<'_>>, bool)| {
        let stay = if *ends { offload.visits_near().saturating_add(1) / 2 } else { 0 };
        let leave = units.len().saturating_sub(stay);
        let of_unit =
            |(i, u): (usize, &UnitTimes<'_>)| if i < leave && goes_out(u.unit) { away } else { 0.0 };
        units.iter().enumerate().map(of_unit).collect()
    };
    given.chunks.iter().map(of_chunk).collect()
}

/// Closed form: copies behind forward and before backward visits of the units that go out.
pub(super) fn closed_form(given: &PolicyInputs<'_>, goes_out: impl Fn(&Unit) -> bool) -> LinkDemand {
    let shares = given.shares;
    if shares.placed.activations.is_empty() {
        return LinkDemand::default();
    }
    let out = shares_out(given, goes_out);
    let around = given.chunks.iter().zip(&out).map(|((units, _), out)| {
        let of = |(u, out): (&UnitTimes<'_>, &f64)| {
            let kept = if *out > 0.0 { u.unit.kept_bytes } else { 0 };
            let [copy_in, copy_out, _] = given.copies(&shares.placed.activations, kept as f64);
            UnitMessages { copy_in: [0.0, copy_in], copy_out: [copy_out, 0.0], ..UnitMessages::default() }
        };
        units.iter().zip(out).map(of).collect()
    });
    LinkDemand { around: around.collect(), ..LinkDemand::default() }
}

/// Closed form: what goes out is there until its copy has ended, beside the next visit, and comes back as far ahead as
/// prefetch looks; the rest is carried from pass to pass.
pub(super) fn held(given: &PolicyInputs<'_>, goes_out: impl Fn(&Unit) -> bool) -> ClassBytes {
    if given.shares.placed.activations.is_empty() {
        return ClassBytes { carried: given.bytes(|u| u.kept_bytes as f64), ..ClassBytes::default() };
    }
    let near = visits_ahead(given, |unit| unit.kept_bytes as f64).max(1);
    let out = shares_out(given, goes_out);
    let parts = |part: &dyn Fn(f64) -> f64| -> Vec<Vec<f64>> {
        let chunks = given.chunks.iter().zip(&out);
        let of_unit = |(u, out): (&UnitTimes<'_>, &f64)| u.unit.kept_bytes as f64 * part(*out);
        chunks.map(|((units, _), out)| units.iter().zip(out).map(of_unit).collect()).collect()
    };
    let carried = parts(&|out| 1.0 - out);
    let during = windows_across(&parts(&|out| out), [0, near], [1, 0]);
    ClassBytes { carried, during, ..ClassBytes::default() }
}
