//! Gradients cut among ranks: each keeps a part (ZeRO-2 and -3). On the device, beyond the resident part:
//!
//! * reduced after every micro-batch: the whole gradient of a unit (of its widest matrix, where each is reduced by
//!   itself), as it is sent, from its backward pass until it is reduced;
//! * reduced once: the same, as it is kept, from its first backward pass on.
//!
//! A part's sums on another tier are fetched and written back around each reduction.

use super::super::{PolicyInputs, UnitTimes, free, take};
use super::{Home, UnitGradient, cargo, kept_bytes, live_bytes, part_bytes, reduction_time, waiting};
use crate::step::chain::{Chain, Visit};
use crate::step::residency::law::windows;
use crate::step::unit::Unit;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, ProgramBuilder};

/// Gradients that are cut among ranks.
#[derive(Default)]
pub(in super::super) struct ShardedGradients {
    /// By unit: bytes on the device until it is reduced.
    held: Vec<u64>,
    /// By unit: the last op that wrote its part to another tier in this step.
    written: Vec<Option<OpId>>,
}

impl Home for ShardedGradients {
    fn begin_step(&mut self, units: usize) {
        *self = ShardedGradients { held: vec![0; units], written: vec![None; units] };
    }

    fn wanted(&mut self, w: &mut Writer<'_, '_>, _b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        if self.held[visit.unit as usize] > 0 {
            return;
        }
        let each = w.setup.shares.workload.reduces_every_micro_batch();
        let bytes = if each { live_bytes(w, visit.unit) } else { kept_bytes(w, visit.unit) };
        chain.take(MemoryClass::Gradients, bytes);
        self.held[visit.unit as usize] = bytes;
    }

    fn put_back(&mut self, _: &mut Writer<'_, '_>, _: &mut ProgramBuilder, _: UnitGradient<'_>) {}

    /// The whole gradients have done their duty.
    fn sent(&mut self, b: &mut ProgramBuilder, units: &[u32], last: OpId) {
        let held: u64 = units.iter().map(|u| std::mem::take(&mut self.held[*u as usize])).sum();
        free(b, last, MemoryClass::Gradients, 0, held);
    }

    /// FSDP's backward visits wait for the reduction of the visit before the last: no more than two wait.
    fn during(&self, given: &PolicyInputs<'_>, units: &[UnitTimes<'_>]) -> Vec<[f64; 2]> {
        let shares = given.shares;
        let each = shares.workload.reduces_every_micro_batch();
        let bytes = if each { shares.gradient_message_bytes } else { shares.bytes.gradients };
        let live = |u: &Unit| if each { shares.live_share(u) } else { 1.0 };
        let whole = |u: &Unit| u.plan.trained.total() as f64 * bytes * live(u);
        if !each || (shares.workload.offload.reuse_across_micro_batches && given.passes > 1.0) {
            let all = units.iter().map(|u| whole(u.unit)).sum();
            return vec![[all; 2]; units.len()];
        }
        let bounded = shares.facts().cuts_weights();
        let bytes: Vec<f64> = units.iter().map(|u| whole(u.unit)).collect();
        let most = windows(&bytes, [0; 2], [0, 1]);
        let waiting = waiting(given, units, whole, |u| reduction_time(given, u).unwrap_or(0.0));
        waiting
            .into_iter()
            .zip(most)
            .map(|(wait, most)| [0.0, if bounded { wait[1].min(most[1]) } else { wait[1] }])
            .collect()
    }

    /// A reduced part is added to what its tier holds.
    fn reduced(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, added: UnitGradient<'_>, _: bool) {
        let UnitGradient { unit, behind, micro_batch } = added;
        let bytes = part_bytes(w, unit);
        let before = self.written[unit as usize];
        for away in &w.setup.shares.placed.gradients {
            let bytes = away.of(bytes);
            let mut waits = behind.to_vec();
            if let Some(before) = before {
                let gates: Vec<OpId> = w.prefetch_gate(b, bytes).into_iter().chain([before]).collect();
                let cargo = cargo(w, unit, "prefetch gradients", bytes, micro_batch);
                waits.extend(w.fetch(b, away, cargo, &gates, false));
            }
            let cargo = cargo(w, unit, "offload gradients", bytes, micro_batch);
            let frees = if before.is_some() { bytes } else { 0 };
            if let Some(op) = w.send(b, away, cargo, &waits, frees, false) {
                if before.is_none() {
                    // The first part comes straight from the reduction.
                    take(b, op, MemoryClass::Gradients, 0, bytes);
                    free(b, op, MemoryClass::Gradients, 0, bytes);
                }
                self.written[unit as usize] = Some(op);
                w.reduced[unit as usize].push(op);
            }
        }
    }
}
