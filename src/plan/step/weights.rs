//! Weights that are cut among ranks, gathered when a layer needs them.
//!
//! * **FSDP / ZeRO-3** (PyTorch 2.11 `fsdp/_fully_shard`): the weights of a unit are gathered before each visit. With
//!   prefetch depth 1 the gather of visit j in forward waits for the start of the kernels of visit j−2, that is for the
//!   end of visit j−3 (at most two gathered buffers beside the one in use); in backward for the start of visit j−1 (end
//!   of visit j−2), since it is issued behind the copy-out of the visit before. Kernels of backward visit j also wait
//!   for the reduction of visit j−2. Nothing is gathered ahead from forward to backward or from a micro-batch to the
//!   next, whose first gather also waits for the last reductions. A depth of d moves both waits by d−1; depth 0 gathers
//!   when it is needed. For L equal layers (f, b compute, g gather, s reduction) without contention
//!   ```text
//!   T_fwd = g + (L−1)·max(f, g) + f        T_bwd = [g +] b + (L−1)·max(b, [g,] s) + s
//!   ```
//!   where the brackets are left out without resharding.
//! * **Explicit lists**: layers of `forward[i]` are issued when layer i starts, in that order; what no list has gathered
//!   follows the rule above.
//! * **DeepSpeed's element budgets** (`partitioned_param_coordinator`): when a visit starts, what it lacks is gathered,
//!   then min(`bucket_elements`, `max_live_elements` − live) elements along the trace of visits to come, the last of
//!   them in part. What is needed again within `max_reuse_elements` is kept.
//! * **ZeRO-1/2**: updated weights are gathered once, before the first visit of the step. Where they live on another
//!   tier, the shard that the optimizer wrote there is fetched, gathered, and the rest written back.
//! * **Offload under ZeRO-3**: a rank's tier holds its shard; it is fetched ahead of the gather and given up with it.

use super::chain::{Chain, Visit};
use super::groups::Group;
use super::offload::{Cargo, take};
use super::stage::{Stage, VisitRecord};
use crate::collective::Op;
use crate::ids::OpId;
use crate::program::{MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, Phase, ProgramBuilder};
use crate::schedule::Pass;
use crate::spec::workload::ShardingKind;

/// Weights of a unit that are on the device in full, or on their way.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    /// The gathers after which they are there.
    pub ops: Vec<OpId>,
    /// Bytes that they take on the device.
    pub bytes: u64,
    /// Elements of the unit that they cover.
    pub elements: u64,
}

impl Stage<'_, '_> {
    /// Brings in what a visit needs, and makes the chain wait for it. What a recomputation brought in stays for the
    /// backward visit that follows.
    pub(super) fn bring_in(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let backward = visit.pass != Pass::Forward;
        let place = present_at(visit.unit, backward);
        if self.present[place].is_some() {
            return;
        }
        let coming = self.trace.reach(visit.unit, backward, visit.micro_batch);
        let begins =
            self.visits.last().is_none_or(|v| v.backward != backward || v.micro_batch != visit.micro_batch);
        if begins {
            self.run_start = self.visits.len();
        }
        let renewed = self.fresh[visit.unit as usize].len();
        match self.setup.workload.parallelism.sharding.kind {
            ShardingKind::Zero3 if self.is_cut() => self.gather_for(b, chain, visit, backward),
            ShardingKind::Zero1 | ShardingKind::Zero2 => {
                self.gather_once(b, chain, visit);
                self.copy_weights_in(b, chain, visit);
            }
            _ => self.copy_weights_in(b, chain, visit),
        }
        // Of what was there before this visit: a write-back that it started holds up the next one only.
        self.fresh[visit.unit as usize].drain(..renewed).for_each(|op| chain.wait(op));
        let mut bytes = self.unit_weight_bytes(visit.unit);
        if backward {
            self.copy_activations_in(b, chain, visit);
            bytes += self.kept(visit.unit);
        }
        self.present[place] = Some(self.visits.len() as u32);
        self.visits.push(VisitRecord {
            end: OpId((b.len() as u32).saturating_sub(1)),
            bytes,
            reduce: Vec::new(),
            backward,
            micro_batch: visit.micro_batch,
            again: coming.is_some_and(|c| c.again),
        });
    }

    /// Closes the record of a visit whose last op is `end`, and gives up what was brought in for it.
    pub(super) fn leave(&mut self, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        let unit = visit.unit as usize;
        let backward = visit.pass != Pass::Forward;
        let Some(record) = self.present[present_at(visit.unit, backward)].take() else { return };
        self.visits[record as usize].end = end;
        self.last_visit[unit] = record;
        if backward {
            self.backward_left[unit] -= 1;
        }
        if self.gives_up(visit) {
            let gathered = std::mem::take(&mut self.gathered[unit]);
            free(b, MemoryClass::Weights, 0, gathered.bytes);
            self.live_elements -= gathered.elements;
        }
        self.give_up_weights(b, visit.unit, self.visits[record as usize].again);
        if !backward {
            self.copy_activations_out(b, visit, end);
        }
    }

    /// A unit without gradients of its inputs (the embedding) is not visited where backward passes are split, since its
    /// weight gradient does not read its weights. What was kept for a backward visit goes with the last one.
    pub(super) fn leave_unread(&mut self, b: &mut ProgramBuilder, unit: u32) {
        let left = &mut self.backward_left[unit as usize];
        *left -= 1;
        if *left == 0 && self.setup.workload.parallelism.sharding.kind == ShardingKind::Zero3 {
            let gathered = std::mem::take(&mut self.gathered[unit as usize]);
            free(b, MemoryClass::Weights, 0, gathered.bytes);
            self.live_elements -= gathered.elements;
        }
    }

    /// Whether gathered weights are given up behind a visit.
    fn gives_up(&self, visit: Visit) -> bool {
        let sharding = &self.setup.workload.parallelism.sharding;
        if sharding.kind != ShardingKind::Zero3 {
            return false;
        }
        let ahead = self.trace.ahead();
        if let Some(budgets) = sharding.prefetch.budgets() {
            // Is it read again before so many elements have passed?
            let mut passed = 0u64;
            let again = ahead.iter().any(|c| {
                let near = passed < budgets.max_reuse_elements && c.unit == visit.unit;
                passed = passed.saturating_add(self.elements(c.unit));
                near
            });
            return !again;
        }
        if visit.pass != Pass::Forward {
            // PyTorch's pipelines keep what is not resharded until the last backward pass; else each backward reshards.
            let keeps = sharding.reshard_after_forward == Some(false) && self.setup.degrees.pipeline > 1;
            return !keeps || self.backward_left[visit.unit as usize] == 0;
        }
        match sharding.reshard_after_forward {
            Some(reshard) => reshard,
            // The last unit is the first that backward needs.
            None => !ahead
                .first()
                .is_some_and(|c| c.backward && c.unit == visit.unit && c.micro_batch == visit.micro_batch),
        }
    }

    /// Whether weights are cut among more than one rank.
    fn is_cut(&self) -> bool {
        self.slot(Group::Weights).is_some() || self.slot(Group::ExpertWeights).is_some()
    }
    pub(super) fn unit_weight_bytes(&self, unit: u32) -> u64 {
        let (dense, expert) = self.units[unit as usize].weight_bytes(self.setup.bytes.weights);
        dense + expert
    }
    /// Bytes of a unit's weights that this rank holds where weights are cut among ranks: those that others gather from
    /// it, and those that no other rank holds.
    fn shard_parts(&self, unit: u32) -> [u64; 2] {
        let (dense, expert) = self.units[unit as usize].weight_bytes(self.setup.bytes.weights);
        let d = &self.setup.degrees;
        let parts = [
            (dense / u64::from(d.shard), Group::Weights),
            (expert / u64::from(d.expert_replicas()), Group::ExpertWeights),
        ];
        let sum = |cut: bool| parts.iter().filter(|p| self.slot(p.1).is_some() == cut).map(|p| p.0).sum();
        [sum(true), sum(false)]
    }
    fn elements(&self, unit: u32) -> u64 {
        self.units[unit as usize].plan.parameters.total()
    }

    /// Gathers a part of a unit's weights, 1 for all; `takes` tells whether device memory is taken for them. Returns the
    /// ops and the bytes taken.
    fn gather(
        &mut self,
        b: &mut ProgramBuilder,
        unit: u32,
        part: f64,
        (phase, micro_batch): (Phase, u32),
        waits: &[OpId],
        takes: bool,
    ) -> (Vec<OpId>, u64) {
        let (dense, expert) = self.units[unit as usize].weight_bytes(self.setup.weight_message_bytes);
        let layer = self.units[unit as usize].layer;
        let (mut ops, mut taken) = (Vec::new(), 0);
        for (group, bytes, name) in [
            (Group::Weights, dense, "all-gather weights"),
            (Group::ExpertWeights, expert, "all-gather expert weights"),
        ] {
            let bytes = (bytes as f64 * part).round() as u64;
            let what = (name, phase, layer);
            if let Some(op) = self.communicate(b, group, Op::AllGather, bytes, what, waits, micro_batch) {
                if takes {
                    take(b, MemoryClass::Weights, 0, bytes);
                    taken += bytes;
                }
                ops.push(op);
            }
        }
        (ops, taken)
    }

    /// ZeRO-3: gathers before the visit, not earlier than the prefetch rule allows.
    fn gather_for(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit, backward: bool) {
        let phase = if backward { Phase::Backward } else { Phase::Forward };
        let begins = self.run_start == self.visits.len();
        let last_reductions: Vec<OpId> = if begins && !backward {
            let last = self.visits.iter().rev().take_while(|v| v.backward).find(|v| !v.reduce.is_empty());
            last.map(|v| v.reduce.clone()).unwrap_or_default()
        } else {
            Vec::new()
        };
        last_reductions.iter().for_each(|op| chain.wait(*op));
        let prefetch = self.setup.workload.parallelism.sharding.prefetch.clone();
        let budgets = prefetch.budgets();
        let starts: Vec<OpId> = self.visits.last().map(|v| v.end).into_iter().collect();
        let mut waits = match budgets {
            Some(_) => starts.clone(),
            None => self.gather_gate(backward, prefetch.depth).into_iter().collect(),
        };
        waits.extend(&last_reductions);
        self.gather_rest(b, visit.unit, u64::MAX, (phase, visit.micro_batch), &waits);
        self.gathered[visit.unit as usize].ops.iter().for_each(|op| chain.wait(*op));
        if let Some(budgets) = budgets {
            let room = budgets.max_live_elements.saturating_sub(self.live_elements);
            let mut left = room.min(budgets.bucket_elements);
            for coming in self.trace.ahead().to_vec() {
                if left == 0 {
                    break;
                }
                let phase = if coming.backward { Phase::Backward } else { Phase::Forward };
                left -= self.gather_rest(b, coming.unit, left, (phase, coming.micro_batch), &starts);
            }
        } else {
            for unit in self.listed(visit.unit, backward) {
                self.gather_rest(b, unit, u64::MAX, (phase, visit.micro_batch), &starts);
            }
        }
        if backward && self.visits.len() >= self.run_start + 2 {
            let before = self.visits[self.visits.len() - 2].reduce.clone();
            before.into_iter().for_each(|op| chain.wait(op));
        }
    }

    /// Gathers up to so many elements of what is not there of a unit; returns how many.
    fn gather_rest(
        &mut self,
        b: &mut ProgramBuilder,
        unit: u32,
        most: u64,
        when: (Phase, u32),
        waits: &[OpId],
    ) -> u64 {
        let all = self.elements(unit);
        let elements = (all - self.gathered[unit as usize].elements).min(most);
        if elements == 0 {
            return 0;
        }
        let part = elements as f64 / all as f64;
        let renewed = self.fresh[unit as usize].clone();
        let mut waits = waits.to_vec();
        waits.extend(&renewed);
        let (mut fetched, mut copies) = (0, Vec::new());
        let scaled = |bytes: u64| (bytes as f64 * part).round() as u64;
        // What no other rank holds (experts without replicas) is not gathered: the copy itself is used.
        let [shard, own] = self.shard_parts(unit).map(scaled);
        let mut held = 0;
        for away in self.setup.placed.weights.clone() {
            let visit =
                Visit { unit, pass: Pass::Forward, repeats: false, micro_batch: when.1, recomputes: false };
            let bytes = away.of(shard) + away.of(own);
            let cargo = Cargo { phase: when.0, ..self.weights_cargo(visit, "prefetch weight shards", bytes) };
            let mut gates = renewed.clone();
            gates.extend(self.prefetch_gate(b, bytes));
            if let Some(op) = self.fetch(b, &away, cargo, &gates, false) {
                copies.push(op);
                fetched += away.of(shard);
                held += away.of(own);
            }
        }
        waits.extend(&copies);
        let (ops, bytes) = self.gather(b, unit, part, when, &waits, true);
        if ops.is_empty() {
            held += fetched;
        } else {
            free(b, MemoryClass::Weights, 0, fetched);
        }
        let gathered = &mut self.gathered[unit as usize];
        if held > 0 {
            gathered.ops.extend(copies);
        }
        gathered.ops.extend(ops);
        gathered.bytes += bytes + held;
        gathered.elements += elements;
        self.live_elements += elements;
        elements
    }

    /// The op behind which the weights of the next visit may be gathered under FSDP's rule.
    fn gather_gate(&self, backward: bool, depth: u64) -> Option<OpId> {
        let ahead = match usize::try_from(depth).unwrap_or(usize::MAX) {
            0 => 1,
            depth => depth.saturating_add(if backward { 1 } else { 2 }),
        };
        let gate = self.visits.len().checked_sub(ahead).filter(|g| *g >= self.run_start);
        gate.or(self.run_start.checked_sub(1)).map(|g| self.visits[g].end)
    }

    /// The units that the explicit lists gather when a unit starts: entries count transformer layers of its chunk.
    fn listed(&self, unit: u32, backward: bool) -> Vec<u32> {
        let prefetch = &self.setup.workload.parallelism.sharding.prefetch;
        let Some(lists) = (if backward { &prefetch.backward } else { &prefetch.forward }) else {
            return Vec::new();
        };
        let chunk = self.first_unit.partition_point(|first| *first <= unit) - 1;
        let range = self.first_unit[chunk]..self.first_unit[chunk + 1];
        let layers: Vec<u32> = range.filter(|u| self.units[*u as usize].layer.is_some()).collect();
        let Some(at) = layers.iter().position(|u| *u == unit) else { return Vec::new() };
        let entries = lists.get(at).into_iter().flatten();
        entries.filter_map(|i| layers.get(usize::try_from(*i).ok()?)).copied().collect()
    }

    /// ZeRO-1 and -2: gathers what the optimizer step before has updated, at the first visit of the step.
    fn gather_once(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        let overlaps = self.setup.workload.gradient_buckets.overlap_weight_gather;
        if !overlaps || self.gathered[visit.unit as usize].elements > 0 {
            return;
        }
        let gate: Vec<OpId> = if self.setup.placed.weights.is_empty() {
            Vec::new()
        } else {
            self.prefetch_gate(b, self.unit_weight_bytes(visit.unit)).into_iter().collect()
        };
        let ops = self.renew(b, visit, Phase::Forward, &gate, true);
        ops.into_iter().for_each(|op| chain.wait(op));
    }

    /// Gathers the updated weights of a unit; what lives elsewhere is fetched before and written back behind. `stays`:
    /// the visit that follows uses them, and gives them up.
    fn renew(
        &mut self,
        b: &mut ProgramBuilder,
        visit: Visit,
        phase: Phase,
        gate: &[OpId],
        stays: bool,
    ) -> Vec<OpId> {
        let unit = visit.unit;
        self.gathered[unit as usize].elements = self.elements(unit);
        if !self.is_cut() {
            return Vec::new();
        }
        let mut waits = gate.to_vec();
        waits.extend(&self.fresh[unit as usize]);
        let (all, shard) = (self.unit_weight_bytes(unit), self.shard_parts(unit).iter().sum());
        let placed = self.setup.placed.weights.clone();
        let mut fetched = 0;
        for away in &placed {
            let cargo =
                Cargo { phase, ..self.weights_cargo(visit, "prefetch weight shards", away.of(shard)) };
            if let Some(op) = self.fetch(b, away, cargo, &waits, false) {
                waits.push(op);
                fetched += cargo.bytes;
            }
        }
        let (ops, _) = self.gather(b, unit, 1.0, (phase, visit.micro_batch), &waits, false);
        if ops.is_empty() {
            free(b, MemoryClass::Weights, 0, fetched);
            return ops;
        }
        placed.iter().for_each(|a| take(b, MemoryClass::Weights, 0, a.of(all)));
        free(b, MemoryClass::Weights, 0, fetched);
        for away in &placed {
            let bytes = away.of(all) - away.of(shard);
            let cargo = Cargo { phase, ..self.weights_cargo(visit, "write back weights", bytes) };
            let frees = if stays { 0 } else { away.of(all) };
            if let Some(op) = self.send(b, away, cargo, &ops, frees, false) {
                self.fresh[unit as usize].push(op);
            } else if frees > 0 {
                free(b, MemoryClass::Weights, 0, frees);
            }
        }
        self.on_device[unit as usize] = stays && !placed.is_empty();
        ops
    }

    /// ZeRO-1 and -2 without overlap: all updated weights are gathered behind the optimizer step.
    pub(super) fn gather_updated(&mut self, b: &mut ProgramBuilder) {
        let sharding = &self.setup.workload.parallelism.sharding;
        let late = matches!(sharding.kind, ShardingKind::Zero1 | ShardingKind::Zero2)
            && !self.setup.workload.gradient_buckets.overlap_weight_gather;
        if !late {
            return;
        }
        let updated: Vec<OpId> = b.recent(self.compute, 1).into_iter().collect();
        for unit in 0..self.units.len() as u32 {
            let visit = Visit {
                unit,
                pass: Pass::Forward,
                repeats: false,
                micro_batch: NO_MICRO_BATCH,
                recomputes: false,
            };
            let ops = self.renew(b, visit, Phase::Optimizer, &updated, false);
            self.fresh[unit as usize].extend(ops);
        }
    }
}

/// Where a unit's visit is noted: forward and backward of one unit may be under way at once (overlapped passes).
fn present_at(unit: u32, backward: bool) -> usize {
    2 * unit as usize + usize::from(backward)
}

/// The op pushed last gives bytes back when it ends.
pub(super) fn free(b: &mut ProgramBuilder, class: MemoryClass, tier: u8, bytes: u64) {
    if bytes > 0 {
        b.memory(MemoryEffect { when: MemoryWhen::FreeAtEnd, class, tier, bytes });
    }
}
