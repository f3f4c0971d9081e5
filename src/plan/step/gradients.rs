//! Gradients: where they gather, and their reduction over ranks that hold the same weights.
//!
//! The gradient of a unit is complete when the last micro-batch has added its part. It is reduced then, or after every
//! micro-batch: `reduce_every_micro_batch`, by default where gradients are cut (ZeRO-2 and -3), since a shard cannot hold
//! what is not reduced. Units to reduce gather in a bucket; a full bucket is reduced by an all-reduce where every rank
//! keeps everything, by a reduce-scatter where optimizer state is cut (hybrid sharding: then an all-reduce of the shard
//! between sharding groups). With overlap the reduction runs beside the backward passes still to come, else behind the
//! last of them.
//!
//! What is on the device, beyond what is resident:
//! * cut and reduced after every micro-batch: the whole gradient of a unit, as it is sent, from its backward pass until
//!   it is reduced;
//! * cut and reduced once: the same, as it is kept, from its first backward pass on;
//! * not cut, with a share on another tier: that share is fetched before each backward pass but the first, and written
//!   back behind it. With `reuse_across_micro_batches` it stays (and what is cut is not yet reduced) while the rank's next
//!   backward pass goes through the same chunk.
//! * cut, with a share on another tier: what the shard has gathered there so far is fetched and written back around each
//!   reduction.

use super::chain::{Chain, Visit};
use super::groups::Group;
use super::offload::{Cargo, fraction_away, take};
use super::stage::Stage;
use super::weights::free;
use crate::collective::Op;
use crate::ids::OpId;
use crate::model::LayerKind;
use crate::program::{MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, Phase, ProgramBuilder};
use crate::spec::workload::ShardingKind;

/// The gradient of one unit.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitGradient {
    /// Bytes on the device that are not there all the time: to be given back when it is reduced or written back.
    pub held: u64,
    /// The last op that wrote it to another tier in this step.
    pub written: Option<OpId>,
    /// Whether it has been reduced in this step.
    pub reduced: bool,
}

impl Stage<'_, '_> {
    /// Bytes that are there before the step and stay.
    pub(super) fn reside(&mut self, b: &mut ProgramBuilder) {
        let state = self.state();
        let optimizer = if self.setup.steps > 1 {
            // Moments appear with the first update.
            state.optimizer * self.setup.bytes.master / self.setup.bytes.optimizer().max(f64::MIN_POSITIVE)
        } else {
            state.optimizer
        };
        let placed = &self.setup.placed;
        let classes = [
            (MemoryClass::Weights, state.weights, &placed.weights),
            (MemoryClass::Gradients, state.gradients, &placed.gradients),
            (MemoryClass::Optimizer, optimizer, &placed.optimizer),
        ];
        for (class, bytes, placed) in classes {
            let here = (0, 1.0 - fraction_away(placed));
            let shares = placed.iter().map(|a| (a.tier, a.fraction)).chain([here]);
            let rounded = shares.map(|(tier, f)| (tier, (bytes * f).round() as u64));
            for (tier, bytes) in rounded.filter(|s| s.1 > 0) {
                b.resident(MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier, bytes });
            }
        }
    }

    /// Whether each rank keeps a part of the reduced gradients only.
    fn gradients_are_cut(&self) -> bool {
        let kind = self.setup.workload.parallelism.sharding.kind;
        kind >= ShardingKind::Zero2
            && (self.slot(Group::Gradients).is_some() || self.slot(Group::ExpertGradients).is_some())
    }
    fn reduces_each(&self) -> bool {
        self.setup.workload.reduces_every_micro_batch()
    }
    fn gradient_bytes(&self, unit: u32, per_parameter: f64) -> u64 {
        let (dense, expert) = self.units[unit as usize].weight_bytes(per_parameter);
        dense + expert
    }

    /// A pass comes that adds to the gradient of a unit: its memory is taken, or its share elsewhere fetched.
    pub(super) fn gradient_wanted(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let unit = visit.unit as usize;
        if self.gradients[unit].held > 0 {
            return;
        }
        let kept = self.gradient_bytes(visit.unit, self.setup.bytes.gradients);
        if self.gradients_are_cut() {
            let bytes = if self.reduces_each() {
                self.gradient_bytes(visit.unit, self.setup.gradient_message_bytes)
            } else {
                kept
            };
            chain.take(MemoryClass::Gradients, bytes);
            self.gradients[unit].held = bytes;
            return;
        }
        let placed = self.setup.placed.gradients.clone();
        let written = self.gradients[unit].written;
        for away in &placed {
            let bytes = away.of(kept);
            match written {
                Some(written) => {
                    let mut waits: Vec<OpId> = self.prefetch_gate(b, kept).into_iter().collect();
                    waits.push(written);
                    let cargo =
                        self.gradient_cargo(visit.unit, "prefetch gradients", bytes, visit.micro_batch);
                    self.fetch(b, away, cargo, &waits, false).into_iter().for_each(|op| chain.wait(op));
                }
                None => chain.take(MemoryClass::Gradients, bytes),
            }
            self.gradients[unit].held += bytes;
        }
    }

    fn gradient_cargo(&self, unit: u32, name: &'static str, bytes: u64, micro_batch: u32) -> Cargo {
        let layer = self.units[unit as usize].layer;
        Cargo { class: MemoryClass::Gradients, bytes, name, phase: Phase::Backward, layer, micro_batch }
    }

    /// A micro-batch has added to the gradient of a unit; `end` is the op that did, and the op pushed last.
    pub(super) fn gradient_added(&mut self, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        let unit = visit.unit as usize;
        self.to_come[unit] -= 1;
        let complete = self.to_come[unit] == 0;
        let again = self.visits.get(self.last_visit[unit] as usize).is_some_and(|v| v.again);
        let waits_for_more = again && self.setup.workload.offload.reuse_across_micro_batches && !complete;
        if waits_for_more {
            return;
        }
        if !complete && !self.reduces_each() {
            self.write_back_gradient(b, visit.unit, &[end], visit.micro_batch);
            return;
        }
        if !self.bucket.contains(&visit.unit) {
            self.bucket.push(visit.unit);
        }
        let buckets = &self.setup.workload.gradient_buckets;
        if !buckets.overlap && complete {
            return;
        }
        let message = self.setup.gradient_message_bytes;
        let filled: u64 = self.bucket.iter().map(|u| self.gradient_bytes(*u, message)).sum();
        // After every micro-batch nothing stays behind: the pass ends with the first unit of its chunk.
        let chunk_done = self.first_unit.contains(&visit.unit) && self.reduces_each();
        if filled >= buckets.bucket_bytes || chunk_done || self.to_come.iter().all(|n| *n == 0) {
            self.reduce_bucket(b, &[end], visit.micro_batch);
        }
    }

    /// Gradients that are not cut go back where they live; nothing happens where all are on the device.
    fn write_back_gradient(&mut self, b: &mut ProgramBuilder, unit: u32, waits: &[OpId], micro_batch: u32) {
        if self.gradients_are_cut() || self.gradients[unit as usize].held == 0 {
            return;
        }
        let kept = self.gradient_bytes(unit, self.setup.bytes.gradients);
        for away in self.setup.placed.gradients.clone() {
            let cargo = self.gradient_cargo(unit, "write back gradients", away.of(kept), micro_batch);
            if let Some(op) = self.send(b, &away, cargo, waits, cargo.bytes, false) {
                self.gradients[unit as usize].written = Some(op);
            }
        }
        self.gradients[unit as usize].held = 0;
    }

    /// Reduces the units of the bucket in one message for each group.
    pub(super) fn reduce_bucket(&mut self, b: &mut ProgramBuilder, waits: &[OpId], micro_batch: u32) {
        let units = std::mem::take(&mut self.bucket);
        let Some(first) = units.first() else { return };
        let ops = self.reduce(b, &units, self.units[*first as usize].layer, waits, micro_batch);
        let behind = if ops.is_empty() { waits.to_vec() } else { ops.clone() };
        let cut = self.gradients_are_cut();
        if cut {
            // The whole gradients have done their duty. What reduces last is the op pushed last.
            let held: u64 = units.iter().map(|u| std::mem::take(&mut self.gradients[*u as usize].held)).sum();
            free(b, MemoryClass::Gradients, 0, held);
        }
        for unit in units {
            let record = self.last_visit[unit as usize] as usize;
            if let Some(visit) = self.visits.get_mut(record) {
                visit.reduce = ops.clone();
            }
            self.reduced[unit as usize].extend(&ops);
            if cut {
                self.add_up_shard(b, unit, &behind, micro_batch);
            } else if self.to_come[unit as usize] > 0 {
                self.write_back_gradient(b, unit, &behind, micro_batch);
            } else {
                self.write_back_complete(b, unit, &behind, micro_batch);
            }
            self.gradients[unit as usize].reduced = true;
        }
    }

    /// The messages of some units; hybrid sharding's all-reduce last.
    fn reduce(
        &mut self,
        b: &mut ProgramBuilder,
        units: &[u32],
        layer: Option<u32>,
        waits: &[OpId],
        micro_batch: u32,
    ) -> Vec<OpId> {
        let sharded = self.setup.workload.parallelism.sharding.kind != ShardingKind::None;
        let sizes =
            units.iter().map(|u| self.units[*u as usize].weight_bytes(self.setup.gradient_message_bytes));
        let (dense, expert) = sizes.fold((0, 0), |sum, s| (sum.0 + s.0, sum.1 + s.1));
        let mut ops = Vec::new();
        for (group, bytes) in [(Group::Gradients, dense), (Group::ExpertGradients, expert)] {
            let (op, name) = match (sharded, group) {
                (true, Group::Gradients) => (Op::ReduceScatter, "reduce-scatter gradients"),
                (true, _) => (Op::ReduceScatter, "reduce-scatter expert gradients"),
                (false, Group::Gradients) => (Op::AllReduce, "all-reduce gradients"),
                (false, _) => (Op::AllReduce, "all-reduce expert gradients"),
            };
            let what = (name, Phase::Backward, layer);
            let reduced = self.communicate(b, group, op, bytes, what, waits, micro_batch);
            // Also a sharding group of one has replicas to sum over.
            if group == Group::Gradients {
                let what = ("all-reduce gradient shards", Phase::Backward, layer);
                let shard = bytes / u64::from(self.setup.degrees.shard);
                let waits = reduced.as_ref().map_or(waits, std::slice::from_ref);
                let summed =
                    self.communicate(b, Group::Replicas, Op::AllReduce, shard, what, waits, micro_batch);
                ops.extend(summed.or(reduced));
            } else {
                ops.extend(reduced);
            }
        }
        ops
    }

    /// A reduced shard is added to what its tier holds.
    fn add_up_shard(&mut self, b: &mut ProgramBuilder, unit: u32, behind: &[OpId], micro_batch: u32) {
        let share = self.updated_parameters(unit as usize..unit as usize + 1);
        let bytes = (share as f64 * self.setup.bytes.gradients).round() as u64;
        let before = self.gradients[unit as usize].written;
        for away in self.setup.placed.gradients.clone() {
            let bytes = away.of(bytes);
            let mut waits = behind.to_vec();
            if let Some(before) = before {
                let mut gates: Vec<OpId> = self.prefetch_gate(b, bytes).into_iter().collect();
                gates.push(before);
                let cargo = self.gradient_cargo(unit, "prefetch gradients", bytes, micro_batch);
                waits.extend(self.fetch(b, &away, cargo, &gates, false));
            }
            let cargo = self.gradient_cargo(unit, "offload gradients", bytes, micro_batch);
            let frees = if before.is_some() { bytes } else { 0 };
            if let Some(op) = self.send(b, &away, cargo, &waits, frees, false) {
                if before.is_none() {
                    // The first part comes straight from the reduction.
                    take(b, MemoryClass::Gradients, 0, bytes);
                    free(b, MemoryClass::Gradients, 0, bytes);
                }
                self.gradients[unit as usize].written = Some(op);
                self.reduced[unit as usize].push(op);
            }
        }
    }

    /// A complete gradient that is not cut: what this rank updates goes where it lives, the rest is given up.
    fn write_back_complete(&mut self, b: &mut ProgramBuilder, unit: u32, behind: &[OpId], micro_batch: u32) {
        let share = self.updated_parameters(unit as usize..unit as usize + 1);
        let bytes = (share as f64 * self.setup.bytes.gradients).round() as u64;
        let kept = self.gradient_bytes(unit, self.setup.bytes.gradients);
        let holds = std::mem::take(&mut self.gradients[unit as usize].held) > 0;
        for away in self.setup.placed.gradients.clone() {
            let cargo = self.gradient_cargo(unit, "offload gradients", away.of(bytes), micro_batch);
            let frees = if holds { away.of(kept) } else { 0 };
            if let Some(op) = self.send(b, &away, cargo, behind, frees, false) {
                self.reduced[unit as usize].push(op);
                self.gradients[unit as usize].written = Some(op);
            } else {
                free(b, MemoryClass::Gradients, 0, frees);
            }
        }
    }

    /// Reduces what waits in the bucket, in messages of the size asked for, all behind the last pass.
    pub(super) fn reduce_the_rest(&mut self, b: &mut ProgramBuilder, last: Option<OpId>) {
        while !self.bucket.is_empty() {
            let rest = self.split_bucket();
            self.reduce_bucket(b, last.as_slice(), NO_MICRO_BATCH);
            self.bucket = rest;
        }
    }

    /// Takes all but the first bucketful out of the bucket.
    fn split_bucket(&mut self) -> Vec<u32> {
        let limit = self.setup.workload.gradient_buckets.bucket_bytes;
        let mut filled = 0;
        let mut keep = 0;
        for unit in &self.bucket {
            filled += self.gradient_bytes(*unit, self.setup.gradient_message_bytes);
            keep += 1;
            if filled >= limit {
                break;
            }
        }
        self.bucket.split_off(keep)
    }

    /// First and last stage add up the gradients of the table they share.
    pub(super) fn sum_tied_embedding(&mut self, b: &mut ProgramBuilder, last: Option<OpId>) {
        let holds = |kind| self.units.iter().position(|u: &super::unit::Unit| u.plan.kind == kind);
        let holder = match (holds(LayerKind::Embedding), holds(LayerKind::Head)) {
            (Some(unit), None) | (None, Some(unit)) => unit,
            _ => return,
        };
        let mut waits = self.reduced[holder].clone();
        waits.extend(last);
        let bytes = (self.setup.table_parameters as f64 * self.setup.gradient_message_bytes).round() as u64;
        let what = ("all-reduce tied embedding", Phase::Optimizer, None);
        let op = self.communicate(b, Group::Embedding, Op::AllReduce, bytes, what, &waits, NO_MICRO_BATCH);
        self.reduced[holder].extend(op);
    }
}
