//! From reduced gradients to new weights.
//!
//! * Everything on the device: one kernel over all that the rank updates.
//! * State on other tiers, update on the device: it streams through, unit by unit: fetch state and gradient, update,
//!   write state and weights back. State for update i may be fetched when update i−d starts (prefetch depth d).
//! * Update on the host (ZeRO-Offload, Ren et al. 2021): the gradient goes out, the host updates at the bandwidth of
//!   the memory that holds the state (which all devices of a host share), the new weights come back. A share of the state
//!   that stays on the device is updated there beside it.
//! * A run of several steps begins without moments: the first update takes their memory.

use super::groups::Group;
use super::offload::{Away, Cargo, fraction_away, take};
use super::stage::Stage;
use super::weights::free;
use crate::collective::Op;
use crate::ids::OpId;
use crate::model::optimizer;
use crate::program::{MemoryClass, NO_MICRO_BATCH, Phase, ProgramBuilder};
use crate::spec::stack::{HostRead, UpdatePass};
use crate::spec::workload::{Dtype, OptimizerPlace, ShardingKind};

impl Stage<'_, '_> {
    /// Everything behind the last pass: what is left to reduce, the update, and the gather of new weights.
    pub(super) fn optimizer(&mut self, b: &mut ProgramBuilder) {
        let last = b.recent(self.compute, 1);
        self.reduce_the_rest(b, last);
        self.sum_tied_embedding(b, last);
        let placed = &self.setup.placed;
        if placed.optimizer.is_empty() && placed.gradients.is_empty() && placed.weights.is_empty() {
            let waits: Vec<OpId> = self.reduced.iter().flatten().copied().collect();
            let waits = newest_per_stream(b, waits);
            let share = self.updated_parameters(0..self.units.len());
            if let Some(updated) = self.update_all(b, share, waits) {
                self.take_moments(b, 0, share);
                self.fresh.iter_mut().for_each(|f| f.push(updated));
            }
        } else {
            self.update_unit_by_unit(b, last);
        }
        self.gather_updated(b);
        if let Some(last) = b.recent(self.compute, 1) {
            self.host_reads(HostRead::Loss, last);
        }
    }

    /// All passes of the stack over what this rank updates; returns the update itself.
    fn update_all(&mut self, b: &mut ProgramBuilder, parameters: u64, mut waits: Vec<OpId>) -> Option<OpId> {
        let w = self.setup.workload;
        let whole: u64 = self.units.iter().map(|u| u.plan.parameters.total()).sum();
        let kernels = optimizer::Update {
            spec: &w.stack().optimizer,
            kind: w.optimizer.kind,
            parameters,
            held: if w.parallelism.sharding.kind >= ShardingKind::Zero2 { parameters } else { whole },
            state: self.setup.bytes,
            clips: w.optimizer.clip_gradients,
            scales_loss: w.precision.compute == Dtype::Fp16,
        }
        .kernels();
        let mut updated = None;
        for (i, (pass, kernel)) in kernels.iter().enumerate() {
            let op = self.kernel(b, kernel, Phase::Optimizer, None, &waits);
            waits.clear();
            if *pass == UpdatePass::Update {
                updated = Some(op);
            }
            let last_of_norm = kernels.get(i + 1).is_none_or(|(next, _)| next != pass);
            if *pass == UpdatePass::Norm && last_of_norm {
                let summed = self.sum_norm(b, op);
                waits.push(summed);
                self.host_reads(HostRead::GradientNorm, summed);
            }
        }
        updated
    }

    /// Sums the norm over the ranks that hold other shards, and over those that hold other weights unless the schedule
    /// does not wait for them.
    fn sum_norm(&mut self, b: &mut ProgramBuilder, norm: OpId) -> OpId {
        let w = self.setup.workload;
        let mut last = norm;
        let cut = w.parallelism.sharding.kind >= ShardingKind::Zero1;
        let groups = [(Group::Gradients, cut), (Group::Model, !w.parallelism.pipeline.updates_unasked())];
        for (group, summed) in groups {
            let what = ("all-reduce gradient norm", Phase::Optimizer, None);
            if summed {
                let op = self.communicate(b, group, Op::AllReduce, 4, what, &[last], NO_MICRO_BATCH);
                last = op.unwrap_or(last);
            }
        }
        last
    }

    /// Notes that the host reads the result of an op, if it does.
    pub(super) fn host_reads(&mut self, what: HostRead, op: OpId) {
        let w = self.setup.workload;
        let unasked = what == HostRead::GradientNorm && w.parallelism.pipeline.updates_unasked();
        if !unasked && w.host().is_some_and(|host| host.reads.contains(&what)) {
            self.reads[self.rank as usize].push((op, what));
        }
    }

    /// Moments that appear with the first update of a run, on one tier.
    fn take_moments(&self, b: &mut ProgramBuilder, tier: u8, parameters: u64) {
        if self.setup.steps > 1 && self.step == 0 {
            let bytes = (parameters as f64 * self.setup.bytes.moments).round() as u64;
            take(b, MemoryClass::Optimizer, tier, bytes);
        }
    }

    /// The update of some parameters on the device.
    fn update(
        &mut self,
        b: &mut ProgramBuilder,
        parameters: u64,
        layer: Option<u32>,
        waits: &[OpId],
    ) -> Option<OpId> {
        if parameters == 0 {
            return None;
        }
        let kernel = optimizer::step(parameters, &self.setup.bytes);
        Some(self.kernel(b, &kernel, Phase::Optimizer, layer, waits))
    }

    /// Parameters of some units that this rank updates.
    pub(super) fn updated_parameters(&self, units: std::ops::Range<usize>) -> u64 {
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

    fn update_unit_by_unit(&mut self, b: &mut ProgramBuilder, last: Option<OpId>) {
        let depth = usize::try_from(self.setup.workload.offload.prefetch.depth).unwrap_or(usize::MAX);
        let mut updates: Vec<OpId> = last.into_iter().collect();
        for unit in 0..self.units.len() {
            let share = self.updated_parameters(unit..unit + 1);
            if share == 0 {
                continue;
            }
            let gate = updates.get(updates.len().saturating_sub(depth.saturating_add(1))).copied();
            let on_host = self.setup.workload.offload.optimizer_on == OptimizerPlace::Host;
            let mut on_device = share;
            if on_host {
                for away in self.setup.placed.optimizer.clone() {
                    let part = away.of(share);
                    on_device = on_device.saturating_sub(part);
                    self.update_on_host(b, unit, &away, part);
                }
            }
            let streamed = if on_host { Vec::new() } else { self.setup.placed.optimizer.clone() };
            if on_device > 0 {
                updates.extend(self.update_streamed(b, unit, on_device, &streamed, gate));
            }
        }
    }

    fn optimizer_cargo(&self, unit: usize, class: MemoryClass, name: &'static str, bytes: f64) -> Cargo {
        Cargo {
            class,
            bytes: bytes.round() as u64,
            name,
            phase: Phase::Optimizer,
            layer: self.units[unit].layer,
            micro_batch: NO_MICRO_BATCH,
        }
    }

    /// The update of `share` parameters of a unit on the device; state that lives on other tiers streams through.
    fn update_streamed(
        &mut self,
        b: &mut ProgramBuilder,
        unit: usize,
        share: u64,
        state: &[Away],
        gate: Option<OpId>,
    ) -> Option<OpId> {
        let bytes = self.setup.bytes;
        let first = self.setup.steps > 1 && self.step == 0;
        let read = if first { bytes.master } else { bytes.optimizer() };
        let placed = self.setup.placed.clone();
        let mut waits = self.reduced[unit].clone();
        // The device buffers of the state: all of it, also where moments are only written.
        let mut buffers = 0;
        for away in state {
            let part = share as f64 * away.fraction;
            let cargo =
                self.optimizer_cargo(unit, MemoryClass::Optimizer, "prefetch optimizer state", part * read);
            let mut gates: Vec<OpId> = gate.into_iter().collect();
            gates.extend(self.state_written[unit]);
            let fetched = self.fetch(b, away, cargo, &gates, false);
            if fetched.is_some() {
                waits.extend(fetched);
                buffers += cargo.bytes;
            }
        }
        let mut gradients = 0;
        for away in &placed.gradients {
            let part = share as f64 * away.fraction;
            let cargo = self.optimizer_cargo(
                unit,
                MemoryClass::Gradients,
                "prefetch gradients",
                part * bytes.gradients,
            );
            let mut gates: Vec<OpId> = gate.into_iter().collect();
            gates.extend(&self.reduced[unit]);
            if let Some(op) = self.fetch(b, away, cargo, &gates, false) {
                waits.push(op);
                gradients += cargo.bytes;
            }
        }
        let waits = newest_per_stream(b, waits);
        let updated = self.update(b, share, self.units[unit].layer, &waits)?;
        free(b, MemoryClass::Gradients, 0, gradients);
        let written: Vec<u64> =
            state.iter().map(|a| (share as f64 * a.fraction * bytes.optimizer()).round() as u64).collect();
        take(b, MemoryClass::Optimizer, 0, written.iter().sum::<u64>().saturating_sub(buffers));
        let here = (share as f64 * (1.0 - fraction_away(&placed.optimizer)).max(0.0)).round() as u64;
        self.take_moments(b, 0, if state.is_empty() { share } else { here });
        let new_weights: Vec<u64> = placed
            .weights
            .iter()
            .map(|a| (share as f64 * a.fraction * bytes.weights).round() as u64)
            .collect();
        take(b, MemoryClass::Weights, 0, new_weights.iter().sum());
        self.fresh[unit].push(updated);
        for (away, bytes) in state.iter().zip(written) {
            let name = "write back optimizer state";
            let cargo = self.optimizer_cargo(unit, MemoryClass::Optimizer, name, bytes as f64);
            let op = self.send(b, away, cargo, &[updated], bytes, false);
            if op.is_some() {
                self.take_moments(b, away.tier, (share as f64 * away.fraction).round() as u64);
            }
            self.state_written[unit] = op.or(self.state_written[unit]);
        }
        for (away, bytes) in placed.weights.iter().zip(new_weights) {
            let cargo = self.optimizer_cargo(unit, MemoryClass::Weights, "write back weights", bytes as f64);
            let op = self.send(b, away, cargo, &[updated], bytes, false);
            self.fresh[unit].extend(op);
        }
        Some(updated)
    }

    /// The update of `share` parameters of a unit on the host that holds their state.
    fn update_on_host(&mut self, b: &mut ProgramBuilder, unit: usize, away: &Away, share: u64) {
        let bytes = self.setup.bytes;
        let placed = self.setup.placed.clone();
        let layer = self.units[unit].layer;
        let near = away.near();
        let mut waits = self.reduced[unit].clone();
        // The part of the gradient that is not there yet.
        let there: f64 = placed.gradients.iter().filter(|g| g.tier == near).map(|g| g.fraction).sum();
        let missing = (1.0 - there).max(0.0) * share as f64 * bytes.gradients;
        let direct = Away { tier: near, via: Vec::new(), fraction: 1.0 };
        let cargo = self.optimizer_cargo(unit, MemoryClass::Gradients, "offload gradients", missing);
        let sent = self.send(b, &direct, cargo, &self.reduced[unit].clone(), 0, true);
        let gradients = if sent.is_some() { cargo.bytes } else { 0 };
        waits.extend(sent);
        let state = share as f64 * bytes.optimizer();
        let cargo = self.optimizer_cargo(unit, MemoryClass::Optimizer, "prefetch optimizer state", state);
        let gates: Vec<OpId> = self.state_written[unit].into_iter().collect();
        waits.extend(self.stage_in(b, away, cargo, &gates));
        let waits = newest_per_stream(b, waits);
        // Half of the bytes one way, half the other, as the memory reads and writes.
        let moved = (optimizer::bytes_moved(share, &bytes) / 2.0).round() as u64;
        let what = ("optimizer step (host)", Phase::Optimizer, layer);
        let Some(updated) =
            self.communicate(b, Group::HostUpdate(near), Op::SendRecv, moved, what, &waits, NO_MICRO_BATCH)
        else {
            return;
        };
        free(b, MemoryClass::Gradients, near, gradients);
        if away.via.is_empty() {
            self.take_moments(b, near, share);
        }
        self.state_written[unit] = Some(self.stage_out(b, away, cargo, updated));
        // Weights that live with the state are updated in place; all others come back to the device.
        let here: f64 = placed.weights.iter().filter(|w| w.tier == near).map(|w| w.fraction).sum();
        let back = share as f64 * bytes.weights * (1.0 - here).max(0.0);
        let cargo = self.optimizer_cargo(unit, MemoryClass::Weights, "fetch updated weights", back);
        let fetched = self.communicate(
            b,
            Group::CopyIn(near),
            Op::SendRecv,
            cargo.bytes,
            (cargo.name, cargo.phase, layer),
            &[updated],
            NO_MICRO_BATCH,
        );
        self.fresh[unit].extend(fetched.or(Some(updated)));
    }

    /// The way back of what `stage_in` brought next to the device; returns the op after which it is home.
    fn stage_out(&mut self, b: &mut ProgramBuilder, away: &Away, cargo: Cargo, updated: OpId) -> OpId {
        let mut last = updated;
        let cargo = Cargo { name: "write back optimizer state", ..cargo };
        for (i, (to, from)) in away.hops().into_iter().rev().enumerate() {
            let what = (cargo.name, cargo.phase, cargo.layer);
            let hop = Group::TierOut(from, to);
            let Some(op) = self.communicate(b, hop, Op::SendRecv, cargo.bytes, what, &[last], NO_MICRO_BATCH)
            else {
                continue;
            };
            let home = i + 1 == away.via.len();
            if !home {
                take(b, cargo.class, to, cargo.bytes);
            }
            free(b, cargo.class, from, cargo.bytes);
            if home {
                self.unpin(b, cargo.bytes);
                self.take_moments(b, to, (cargo.bytes as f64 / self.setup.bytes.optimizer()).round() as u64);
            }
            last = op;
        }
        last
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
