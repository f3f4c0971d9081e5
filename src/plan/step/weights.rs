//! Weights and activations that are not in device memory when a layer needs them.
//!
//! * **FSDP / ZeRO-3**: the weights of a unit are gathered before each visit. With prefetch depth 1 the gather of visit
//!   j in forward waits for the start of the kernels of visit j−2, that is for the end of visit j−3 (at most two
//!   gathered buffers beside the one in use); in backward for the start of visit j−1 (end of visit j−2), since FSDP2
//!   issues it behind the copy-out of the visit before. Kernels of backward visit j also wait for the reduction of
//!   visit j−2. (PyTorch 2.11 `fsdp/_fully_shard`.) A depth of d moves both by d−1.
//! * **ZeRO-1/2**: updated weights are gathered once, before the first visit of the step.
//! * **Offload**: the share of a unit's weights that lives on another tier is copied in before each visit, and the
//!   bytes given back behind it. With depth d (in layers) the copy for visit j may start when visit j−d starts.
//!   Kept activations go out behind the forward visit and come in before the backward one.

use super::chain::{Chain, Visit};
use super::groups::Group;
use super::stage::{Stage, VisitRecord};
use crate::collective::Op;
use crate::ids::OpId;
use crate::plan::schedule::Pass;
use crate::program::{MemoryClass, MemoryEffect, MemoryWhen, Phase, ProgramBuilder};
use crate::spec::workload::{PrefetchUnit, ShardingKind};

impl Stage<'_, '_> {
    /// Brings in what a visit needs, and makes the chain wait for it. What a recomputation brought in stays for the
    /// backward visit that follows.
    pub(super) fn bring_in(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let unit = visit.unit as usize;
        if self.present[unit].is_some() {
            return;
        }
        let backward = visit.pass != Pass::Forward;
        match self.setup.workload.parallelism.sharding.kind {
            ShardingKind::Zero3 => self.gather_for(b, chain, visit, backward),
            ShardingKind::Zero1 | ShardingKind::Zero2 => self.gather_once(b, chain, visit),
            ShardingKind::None => {}
        }
        self.copy_weights_in(b, chain, visit);
        if backward {
            self.copy_activations_in(b, chain, visit);
        }
        self.present[unit] = Some(self.visits.len() as u32);
        let end = OpId((b.len() as u32).saturating_sub(1));
        self.visits.push(VisitRecord {
            end,
            bytes: self.unit_weight_bytes(visit.unit),
            reduce: None,
            backward,
        });
    }

    /// Closes the record of a visit whose last op is `end`, and gives up what was brought in for it.
    pub(super) fn leave(&mut self, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        let unit = visit.unit as usize;
        let record = self.present[unit].take().expect("a visit was opened");
        self.visits[record as usize].end = end;
        self.last_visit[unit] = record;
        let sharding = &self.setup.workload.parallelism.sharding;
        if sharding.kind == ShardingKind::Zero3 {
            let last = visit.pass != Pass::Forward && self.to_come[unit] == 1;
            if sharding.reshard_after_forward.unwrap_or(true) || last {
                free(b, MemoryClass::Weights, 0, self.gathered_bytes(visit.unit));
                self.gathered[unit] = None;
            }
        }
        for i in 0..self.setup.placed.weights.len() {
            let bytes = self.share(self.unit_weight_bytes(visit.unit), self.setup.placed.weights[i].1);
            free(b, MemoryClass::Weights, 0, bytes);
        }
        if visit.pass == Pass::Forward {
            self.copy_activations_out(b, visit, end);
        }
    }

    pub(super) fn unit_weight_bytes(&self, unit: u32) -> u64 {
        let (dense, expert) = self.units[unit as usize].weight_bytes(self.setup.bytes.weights);
        dense + expert
    }
    pub(super) fn share(&self, bytes: u64, fraction: f64) -> u64 {
        (bytes as f64 * fraction).round() as u64
    }

    /// Bytes of the gathered weights of a unit on one rank, beyond its own shard.
    fn gathered_bytes(&self, unit: u32) -> u64 {
        let (dense, expert) = self.units[unit as usize].weight_bytes(self.setup.bytes.weights);
        let d = &self.setup.degrees;
        dense - dense / u64::from(d.shard) + expert - expert / u64::from(d.expert_replicas())
    }

    /// Gathers the weights of one unit; returns the ops.
    pub(super) fn gather(
        &mut self,
        b: &mut ProgramBuilder,
        unit: u32,
        phase: Phase,
        waits: &[OpId],
        micro_batch: u32,
    ) -> Vec<OpId> {
        let (dense, expert) = self.units[unit as usize].weight_bytes(self.setup.weight_message_bytes);
        let layer = self.units[unit as usize].layer;
        let mut ops = Vec::new();
        for (group, bytes, name) in [
            (Group::Weights, dense, "all-gather weights"),
            (Group::ExpertWeights, expert, "all-gather expert weights"),
        ] {
            ops.extend(self.communicate(
                b,
                group,
                Op::AllGather,
                bytes,
                (name, phase, layer),
                waits,
                micro_batch,
            ));
        }
        ops
    }

    /// ZeRO-3: gathers before the visit, not earlier than the prefetch depth allows.
    fn gather_for(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit, backward: bool) {
        if self.gathered[visit.unit as usize].is_none() {
            let depth = self.setup.workload.parallelism.sharding.prefetch.depth as usize;
            let turn = self.visits.iter().rposition(|v| v.backward != backward).map_or(0, |i| i + 1);
            let ahead = depth + if backward { 1 } else { 2 };
            let at = self.visits.len();
            // Nothing is gathered ahead across the turn from forward to backward or from a micro-batch to the next.
            let gate = at
                .checked_sub(ahead)
                .filter(|g| *g >= turn || !backward)
                .or((backward && turn > 0).then(|| turn - 1));
            let waits: Vec<OpId> = gate.map(|g| self.visits[g].end).into_iter().collect();
            let phase = if backward { Phase::Backward } else { Phase::Forward };
            let ops = self.gather(b, visit.unit, phase, &waits, visit.micro_batch);
            if let Some(op) = ops.last() {
                self.gathered[visit.unit as usize] = Some(*op);
                let bytes = self.gathered_bytes(visit.unit);
                b.memory(MemoryEffect {
                    when: MemoryWhen::AllocAtStart,
                    class: MemoryClass::Weights,
                    tier: 0,
                    bytes,
                });
            }
            ops.into_iter().for_each(|op| chain.wait(op));
        }
        if backward {
            let before = self.visits.len().checked_sub(2).and_then(|i| self.visits[i].reduce);
            before.into_iter().for_each(|op| chain.wait(op));
        }
    }

    /// ZeRO-1 and -2: gathers what the optimizer step before has updated, at the first visit of the step.
    fn gather_once(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let overlaps = self.setup.workload.gradient_buckets.overlap_weight_gather;
        if overlaps && self.gathered[visit.unit as usize].is_none() {
            let ops = self.gather(b, visit.unit, Phase::Forward, &[], visit.micro_batch);
            self.gathered[visit.unit as usize] = ops.last().copied();
            ops.into_iter().for_each(|op| chain.wait(op));
        }
    }

    /// The op behind which a copy for the next visit may start: prefetch depth in layers, kernels or bytes.
    fn prefetch_gate(&self, b: &ProgramBuilder, bytes: u64) -> Option<OpId> {
        let prefetch = self.setup.workload.offload.prefetch;
        let at = self.visits.len();
        match prefetch.unit {
            PrefetchUnit::Layers => Some(self.visits[at.checked_sub(prefetch.depth as usize + 1)?].end),
            PrefetchUnit::Ops => b.recent(self.compute, prefetch.depth as usize),
            PrefetchUnit::Bytes => {
                let mut ahead = bytes;
                let gate = self.visits.iter().rev().find(|v| {
                    ahead = ahead.saturating_add(v.bytes);
                    ahead > prefetch.depth
                });
                gate.map(|v| v.end)
            }
        }
    }

    fn copy_weights_in(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let phase = if visit.pass == Pass::Forward { Phase::Forward } else { Phase::Backward };
        let total = self.unit_weight_bytes(visit.unit);
        for (tier, fraction) in self.setup.placed.weights.clone() {
            let bytes = self.share(total, fraction);
            let waits: Vec<OpId> = self.prefetch_gate(b, total).into_iter().collect();
            let what = ("prefetch weights", phase, self.units[visit.unit as usize].layer);
            let copy = self.communicate(
                b,
                Group::CopyIn(tier),
                Op::SendRecv,
                bytes,
                what,
                &waits,
                visit.micro_batch,
            );
            if let Some(op) = copy {
                b.memory(MemoryEffect {
                    when: MemoryWhen::AllocAtStart,
                    class: MemoryClass::Weights,
                    tier: 0,
                    bytes,
                });
                chain.wait(op);
            }
        }
    }

    /// Kept activations leave the device behind the forward visit.
    fn copy_activations_out(&mut self, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        let kept = self.kept(visit.unit);
        for (tier, fraction) in self.setup.placed.activations.clone() {
            let bytes = self.share(kept, fraction);
            let what = ("offload activations", Phase::Forward, self.units[visit.unit as usize].layer);
            let copy = self.communicate(
                b,
                Group::CopyOut(tier),
                Op::SendRecv,
                bytes,
                what,
                &[end],
                visit.micro_batch,
            );
            if let Some(op) = copy {
                let class = MemoryClass::Activations;
                b.memory(MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier, bytes });
                free(b, class, 0, bytes);
                self.moved_out.insert((visit.unit, visit.micro_batch), op);
            }
        }
    }

    fn copy_activations_in(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let Some(out) = self.moved_out.remove(&(visit.unit, visit.micro_batch)) else { return };
        let kept = self.kept(visit.unit);
        for (tier, fraction) in self.setup.placed.activations.clone() {
            let bytes = self.share(kept, fraction);
            let mut waits: Vec<OpId> = self.prefetch_gate(b, kept).into_iter().collect();
            waits.push(out);
            let what = ("prefetch activations", Phase::Backward, self.units[visit.unit as usize].layer);
            let copy = self.communicate(
                b,
                Group::CopyIn(tier),
                Op::SendRecv,
                bytes,
                what,
                &waits,
                visit.micro_batch,
            );
            if let Some(op) = copy {
                let class = MemoryClass::Activations;
                b.memory(MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier: 0, bytes });
                free(b, class, tier, bytes);
                chain.wait(op);
            }
        }
    }
}

/// The op pushed last gives bytes back when it ends.
pub(super) fn free(b: &mut ProgramBuilder, class: MemoryClass, tier: u8, bytes: u64) {
    if bytes > 0 {
        b.memory(MemoryEffect { when: MemoryWhen::FreeAtEnd, class, tier, bytes });
    }
}
