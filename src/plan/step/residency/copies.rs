//! Copies between device memory and the tiers behind it, and how far ahead of their use they may start.
//!
//! * With depth d (in layers) the copy for visit j may start when visit j−d starts. Depth 0: when it is needed. L equal
//!   visits of time f and copy time c on an idle link take c + (L−1)·max(f, c) + f, and L·(c + f) at depth 0.
//! * A chain (device ← host ← NVMe) is one copy for each link of it, with a staging buffer on every tier between.

use super::away::Away;
use crate::step::chain::Visit;
use crate::step::groups::Group;
use crate::step::writer::Writer;
use stepsim_core::ids::OpId;
use stepsim_core::program::{MemoryClass, MemoryEffect, MemoryWhen, Phase, ProgramBuilder};
use stepsim_fabric::collective::Op;
use stepsim_schedule::Pass;
use stepsim_spec::workload::PrefetchUnit;

/// A copy as readers and the ledger see it.
#[derive(Clone, Copy, Debug)]
pub(in crate::step) struct Cargo {
    pub class: MemoryClass,
    pub bytes: u64,
    pub name: &'static str,
    pub phase: Phase,
    pub layer: Option<u32>,
    pub micro_batch: u32,
}

impl Cargo {
    /// Bytes of a unit that one of its visits needs or leaves.
    pub fn of(
        w: &Writer<'_, '_>,
        visit: Visit,
        (class, name): (MemoryClass, &'static str),
        bytes: u64,
    ) -> Cargo {
        Cargo {
            class,
            bytes,
            name,
            phase: if visit.pass == Pass::Forward { Phase::Forward } else { Phase::Backward },
            layer: w.units[visit.unit as usize].layer,
            micro_batch: visit.micro_batch,
        }
    }
}

impl Writer<'_, '_> {
    /// Copies towards the device, hop by hop; device memory is taken when the last hop starts. With `leaves` the bytes
    /// are given back where they lived. Returns the last hop.
    pub(in crate::step) fn fetch(
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
        take(b, op, cargo.class, 0, cargo.bytes);
        if last.is_some() {
            free(b, op, cargo.class, away.near(), cargo.bytes);
        }
        if leaves {
            free(b, op, cargo.class, away.tier, cargo.bytes);
        }
        Some(op)
    }

    /// The hops of a chain up to the tier next to the device, which then holds the bytes.
    pub(in crate::step) fn stage_in(
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
            take(b, op, cargo.class, to, cargo.bytes);
            if i > 0 {
                free(b, op, cargo.class, from, cargo.bytes);
            }
            last = Some(op);
        }
        last
    }

    /// Copies off the device, hop by hop. `frees` bytes of the device are given back when the first hop ends; with
    /// `enters` the bytes are taken where they will live. Returns the last hop.
    pub(in crate::step) fn send(
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
        free(b, op, cargo.class, 0, frees);
        if !hops.is_empty() {
            take(b, op, cargo.class, away.near(), cargo.bytes);
        }
        if enters && hops.is_empty() {
            take(b, op, cargo.class, away.tier, cargo.bytes);
        }
        for (i, (to, from)) in hops.into_iter().rev().enumerate() {
            let last = i + 1 == away.via.len();
            op = self.copy(b, Group::TierOut(from, to), cargo, &[op])?;
            if !last || enters {
                take(b, op, cargo.class, to, cargo.bytes);
            }
            free(b, op, cargo.class, from, cargo.bytes);
        }
        Some(op)
    }

    /// One hop. What no longer fits a tier's cache of writes follows behind the rest, at the rate of what it keeps.
    pub(in crate::step) fn copy(
        &mut self,
        b: &mut ProgramBuilder,
        group: Group,
        cargo: Cargo,
        waits: &[OpId],
    ) -> Option<OpId> {
        let what = (cargo.name, cargo.phase, cargo.layer);
        let past = group.past_cache().filter(|past| self.slot(*past).is_some());
        let over = past.map_or(0, |past| self.over_cache(past, cargo.bytes));
        let inside = cargo.bytes - over;
        let op = self.communicate(b, group, Op::SendRecv, inside, what, waits, cargo.micro_batch);
        let Some(past) = past.filter(|_| over > 0) else { return op };
        let waits = op.as_ref().map_or(waits, std::slice::from_ref);
        self.communicate(b, past, Op::SendRecv, over, what, waits, cargo.micro_batch).or(op)
    }
    /// Of `bytes` that are written to a tier, those that its cache has no room for.
    fn over_cache(&mut self, past: Group, bytes: u64) -> u64 {
        let Group::PastCache(_, tier) = past else { return 0 };
        let written = self.cached.entry(tier).or_default();
        let room = self.setup.shares.write_caches[usize::from(tier)].saturating_sub(*written);
        *written += bytes;
        bytes.saturating_sub(room)
    }

    /// The op behind which a copy for the next visit may start: prefetch depth in layers, kernels or bytes.
    pub(in crate::step) fn prefetch_gate(&self, b: &ProgramBuilder, bytes: u64) -> Option<OpId> {
        let begun = self.visits.begun();
        let visit = |back| &begun[begun.len() - back];
        self.gate(b, begun.len(), |back| (visit(back).end, visit(back).bytes), bytes)
    }

    /// The same gate behind `steps` steps; `before(back)` is the last op and the bytes of the step `back` before the
    /// next.
    pub(super) fn gate(
        &self,
        b: &ProgramBuilder,
        steps: usize,
        before: impl Fn(usize) -> (OpId, u64),
        bytes: u64,
    ) -> Option<OpId> {
        let prefetch = self.setup.shares.workload.offload.prefetch;
        let back = usize::try_from(prefetch.depth).unwrap_or(usize::MAX).saturating_add(1);
        match prefetch.unit {
            PrefetchUnit::Layers => (back <= steps).then(|| before(back).0),
            PrefetchUnit::Ops => b.recent(self.compute, back),
            PrefetchUnit::Bytes => {
                let mut ahead = bytes;
                let gate = (1..=steps).map(before).find(|(_, of_step)| {
                    let over = ahead > prefetch.depth;
                    ahead = ahead.saturating_add(*of_step);
                    over
                });
                gate.map(|(end, _)| end)
            }
        }
    }
}

/// An op takes bytes when it starts.
pub(in super::super) fn take(b: &mut ProgramBuilder, op: OpId, class: MemoryClass, tier: u8, bytes: u64) {
    if bytes > 0 {
        b.memory(op, MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier, bytes });
    }
}

/// An op gives bytes back when it ends.
pub(in super::super) fn free(b: &mut ProgramBuilder, op: OpId, class: MemoryClass, tier: u8, bytes: u64) {
    if bytes > 0 {
        b.memory(op, MemoryEffect { when: MemoryWhen::FreeAtEnd, class, tier, bytes });
    }
}
