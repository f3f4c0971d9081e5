//! Gradients that every rank keeps whole. The share that lives on another tier is fetched before each backward pass
//! but the first, and written back behind it. With `reuse_across_micro_batches` it stays while the rank's next
//! backward pass goes through the same chunk. When it is complete, the part that this rank updates goes where it
//! lives.

use super::super::{PolicyInputs, UnitTimes, free};
use super::{Home, UnitGradient, cargo, kept_bytes, share_bytes, waiting};
use crate::step::chain::{Chain, Visit};
use crate::step::residency::away::fraction_away;
use crate::step::residency::law::windows;
use crate::step::residency::prefetch::visits_ahead;
use crate::step::unit::Unit;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, ProgramBuilder};

/// Whole gradients.
#[derive(Default)]
pub(in super::super) struct Whole {
    /// By unit: bytes on the device that are not there all the time.
    held: Vec<u64>,
    /// By unit: the last op that wrote it to another tier in this step.
    written: Vec<Option<OpId>>,
}

impl Home for Whole {
    fn begin_step(&mut self, units: usize) {
        *self = Whole { held: vec![0; units], written: vec![None; units] };
    }

    fn wanted(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let unit = visit.unit as usize;
        if self.held[unit] > 0 {
            return;
        }
        let kept = kept_bytes(w, visit.unit);
        let written = self.written[unit];
        for away in &w.setup.shares.placed.gradients {
            let bytes = away.of(kept);
            match written {
                Some(written) => {
                    let waits: Vec<OpId> = w.prefetch_gate(b, kept).into_iter().chain([written]).collect();
                    let cargo = cargo(w, visit.unit, "prefetch gradients", bytes, visit.micro_batch);
                    w.fetch(b, away, cargo, &waits, false).into_iter().for_each(|op| chain.wait(op));
                }
                None => chain.take(MemoryClass::Gradients, bytes),
            }
            self.held[unit] += bytes;
        }
    }

    fn put_back(&mut self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder, added: UnitGradient<'_>) {
        let UnitGradient { unit, behind, micro_batch } = added;
        if self.held[unit as usize] == 0 {
            return;
        }
        let kept = kept_bytes(w, unit);
        for away in &w.setup.shares.placed.gradients {
            let cargo = cargo(w, unit, "write back gradients", away.of(kept), micro_batch);
            if let Some(op) = w.send(b, away, cargo, behind, cargo.bytes, false) {
                self.written[unit as usize] = Some(op);
            }
        }
        self.held[unit as usize] = 0;
    }

    fn sent(&mut self, _b: &mut ProgramBuilder, _units: &[u32], _last: OpId) {}

    /// Fetched ahead as weights are, and there until they are written back; where micro-batches share them, all the
    /// time.
    fn during(&self, given: &PolicyInputs<'_>, units: &[UnitTimes<'_>]) -> Vec<[f64; 2]> {
        let shares = given.shares;
        let (o, placed) = (&shares.workload.offload, &shares.placed.gradients);
        let away = fraction_away(placed);
        if placed.is_empty() {
            return vec![[0.0; 2]; units.len()];
        }
        let bytes = |u: &Unit| u.plan.trained.total() as f64 * shares.bytes.gradients * away;
        if o.reuse_across_micro_batches && given.passes > 1.0 {
            let all = units.iter().map(|u| bytes(u.unit)).sum();
            return vec![[all; 2]; units.len()];
        }
        let near = if given.passes == 1.0 { 0 } else { visits_ahead(given, bytes) };
        let each: Vec<f64> = units.iter().map(|u| bytes(u.unit)).collect();
        let fetched = windows(&each, [0, near], [0; 2]);
        let waiting =
            waiting(given, units, bytes, |u| given.copies(placed, bytes(u) / away.max(f64::MIN_POSITIVE))[1]);
        let both = fetched.iter().zip(waiting).zip(&each);
        both.map(|((f, w), own)| [0.0, f[1] + w[1] - own]).collect()
    }

    fn reduced(
        &mut self,
        w: &mut Writer<'_, '_>,
        b: &mut ProgramBuilder,
        added: UnitGradient<'_>,
        complete: bool,
    ) {
        if !complete {
            return self.put_back(w, b, added);
        }
        let UnitGradient { unit, behind, micro_batch } = added;
        let (bytes, kept) = (share_bytes(w, unit), kept_bytes(w, unit));
        let holds = std::mem::take(&mut self.held[unit as usize]) > 0;
        for away in &w.setup.shares.placed.gradients {
            let cargo = cargo(w, unit, "offload gradients", away.of(bytes), micro_batch);
            let frees = if holds { away.of(kept) } else { 0 };
            if let Some(op) = w.send(b, away, cargo, behind, frees, false) {
                w.reduced[unit as usize].push(op);
                self.written[unit as usize] = Some(op);
            } else if let Some(last) = behind.last() {
                free(b, *last, MemoryClass::Gradients, 0, frees);
            }
        }
    }
}
