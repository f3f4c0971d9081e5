//! Weights that this rank alone looks after: on the device all the time, or the share that lives on a tier copied in
//! before each visit that reads it, and its bytes given back behind it. A backward pass that makes no gradient of its
//! input (that of the embedding) reads no weights; what the next visit reads again (the head, where the pass turns
//! round) stays. With `reuse_across_micro_batches` it stays while the rank's next pass in the same direction goes
//! through the same chunk.
//!
//! Copies that autocast makes of fp32 weights come with the forward visit and go with the backward one.

use super::super::{ClassBytes, Law, LinkDemand, PolicyInputs, Residency, free};
use crate::step::chain::{Chain, Visit};
use crate::step::residency::away::fraction_away;
use crate::step::residency::law::windows_across;
use crate::step::residency::prefetch::visits_ahead;
use crate::step::unit::Unit;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, ProgramBuilder};
use stepsim_fabric::collective::CollectiveError;
use stepsim_schedule::Pass;

/// Weights that every rank holds whole.
#[derive(Default)]
pub(in super::super) struct ReplicatedWeights {
    /// By unit: whether what lives elsewhere, or autocast's copy, is on the device.
    pub(super) on_device: Vec<bool>,
}

impl Residency for ReplicatedWeights {
    fn begin(&mut self, units: usize) {
        self.on_device = vec![false; units];
    }
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        if w.setup.shares.copies_weights() { Vec::new() } else { super::resident(w) }
    }

    fn arrive(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let (unit, placed) = (visit.unit as usize, &w.setup.shares.placed.weights);
        if w.setup.shares.copies_weights() && !self.on_device[unit] {
            chain.take(MemoryClass::Weights, w.unit_weight_bytes(visit.unit));
            self.on_device[unit] = true;
            return;
        }
        let reads = visit.pass == Pass::Forward || !w.units[unit].plan.input_grad.is_empty();
        if placed.is_empty() || self.on_device[unit] || !reads {
            return;
        }
        let total = w.unit_weight_bytes(visit.unit);
        let mut waits: Vec<OpId> = w.prefetch_gate(b, total).into_iter().collect();
        waits.extend(&w.fresh[unit]);
        for away in placed {
            let cargo = super::cargo(w, visit, "prefetch weights", away.of(total));
            w.fetch(b, away, cargo, &waits, false).into_iter().for_each(|op| chain.wait(op));
        }
        self.on_device[unit] = true;
    }

    fn leave(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        let unit = visit.unit as usize;
        if w.setup.shares.copies_weights() {
            let last = visit.pass != Pass::Forward || !w.units[unit].plan.has_backward();
            if last && std::mem::take(&mut self.on_device[unit]) {
                free(b, end, MemoryClass::Weights, 0, w.unit_weight_bytes(visit.unit));
            }
            return;
        }
        let again = w.visits.last_of(visit.unit).is_some_and(|v| v.again);
        let turns = w.visits.ahead().first().is_some_and(|next| next.unit == visit.unit && next.backward);
        let reads_on = turns && !w.units[visit.unit as usize].plan.input_grad.is_empty();
        let keeps = reads_on || (again && w.setup.shares.workload.offload.reuse_across_micro_batches);
        if visit.pass == Pass::WeightGrad || !self.on_device[visit.unit as usize] || keeps {
            return;
        }
        let total = w.unit_weight_bytes(visit.unit);
        let placed = &w.setup.shares.placed.weights;
        placed.iter().for_each(|a| free(b, end, MemoryClass::Weights, 0, a.of(total)));
        self.on_device[visit.unit as usize] = false;
    }
}

impl Law for ReplicatedWeights {
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        let mut around = super::around(given, false)?;
        for ((units, ends), around) in given.chunks.iter().zip(&mut around) {
            let turn = units.len() - usize::from(*ends);
            for (at, (unit, around)) in units.iter().zip(around).enumerate() {
                if at >= turn || unit.unit.plan.input_grad.is_empty() {
                    around.copy_in[1] = 0.0;
                }
            }
        }
        Ok(LinkDemand { around, ..LinkDemand::default() })
    }
    /// The unit in work and those that are brought in ahead of it.
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        let shares = given.shares;
        let (stays, away) = (super::stays(given), fraction_away(&shares.placed.weights));
        if away == 0.0 {
            return ClassBytes { stays, ..ClassBytes::default() };
        }
        let copied = |u: &Unit| shares.weight_bytes(u) as f64 * away;
        let ahead = visits_ahead(given, copied);
        let during = windows_across(&given.bytes(copied), [ahead; 2], [0; 2]);
        ClassBytes { stays, during, ..ClassBytes::default() }
    }
}
