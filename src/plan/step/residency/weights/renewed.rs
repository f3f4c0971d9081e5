//! ZeRO-1 and -2: every rank holds all weights, updates a part of them, and gathers what the others have updated, once:
//! before the first visit of the step, or behind the optimizer step. Where weights live on another tier, the shard that
//! the optimizer wrote there is fetched, gathered, and the rest written back.

use super::super::copies::Cargo;
use super::super::{ClassBytes, Gathers, Law, LinkDemand, PolicyInputs, Residency, free, take};
use super::replicated::ReplicatedWeights;
use crate::step::chain::{Chain, Visit};
use crate::step::unit::Unit;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, NO_MICRO_BATCH, Phase, ProgramBuilder};
use stepsim_fabric::collective::CollectiveError;
use stepsim_schedule::Pass;

/// Weights that are gathered once a step.
#[derive(Default)]
pub(in super::super) struct StepwiseWeights {
    copies: ReplicatedWeights,
    /// By unit: whether its weights have been gathered in this step.
    gathered: Vec<bool>,
}

impl Residency for StepwiseWeights {
    fn begin(&mut self, units: usize) {
        self.copies.begin(units);
        self.gathered = vec![false; units];
    }
    fn resident(&self, w: &Writer<'_, '_>) -> Vec<(u8, f64)> {
        super::resident(w)
    }
    fn begin_step(&mut self, _w: &Writer<'_, '_>) {
        self.gathered.fill(false);
    }

    fn arrive(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let shares = &w.setup.shares;
        if shares.workload.gradient_buckets.overlap_weight_gather && !self.gathered[visit.unit as usize] {
            let gate: Vec<OpId> = if shares.placed.weights.is_empty() {
                Vec::new()
            } else {
                w.prefetch_gate(b, w.unit_weight_bytes(visit.unit)).into_iter().collect()
            };
            let ops = self.renew(w, b, visit, Phase::Forward, &gate, true);
            ops.into_iter().for_each(|op| chain.wait(op));
        }
        self.copies.arrive(w, b, chain, visit);
    }

    fn leave(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        self.copies.leave(w, b, visit, end);
    }

    /// Without overlap all updated weights are gathered behind the optimizer step.
    fn close(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder) {
        if w.setup.shares.workload.gradient_buckets.overlap_weight_gather {
            return;
        }
        let updated: Vec<OpId> = b.recent(w.compute, 1).into_iter().collect();
        for unit in 0..w.units.len() as u32 {
            let (pass, micro_batch) = (Pass::Forward, NO_MICRO_BATCH);
            let visit = Visit { unit, pass, repeats: false, micro_batch, recomputes: false };
            let ops = self.renew(w, b, visit, Phase::Optimizer, &updated, false);
            w.fresh[unit as usize].extend(ops);
        }
    }
}

impl StepwiseWeights {
    /// Gathers the updated weights of a unit; what lives elsewhere is fetched before and written back behind. `stays`:
    /// the visit that follows uses them, and gives them up.
    fn renew(
        &mut self,
        w: &mut Writer<'_, '_>,
        b: &mut ProgramBuilder,
        visit: Visit,
        phase: Phase,
        gate: &[OpId],
        stays: bool,
    ) -> Vec<OpId> {
        let unit = visit.unit as usize;
        let shares = &w.setup.shares;
        self.gathered[unit] = true;
        if !shares.gathers() {
            return Vec::new();
        }
        let mut waits = gate.to_vec();
        waits.extend(&w.fresh[unit]);
        // Frozen weights stay as they are.
        let (dense, expert) = w.units[unit].trained_bytes(shares.bytes.weights);
        let (all, shard) = (dense + expert, shares.shard_parts(&w.units[unit], (dense, expert)).iter().sum());
        let placed = &shares.placed.weights;
        let (mut fetched, mut last_fetch) = (0, None);
        for away in placed {
            let cargo = super::cargo(w, visit, "prefetch weight shards", away.of(shard));
            let cargo = Cargo { phase, ..cargo };
            if let Some(op) = w.fetch(b, away, cargo, &waits, false) {
                waits.push(op);
                fetched += cargo.bytes;
                last_fetch = Some(op);
            }
        }
        let (mut ops, _) = super::gather(
            w,
            b,
            (visit.unit, 1.0),
            Unit::trained_bytes,
            (phase, visit.micro_batch),
            &waits,
            false,
        );
        let Some(&gathered) = ops.last() else {
            last_fetch.into_iter().for_each(|op| free(b, op, MemoryClass::Weights, 0, fetched));
            return ops;
        };
        placed.iter().for_each(|a| take(b, gathered, MemoryClass::Weights, 0, a.of(all)));
        free(b, gathered, MemoryClass::Weights, 0, fetched);
        for away in placed {
            let bytes = away.of(all) - away.of(shard);
            let cargo = Cargo { phase, ..super::cargo(w, visit, "write back weights", bytes) };
            let frees = if stays { 0 } else { away.of(all) };
            if let Some(op) = w.send(b, away, cargo, &ops, frees, false) {
                w.fresh[unit].push(op);
            } else {
                free(b, gathered, MemoryClass::Weights, 0, frees);
            }
        }
        self.copies.on_device[unit] = stays && !placed.is_empty();
        if stays {
            // Frozen weights have only to be fetched.
            let total = w.unit_weight_bytes(visit.unit);
            let frozen = placed.iter().filter_map(|away| {
                let bytes = away.of(total) - away.of(all);
                w.fetch(b, away, super::cargo(w, visit, "prefetch weights", bytes), gate, false)
            });
            ops.extend(frozen.collect::<Vec<_>>());
        }
        ops
    }
}

impl Law for StepwiseWeights {
    /// With overlap the gathers follow one another from the start of the step, and each unit waits for its own;
    /// without, all run behind the update.
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError> {
        let form = self.copies.closed_form(given)?;
        let gather = |unit: &Unit| {
            super::gather_time::gather_time(
                given,
                unit,
                unit.trained_bytes(given.shares.weight_message_bytes),
                false,
            )
        };
        if !given.shares.workload.gradient_buckets.overlap_weight_gather {
            let behind = given.units().map(|u| gather(u.unit)).sum::<Result<f64, _>>()?;
            return Ok(LinkDemand { behind, ..form });
        }
        let mut around = form.around;
        for (times, u) in around.iter_mut().flatten().zip(given.units()) {
            times.gather = [gather(u.unit)?, 0.0];
        }
        Ok(LinkDemand { around, gathers: Gathers::Once, ..form })
    }
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes {
        self.copies.held(given)
    }
}
