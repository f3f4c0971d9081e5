//! Copies between device memory and the tiers behind it: weights, activations, and what both have in common.
//!
//! * With depth d (in layers) the copy for visit j may start when visit j−d starts. Depth 0: when it is needed. L equal
//!   visits of time f and copy time c on an idle link take c + (L−1)·max(f, c) + f, and L·(c + f) at depth 0.
//! * The share of a unit's weights that lives on another tier is copied in before each visit, and the bytes are given
//!   back behind it. With `reuse_across_micro_batches` it stays while the rank's next pass in the same direction goes
//!   through the same chunk. (Under ZeRO-3 only the rank's shard is copied, ahead of the gather: see `weights`.)
//! * Kept activations go out behind the forward visit and come in before the backward one, unless that backward visit
//!   is among the next d: then they stay.
//! * A chain (device ← host ← NVMe) is one copy for each link of it, with a staging buffer on every tier between.
//! * `pinned_buffer_bytes` is a tier of its own for each rank: a copy takes its bytes there while it is under way (in a
//!   chain from its first to its last hop), and waits while they do not fit.

use super::chain::{Chain, Visit};
use super::groups::Group;
use super::stage::Stage;
use super::weights::free;
use crate::collective::Op;
use crate::ids::OpId;
use crate::program::{MemoryClass, MemoryEffect, MemoryWhen, Phase, ProgramBuilder};
use crate::spec::workload::PrefetchUnit;

/// A share of a class of bytes that lives off the device.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Away {
    /// The tier where it lives, by its number on the device.
    pub tier: u8,
    /// Tiers on its way to the device, the farthest first.
    pub via: Vec<u8>,
    /// Which share, 0 to 1.
    pub fraction: f64,
}

impl Away {
    /// The tier that the device copies from: the last on the way.
    pub fn near(&self) -> u8 {
        self.via.last().copied().unwrap_or(self.tier)
    }
    /// The hops towards the device, without the last one into it.
    pub fn hops(&self) -> Vec<(u8, u8)> {
        let stops: Vec<u8> = std::iter::once(self.tier).chain(self.via.iter().copied()).collect();
        stops.windows(2).map(|w| (w[0], w[1])).collect()
    }
    /// Its part of so many bytes.
    pub fn of(&self, bytes: u64) -> u64 {
        (bytes as f64 * self.fraction).round() as u64
    }
}

/// The shares of a class that are off the device, together.
pub(super) fn fraction_away(placed: &[Away]) -> f64 {
    placed.iter().map(|a| a.fraction).sum()
}

/// What a copy is, for readers and for the ledger.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cargo {
    pub class: MemoryClass,
    pub bytes: u64,
    pub name: &'static str,
    pub phase: Phase,
    pub layer: Option<u32>,
    pub micro_batch: u32,
}

impl Stage<'_, '_> {
    /// Copies towards the device, hop by hop; device memory is taken when the last hop starts. With `leaves` the bytes
    /// are given back where they lived. Returns the last hop.
    pub(super) fn fetch(
        &mut self,
        b: &mut ProgramBuilder,
        away: &Away,
        cargo: Cargo,
        waits: &[OpId],
        leaves: bool,
    ) -> Option<OpId> {
        let last = self.stage_in(b, away, cargo, waits);
        let waits = last.as_ref().map_or(waits, std::slice::from_ref);
        let op = self.copy(b, Group::CopyIn(away.near()), cargo, waits)?;
        take(b, cargo.class, 0, cargo.bytes);
        match last {
            Some(_) => free(b, cargo.class, away.near(), cargo.bytes),
            None => self.pin(b, cargo.bytes),
        }
        self.unpin(b, cargo.bytes);
        if leaves {
            free(b, cargo.class, away.tier, cargo.bytes);
        }
        Some(op)
    }

    /// The hops of a chain up to the tier next to the device, which then holds the bytes.
    pub(super) fn stage_in(
        &mut self,
        b: &mut ProgramBuilder,
        away: &Away,
        cargo: Cargo,
        waits: &[OpId],
    ) -> Option<OpId> {
        let mut last: Option<OpId> = None;
        for (i, (from, to)) in away.hops().into_iter().enumerate() {
            let waits = last.as_ref().map_or(waits, std::slice::from_ref);
            let op = self.copy(b, Group::TierIn(from, to), cargo, waits)?;
            take(b, cargo.class, to, cargo.bytes);
            if i == 0 {
                self.pin(b, cargo.bytes);
            } else {
                free(b, cargo.class, from, cargo.bytes);
            }
            last = Some(op);
        }
        last
    }

    /// Copies off the device, hop by hop. `frees` bytes of the device are given back when the first hop ends; with
    /// `enters` the bytes are taken where they will live. Returns the last hop.
    pub(super) fn send(
        &mut self,
        b: &mut ProgramBuilder,
        away: &Away,
        cargo: Cargo,
        waits: &[OpId],
        frees: u64,
        enters: bool,
    ) -> Option<OpId> {
        let hops = away.hops();
        let mut op = self.copy(b, Group::CopyOut(away.near()), cargo, waits)?;
        self.pin(b, cargo.bytes);
        free(b, cargo.class, 0, frees);
        if hops.is_empty() {
            self.unpin(b, cargo.bytes);
        } else {
            take(b, cargo.class, away.near(), cargo.bytes);
        }
        if enters && hops.is_empty() {
            take(b, cargo.class, away.tier, cargo.bytes);
        }
        for (i, (to, from)) in hops.into_iter().rev().enumerate() {
            let last = i + 1 == away.via.len();
            op = self.copy(b, Group::TierOut(from, to), cargo, &[op])?;
            if !last || enters {
                take(b, cargo.class, to, cargo.bytes);
            }
            free(b, cargo.class, from, cargo.bytes);
            if last {
                self.unpin(b, cargo.bytes);
            }
        }
        Some(op)
    }

    fn copy(&mut self, b: &mut ProgramBuilder, group: Group, cargo: Cargo, waits: &[OpId]) -> Option<OpId> {
        let what = (cargo.name, cargo.phase, cargo.layer);
        self.communicate(b, group, Op::SendRecv, cargo.bytes, what, waits, cargo.micro_batch)
    }
    fn pin(&self, b: &mut ProgramBuilder, bytes: u64) {
        if let Some(pinned) = self.setup.pinned {
            take(b, MemoryClass::Workspace, pinned, bytes);
        }
    }
    pub(super) fn unpin(&self, b: &mut ProgramBuilder, bytes: u64) {
        if let Some(pinned) = self.setup.pinned {
            free(b, MemoryClass::Workspace, pinned, bytes);
        }
    }

    /// The op behind which a copy for the next visit may start: prefetch depth in layers, kernels or bytes.
    pub(super) fn prefetch_gate(&self, b: &ProgramBuilder, bytes: u64) -> Option<OpId> {
        let prefetch = self.setup.workload.offload.prefetch;
        let at = self.visits.len();
        match prefetch.unit {
            PrefetchUnit::Layers => {
                let depth = usize::try_from(prefetch.depth).unwrap_or(usize::MAX);
                Some(self.visits[at.checked_sub(depth.saturating_add(1))?].end)
            }
            PrefetchUnit::Ops => {
                let depth = usize::try_from(prefetch.depth).unwrap_or(usize::MAX);
                b.recent(self.compute, depth.saturating_add(1))
            }
            PrefetchUnit::Bytes => {
                let mut ahead = bytes;
                let gate = self.visits.iter().rev().find(|v| {
                    let over = ahead > prefetch.depth;
                    ahead = ahead.saturating_add(v.bytes);
                    over
                });
                gate.map(|v| v.end)
            }
        }
    }

    /// Brings in what lives elsewhere of a unit's weights.
    pub(super) fn copy_weights_in(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let unit = visit.unit as usize;
        if self.setup.placed.weights.is_empty() || self.on_device[unit] {
            return;
        }
        let total = self.unit_weight_bytes(visit.unit);
        let mut waits: Vec<OpId> = self.prefetch_gate(b, total).into_iter().collect();
        waits.extend(&self.fresh[unit]);
        for away in self.setup.placed.weights.clone() {
            let cargo = self.weights_cargo(visit, "prefetch weights", away.of(total));
            self.fetch(b, &away, cargo, &waits, false).into_iter().for_each(|op| chain.wait(op));
        }
        self.on_device[unit] = true;
    }
    /// Gives up what was brought in of a unit's weights; the op pushed last frees it.
    pub(super) fn give_up_weights(&mut self, b: &mut ProgramBuilder, unit: u32, again: bool) {
        let keeps = again && self.setup.workload.offload.reuse_across_micro_batches;
        if !self.on_device[unit as usize] || keeps {
            return;
        }
        let total = self.unit_weight_bytes(unit);
        self.setup.placed.weights.iter().for_each(|a| free(b, MemoryClass::Weights, 0, a.of(total)));
        self.on_device[unit as usize] = false;
    }
    pub(super) fn weights_cargo(&self, visit: Visit, name: &'static str, bytes: u64) -> Cargo {
        let backward = visit.pass != crate::schedule::Pass::Forward;
        Cargo {
            class: MemoryClass::Weights,
            bytes,
            name,
            phase: if backward { Phase::Backward } else { Phase::Forward },
            layer: self.units[visit.unit as usize].layer,
            micro_batch: visit.micro_batch,
        }
    }

    /// Kept activations leave the device behind the forward visit.
    pub(super) fn copy_activations_out(&mut self, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        let prefetch = self.setup.workload.offload.prefetch;
        let near = match prefetch.unit {
            PrefetchUnit::Layers => usize::try_from(prefetch.depth).unwrap_or(usize::MAX).max(1),
            _ => 1,
        };
        let soon = self.trace.ahead().iter().take(near);
        if soon.into_iter().any(|c| c.backward && c.unit == visit.unit && c.micro_batch == visit.micro_batch)
        {
            return;
        }
        let kept = self.kept(visit.unit);
        for (i, away) in self.setup.placed.activations.clone().iter().enumerate() {
            let cargo = self.activations_cargo(visit, "offload activations", away.of(kept));
            if let Some(op) = self.send(b, away, cargo, &[end], cargo.bytes, true) {
                self.moved_out.insert((visit.unit, visit.micro_batch, i as u32), op);
            }
        }
    }

    pub(super) fn copy_activations_in(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let kept = self.kept(visit.unit);
        for (i, away) in self.setup.placed.activations.clone().iter().enumerate() {
            let Some(out) = self.moved_out.remove(&(visit.unit, visit.micro_batch, i as u32)) else {
                continue;
            };
            let mut waits: Vec<OpId> = self.prefetch_gate(b, kept).into_iter().collect();
            waits.push(out);
            let cargo = self.activations_cargo(visit, "prefetch activations", away.of(kept));
            self.fetch(b, away, cargo, &waits, true).into_iter().for_each(|op| chain.wait(op));
        }
    }
    fn activations_cargo(&self, visit: Visit, name: &'static str, bytes: u64) -> Cargo {
        Cargo { class: MemoryClass::Activations, ..self.weights_cargo(visit, name, bytes) }
    }
}

/// The op pushed last takes bytes when it starts.
pub(super) fn take(b: &mut ProgramBuilder, class: MemoryClass, tier: u8, bytes: u64) {
    if bytes > 0 {
        b.memory(MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier, bytes });
    }
}
