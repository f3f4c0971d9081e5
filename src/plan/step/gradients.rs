//! From gradients to new weights: reduction over ranks that hold the same weights, and the optimizer step.
//!
//! The gradient of a unit is complete when the last micro-batch has added its part (or, with
//! `reduce_every_micro_batch` and under ZeRO-3 with its default, after each). Complete units gather in a bucket; a full
//! bucket is reduced: by an all-reduce where every rank keeps everything, by a reduce-scatter where optimizer state is
//! cut (hybrid sharding: then an all-reduce of the shard between sharding groups). With overlap the reduction runs
//! beside the backward passes still to come, else behind the last of them.

use super::chain::Visit;
use super::groups::Group;
use super::stage::Stage;
use super::weights::free;
use crate::collective::Op;
use crate::ids::OpId;
use crate::model::{LayerKind, optimizer};
use crate::program::{MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, Phase, ProgramBuilder};
use crate::spec::workload::ShardingKind;

impl Stage<'_, '_> {
    /// Bytes that are there before the step and stay.
    pub(super) fn reside(&mut self, b: &mut ProgramBuilder) {
        let state = self.state();
        let classes = [
            (MemoryClass::Weights, state.weights, self.setup.placed.weights.clone()),
            (MemoryClass::Gradients, state.gradients, self.setup.placed.gradients.clone()),
            (MemoryClass::Optimizer, state.optimizer, self.setup.placed.optimizer.clone()),
        ];
        for (class, bytes, placed) in classes {
            let away: f64 = placed.iter().map(|p| p.1).sum();
            let shares = placed.into_iter().chain([(0, 1.0 - away)]);
            for (tier, bytes) in
                shares.map(|(tier, f)| (tier, (bytes * f).round() as u64)).filter(|s| s.1 > 0)
            {
                b.resident(MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier, bytes });
            }
        }
    }

    /// A micro-batch has added to the gradient of a unit; `end` is the op that did.
    pub(super) fn gradient_added(&mut self, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        let unit = visit.unit as usize;
        self.to_come[unit] -= 1;
        let complete = self.to_come[unit] == 0;
        let buckets = &self.setup.workload.gradient_buckets;
        if !complete && !buckets.reduce_every_micro_batch {
            return;
        }
        self.bucket.push(visit.unit);
        if !buckets.overlap && (complete || !buckets.reduce_every_micro_batch) {
            return;
        }
        let message = |u: &u32| {
            let (dense, expert) = self.units[*u as usize].weight_bytes(self.setup.gradient_message_bytes);
            dense + expert
        };
        let filled: u64 = self.bucket.iter().map(message).sum();
        let chunk_done = self.bucket.len() == self.units.len() || self.to_come.iter().all(|n| *n == 0);
        if filled >= buckets.bucket_bytes || chunk_done {
            self.reduce_bucket(b, &[end], visit.micro_batch);
        }
    }

    /// Reduces the units of the bucket in one message for each group.
    fn reduce_bucket(&mut self, b: &mut ProgramBuilder, waits: &[OpId], micro_batch: u32) {
        let units = std::mem::take(&mut self.bucket);
        let Some(first) = units.first() else { return };
        let layer = self.units[*first as usize].layer;
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
            let Some(reduced) = reduced else { continue };
            ops.push(reduced);
            if group == Group::Gradients {
                let what = ("all-reduce gradient shards", Phase::Backward, layer);
                let shard = bytes / u64::from(self.setup.degrees.shard);
                ops.extend(self.communicate(
                    b,
                    Group::Replicas,
                    Op::AllReduce,
                    shard,
                    what,
                    &[reduced],
                    micro_batch,
                ));
            }
        }
        // A sharding group of one still has replicas to sum over.
        if ops.is_empty() {
            let what = ("all-reduce gradients", Phase::Backward, layer);
            ops.extend(self.communicate(b, Group::Replicas, Op::AllReduce, dense, what, waits, micro_batch));
        }
        let behind = if ops.is_empty() { waits.to_vec() } else { ops.clone() };
        for (tier, fraction) in self.setup.placed.gradients.clone() {
            let share: u64 =
                units.iter().map(|u| self.updated_parameters(*u as usize..*u as usize + 1)).sum();
            let bytes = (share as f64 * self.setup.bytes.gradients * fraction).round() as u64;
            let what = ("offload gradients", Phase::Backward, layer);
            let out =
                self.communicate(b, Group::CopyOut(tier), Op::SendRecv, bytes, what, &behind, micro_batch);
            ops.extend(out);
        }
        for unit in units {
            let record = self.last_visit[unit as usize] as usize;
            if let Some(visit) = self.visits.get_mut(record) {
                visit.reduce = ops.first().copied();
            }
            self.reduced[unit as usize].extend(&ops);
        }
    }

    /// Everything behind the last pass: what is left to reduce, the update, and the gather of new weights.
    pub(super) fn optimizer(&mut self, b: &mut ProgramBuilder) {
        let last = b.recent(self.compute, 1);
        while !self.bucket.is_empty() {
            // Without overlap buckets are as large as asked for, but start together behind the last pass.
            let rest = self.split_bucket();
            self.reduce_bucket(b, last.as_slice(), NO_MICRO_BATCH);
            self.bucket = rest;
        }
        self.sum_tied_embedding(b, last);
        let placed = &self.setup.placed;
        if placed.optimizer.is_empty() && placed.gradients.is_empty() && placed.weights.is_empty() {
            let waits: Vec<OpId> = self.reduced.iter().flatten().copied().collect();
            let waits = newest_per_stream(b, waits);
            self.update(b, 0..self.units.len(), &waits);
        } else {
            self.update_offloaded(b);
        }
        let sharded = matches!(
            self.setup.workload.parallelism.sharding.kind,
            ShardingKind::Zero1 | ShardingKind::Zero2
        );
        if sharded && !self.setup.workload.gradient_buckets.overlap_weight_gather {
            let updated: Vec<OpId> = b.recent(self.compute, 1).into_iter().collect();
            for unit in 0..self.units.len() as u32 {
                self.gather(b, unit, Phase::Optimizer, &updated, NO_MICRO_BATCH);
            }
        }
    }

    /// Takes all but the first bucketful out of the bucket.
    fn split_bucket(&mut self) -> Vec<u32> {
        let limit = self.setup.workload.gradient_buckets.bucket_bytes;
        let mut filled = 0;
        let mut keep = 0;
        for unit in &self.bucket {
            let (dense, expert) = self.units[*unit as usize].weight_bytes(self.setup.gradient_message_bytes);
            filled += dense + expert;
            keep += 1;
            if filled >= limit {
                break;
            }
        }
        self.bucket.split_off(keep)
    }

    /// First and last stage add up the gradients of the table they share.
    fn sum_tied_embedding(&mut self, b: &mut ProgramBuilder, last: Option<OpId>) {
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

    /// The update of some units on the device.
    fn update(
        &mut self,
        b: &mut ProgramBuilder,
        units: std::ops::Range<usize>,
        waits: &[OpId],
    ) -> Option<OpId> {
        let share = self.updated_parameters(units.clone());
        if share == 0 {
            return None;
        }
        let layer = if units.len() == 1 { self.units[units.start].layer } else { None };
        let kernel = optimizer::step(share, &self.setup.bytes);
        Some(self.kernel(b, &kernel, Phase::Optimizer, layer, waits))
    }

    /// Parameters of some units that this rank updates.
    fn updated_parameters(&self, units: std::ops::Range<usize>) -> u64 {
        let cut = self.setup.workload.parallelism.sharding.kind >= ShardingKind::Zero1;
        let d = &self.setup.degrees;
        let of = |parameters: u64, ranks: u32| {
            if cut { parameters.div_ceil(u64::from(ranks)) } else { parameters }
        };
        let shares = self.units[units].iter().map(|u| {
            let p = u.plan.parameters;
            of(p.dense, d.shard) + of(p.expert, d.expert_replicas())
        });
        shares.sum()
    }

    /// State that lives on other tiers streams through: unit by unit in, update, out, `depth` units ahead.
    fn update_offloaded(&mut self, b: &mut ProgramBuilder) {
        let depth = self.setup.workload.offload.prefetch.depth.max(1) as usize;
        let mut updates: Vec<OpId> = b.recent(self.compute, 1).into_iter().collect();
        for unit in 0..self.units.len() {
            let share = self.updated_parameters(unit..unit + 1);
            if share == 0 {
                continue;
            }
            let layer = self.units[unit].layer;
            let gate: Vec<OpId> = updates
                .len()
                .checked_sub(depth + 1)
                .map(|i| updates[i])
                .into_iter()
                .chain(self.reduced[unit].last().copied())
                .collect();
            let bytes = self.setup.bytes;
            let placed = self.setup.placed.clone();
            let moved = [
                (MemoryClass::Optimizer, bytes.optimizer(), &placed.optimizer, "prefetch optimizer state"),
                (MemoryClass::Gradients, bytes.gradients, &placed.gradients, "prefetch gradients"),
            ];
            let mut waits = self.reduced[unit].clone();
            let mut held = Vec::new();
            for (class, per_parameter, tiers, name) in moved {
                for &(tier, fraction) in tiers {
                    let bytes = (share as f64 * per_parameter * fraction).round() as u64;
                    let what = (name, Phase::Optimizer, layer);
                    let copy = self.communicate(
                        b,
                        Group::CopyIn(tier),
                        Op::SendRecv,
                        bytes,
                        what,
                        &gate,
                        NO_MICRO_BATCH,
                    );
                    if let Some(op) = copy {
                        b.memory(MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier: 0, bytes });
                        waits.push(op);
                        held.push((class, bytes));
                    }
                }
            }
            let waits = newest_per_stream(b, waits);
            let Some(updated) = self.update(b, unit..unit + 1, &waits) else { continue };
            updates.push(updated);
            held.iter().filter(|h| h.0 == MemoryClass::Gradients).for_each(|h| free(b, h.0, 0, h.1));
            let out = [
                (MemoryClass::Optimizer, bytes.optimizer(), &placed.optimizer, "write back optimizer state"),
                (MemoryClass::Weights, bytes.weights, &placed.weights, "write back weights"),
            ];
            for (class, per_parameter, tiers, name) in out {
                for &(tier, fraction) in tiers {
                    let bytes = (share as f64 * per_parameter * fraction).round() as u64;
                    let what = (name, Phase::Optimizer, layer);
                    self.communicate(
                        b,
                        Group::CopyOut(tier),
                        Op::SendRecv,
                        bytes,
                        what,
                        &[updated],
                        NO_MICRO_BATCH,
                    );
                    if class == MemoryClass::Optimizer && bytes > 0 {
                        free(b, class, 0, bytes);
                    }
                }
            }
        }
    }
}

/// Of several ops, the last of each stream: it ends after the others of its stream.
fn newest_per_stream(b: &ProgramBuilder, ops: Vec<OpId>) -> Vec<OpId> {
    let mut newest: Vec<(u16, OpId)> = Vec::new();
    for op in ops {
        let stream = b.stream_of(op);
        match newest.iter_mut().find(|(s, _)| *s == stream) {
            Some((_, known)) => *known = (*known).max(op),
            None => newest.push((stream, op)),
        }
    }
    newest.into_iter().map(|(_, op)| op).collect()
}
