//! Activations: kept between the passes, or copied out behind the forward visit and in before the backward one.
//!
//! Whatever is kept goes out unless the backward visit is among the next that prefetch looks ahead to: then it stays. What
//! is kept at all, and what is computed again, is the unit's (`Unit::kept_bytes`).

use rustc_hash::FxHashMap;

use super::copies::{Cargo, fraction_away};
use super::{Around, Form, Given, Held, Law, Residency};
use crate::collective::CollectiveError;
use crate::ids::OpId;
use crate::plan::step::chain::{Chain, Visit};
use crate::plan::step::writer::Writer;
use crate::program::{MemoryClass, ProgramBuilder};
use crate::schedule::Pass;

/// Activations of all units; a share of them may live on tiers.
#[derive(Default)]
pub struct Kept {
    /// Those that went out, by unit, micro-batch and share.
    moved_out: FxHashMap<(u32, u32, u32), OpId>,
}

impl Residency for Kept {
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
            let mut waits: Vec<OpId> = w.prefetch_gate(b, kept).into_iter().collect();
            waits.push(out);
            let what = (MemoryClass::Activations, "prefetch activations");
            let cargo = Cargo::of(w, visit, what, away.of(kept));
            w.fetch(b, away, cargo, &waits, true).into_iter().for_each(|op| chain.wait(op));
        }
    }

    fn leave(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        if visit.pass != Pass::Forward {
            return;
        }
        let near = w.setup.shares.workload.offload.prefetch.layers_near();
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

impl Law for Kept {
    /// What the last stage makes last is wanted at once and stays.
    fn closed_form(&self, given: &Given<'_>) -> Result<Form, CollectiveError> {
        let (shares, policy) = (given.shares, &given.shares.workload.recompute);
        let near = shares.workload.offload.prefetch.layers_near();
        let around = given.chunks.iter().map(|(units, ends)| {
            let leave = units.len().saturating_sub(if *ends { near } else { 0 });
            let of = |(i, u): (usize, &super::UnitTimes<'_>)| {
                let kept = if i < leave { u.unit.kept_bytes(policy) } else { 0 };
                let [copy_in, copy_out, _] = given.copies(&shares.placed.activations, kept as f64);
                Around { copy_in: [0.0, copy_in], copy_out, ..Around::default() }
            };
            units.iter().enumerate().map(of).collect()
        });
        Ok(Form { around: around.collect(), ..Form::default() })
    }
    fn held(&self, given: &Given<'_>) -> Held {
        let here = 1.0 - fraction_away(&given.shares.placed.activations);
        Held { stays: 0.0, passes: given.kept as f64 * here }
    }
}
