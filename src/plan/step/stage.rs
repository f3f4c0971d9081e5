//! The passes of a transformer on one rank: kernels and communication of its layers in order, and around each visit of
//! a layer the bytes that the policies of [`super::residency`] bring in and give up.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::chain::{Act, Advance, Chain, Segments, Visit};
use super::forming::Forming;
use super::groups::Group;
use super::layout_copies::with_copies;
use super::overlap;
use super::packs::{PackedStages, on_rank};
use super::profile::transfer_of;
use super::residency::visits::{PlannedVisit, RankVisits};
use super::residency::{Policies, free};
use super::unit::{FullRecompute, Label, Unit};
use super::writer::Writer;
use super::{Prices, Setup};
use crate::launch::HostWait;
use crate::pipeline::{self, Channel, Message, StageWork, Task};
use stepsim_core::ids::OpId;
use stepsim_core::program::{
    MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, Work,
};
use stepsim_fabric::collective::{Lowering, Op, Transfer};
use stepsim_price::model::{CommGroup, Item};
use stepsim_schedule::{Data, Order, Pass, SlotPass};
use stepsim_spec::stack::HostRead;
use stepsim_spec::workload::PointToPoint;

/// The passes of a rank.
pub(super) struct Stage<'a, 'm> {
    pub(super) w: Writer<'a, 'm>,
    policies: Policies,
    acts: FxHashMap<(u32, Pass, bool, u32), Rc<[Act]>>,
    /// By chunk, pass, and first micro-batch of equal documents: the visits of that pass.
    passes: FxHashMap<(u16, Pass, u32), Segments>,
    /// The same of passes that are paired with another.
    acts_paired: FxHashMap<(u32, Pass, u32), Rc<[Act]>>,
    /// Units of every stage by micro-batch, where their documents differ.
    packed: PackedStages,
    /// The same on the rank that is being written.
    units: Vec<Vec<Unit>>,
    /// By unit: whether its weights have been cast in this step.
    weights_cast: Vec<bool>,
    /// By chunk: whether it exchanges with experts, and repeats no exchange.
    pub(super) exchanges: Vec<bool>,
    /// Bytes of checkpointed inputs and their gradients that stay until the pass has ended.
    staying: u64,
}

impl<'a, 'm> Stage<'a, 'm> {
    pub fn new(
        setup: &'a Setup<'a>,
        order: &'a Order,
        prices: &'a dyn Prices,
        lowering: &'a mut Lowering<'m>,
        packed: PackedStages,
    ) -> Self {
        Stage {
            w: Writer::new(setup, order, prices, lowering),
            policies: Policies::of(&setup.shares),
            acts: FxHashMap::default(),
            passes: FxHashMap::default(),
            acts_paired: FxHashMap::default(),
            packed,
            units: Vec::new(),
            weights_cast: Vec::new(),
            exchanges: Vec::new(),
            staying: 0,
        }
    }

    /// The first micro-batch with the same documents as `micro_batch`.
    pub(super) fn documents(&self, micro_batch: u32) -> u32 {
        let own = self.packed.get(micro_batch as usize);
        let first = own.and_then(|own| self.packed.iter().position(|p| Rc::ptr_eq(p, own)));
        first.unwrap_or(0) as u32
    }
    /// The unit as a micro-batch's documents make it, and the first micro-batch whose documents are the same.
    pub(super) fn unit(&self, unit: u32, micro_batch: u32) -> (&Unit, u32) {
        let first = self.documents(micro_batch);
        let units = self.units.get(first as usize).unwrap_or(&self.w.units);
        (&units[unit as usize], first)
    }

    /// The ops of one pass through one unit, built once a program, or once for equal documents.
    pub(super) fn acts(
        &mut self,
        b: &mut ProgramBuilder,
        (unit, micro_batch): (u32, u32),
        pass: Pass,
        repeats: bool,
    ) -> Rc<[Act]> {
        let (layer, documents) = self.unit(unit, micro_batch);
        if let Some(acts) = self.acts.get(&(unit, pass, repeats, documents)) {
            return acts.clone();
        }
        let (items, phase) = if repeats {
            (layer.repeated(), Phase::Recompute)
        } else {
            (layer.items(pass).to_vec(), pipeline::phase(pass))
        };
        let label = layer.label();
        let items = with_copies(&self.w.setup.shares, layer, (pass, repeats), items);
        let parallelism = &self.w.setup.shares.workload.parallelism;
        let items = overlap::decompose(&items, parallelism.tensor_overlap, parallelism.tensor);
        let acts: Rc<[Act]> = items.iter().filter_map(|item| self.act(b, item, phase, &label)).collect();
        self.acts.insert((unit, pass, repeats, documents), acts.clone());
        acts
    }

    /// Acts of another make than [`Stage::acts`]'s, kept beside them.
    pub(super) fn kept_acts(&mut self) -> &mut FxHashMap<(u32, Pass, u32), Rc<[Act]>> {
        &mut self.acts_paired
    }

    pub(super) fn act(
        &mut self,
        b: &mut ProgramBuilder,
        item: &Item,
        phase: Phase,
        of: &Label,
    ) -> Option<Act> {
        match item {
            Item::Kernel(kernel) => {
                let (info, time, slowdown) = self.w.price(b, kernel, phase, of);
                Some(Act::Kernel { info, time, slowdown })
            }
            Item::Comm(point) => {
                let slot = self.w.slot(Group::Layer(point.group))?;
                let transfer = self.w.transfer(slot, transfer_of(point));
                let bytes = point.bytes as f64;
                let (name, layer) = (of.name(point.name), of.layer);
                let info = b.info(OpInfo { name, phase, layer, class: None, flops: 0.0, bytes });
                let stream = self.w.streams[usize::from(slot)];
                let (hidden, exchange) = (point.hidden_behind, point.exchange.is_some());
                Some(Act::Comm { slot, stream, transfer, info, hidden, exchange })
            }
        }
    }

    /// The visits of one pass in order with their ops, with recomputation where it runs; found once a program, or
    /// once for equal documents.
    pub(super) fn segments(&mut self, b: &mut ProgramBuilder, part: SlotPass) -> Segments {
        let key = (part.chunk, part.pass, self.documents(part.micro_batch));
        if let Some(segments) = self.passes.get(&key) {
            return segments.clone();
        }
        let segments = self.new_segments(b, part);
        self.passes.insert(key, segments.clone());
        segments
    }

    fn new_segments(&mut self, b: &mut ProgramBuilder, part: SlotPass) -> Segments {
        let SlotPass { pass, chunk, micro_batch } = part;
        let chunk = usize::from(chunk);
        let range = self.w.first_unit[chunk]..self.w.first_unit[chunk + 1];
        let mut segments: Vec<(Visit, Rc<[Act]>)> = Vec::with_capacity(2 * range.len());
        let mut add = |stage: &mut Self, b: &mut ProgramBuilder, unit: u32, repeats: bool| {
            let acts = stage.acts(b, (unit, micro_batch), pass, repeats);
            if !acts.is_empty() {
                segments.push((Visit { unit, pass, repeats, micro_batch, recomputes: false }, acts));
            }
        };
        if pass == Pass::Forward {
            range.for_each(|unit| add(self, b, unit, false));
        } else {
            let mut repeated_from = range.end;
            for unit in range.rev() {
                if pass != Pass::WeightGrad && unit < repeated_from {
                    // All units since the last kept input are recomputed together, first to last.
                    let mut from = unit;
                    while self.w.units[from as usize].recompute == FullRecompute::FromBefore {
                        from -= 1;
                    }
                    (from..=unit).for_each(|u| add(self, b, u, true));
                    repeated_from = from;
                }
                add(self, b, unit, false);
            }
        }
        segments.into()
    }

    /// The ops of one pass; on a cut border its first op gathers what was received.
    pub(super) fn chain(&mut self, b: &mut ProgramBuilder, task: &Task) -> Chain {
        let mut segments = self.segments(b, task.part);
        if task.part.pass == Pass::Forward {
            self.cast_weights(b, &mut segments);
        }
        if let Some(gather) = self.border_gather(b, task).filter(|_| !segments.is_empty()) {
            put_first(&mut segments, 0, &[gather]);
        }
        let mut chain = Chain::new(segments, task.part.micro_batch, task.input, self.w.compute);
        if task.part.pass == Pass::Forward && task.part.micro_batch == 0 {
            let formed = self.form_groups(b);
            formed.into_iter().for_each(|op| chain.wait(op));
        }
        chain
    }

    /// Pushes what forms groups of context parallelism at the beginning of a step; its first pass waits for the last
    /// of it.
    fn form_groups(&mut self, b: &mut ProgramBuilder) -> Option<OpId> {
        let mut last: Option<OpId> = None;
        for (name, group, op, bytes) in self.w.setup.forming.into_iter().flat_map(Forming::messages) {
            let what = (name, Phase::Forward, None);
            let sent = self.w.communicate(b, group, op, bytes, what, last.as_slice(), NO_MICRO_BATCH);
            last = sent.or(last);
        }
        last
    }

    /// Weights are cast in front of the first forward visit of a step, once they are there.
    fn cast_weights(&mut self, b: &mut ProgramBuilder, segments: &mut Segments) {
        for i in 0..segments.len() {
            let unit = segments[i].0.unit as usize;
            if self.w.units[unit].plan.weight_casts.is_empty()
                || std::mem::replace(&mut self.weights_cast[unit], true)
            {
                continue;
            }
            let (casts, of) = (self.w.units[unit].plan.clone(), self.w.units[unit].label());
            let first: Vec<Act> =
                casts.weight_casts.iter().filter_map(|item| self.act(b, item, Phase::Forward, &of)).collect();
            put_first(segments, i, &first);
        }
    }

    /// The visits of a whole step, in order.
    fn foresee(&mut self, b: &mut ProgramBuilder) -> Vec<PlannedVisit> {
        let order = self.w.order;
        let parts: Vec<SlotPass> = order.ranks[self.w.rank as usize]
            .iter()
            .flat_map(|slot| slot.parts())
            .filter(|p| p.pass != Pass::WeightGrad)
            .collect();
        let mut visits: Vec<PlannedVisit> = Vec::new();
        // The chunk of the next pass in either direction, seen from the end.
        let mut next = [None; 2];
        let mut again = vec![false; parts.len()];
        for (part, again) in parts.iter().zip(&mut again).rev() {
            let direction = &mut next[usize::from(part.pass != Pass::Forward)];
            *again = *direction == Some(part.chunk);
            *direction = Some(part.chunk);
        }
        for (part, again) in parts.into_iter().zip(again) {
            let first = visits.len();
            for (Visit { unit, .. }, _) in self.segments(b, part).iter() {
                if !visits[first..].iter().any(|v| v.unit == *unit) {
                    let (backward, micro_batch) = (part.pass != Pass::Forward, part.micro_batch);
                    visits.push(PlannedVisit { unit: *unit, backward, micro_batch, again });
                }
            }
        }
        visits
    }

    /// The gather of an input that came in pieces from another rank.
    fn border_gather(&mut self, b: &mut ProgramBuilder, task: &Task) -> Option<Act> {
        let placement = &self.w.order.placement;
        if placement.is_side(task.at) {
            return None;
        }
        let (from, data) = placement.source(task.at, task.part.pass.makes()?)?;
        if placement.seat(from).rank == task.rank {
            return None;
        }
        let bytes = self.w.setup.messages.gathered(border_behind(from.stage, data), data)?;
        let (group, phase) = (Group::Layer(CommGroup::Tensor), pipeline::phase(task.part.pass));
        let slot = self.w.slot(group)?;
        let transfer = self.w.transfer(slot, Transfer::new(Op::AllGather, bytes));
        let what = ("all-gather received", phase, None);
        let info = self.w.describe(b, group, transfer, what, bytes);
        let stream = self.w.streams[usize::from(slot)];
        Some(Act::Comm { slot, stream, transfer, info, hidden: 0, exchange: false })
    }

    /// Pushes ops of a chain up to and including its next communication; false when nothing is left.
    fn run(&mut self, b: &mut ProgramBuilder, chain: &mut Chain) -> bool {
        loop {
            match chain.step(b) {
                Advance::Opens(visit) => self.opens(b, chain, visit),
                Advance::Closes(visit) => self.closes(b, chain, visit),
                Advance::Kernel => {}
                Advance::Comm => return true,
                Advance::Exchange(op, sent) => {
                    self.counts_read(b, op, sent);
                    return true;
                }
                Advance::Done => return false,
            }
        }
    }

    /// Before it launches the `exchange` that sends tokens to their experts, written last, the host reads how many go
    /// where: from what is sent.
    pub(super) fn counts_read(&mut self, b: &ProgramBuilder, exchange: OpId, sent: Option<OpId>) {
        if b.name(exchange) == "dispatch tokens"
            && let Some(sent) = sent
        {
            let behind = OpId(exchange.0 - 1);
            self.w.host_reads(HostWait { what: HostRead::ExpertCounts, of: sent, behind });
        }
    }

    /// The ops that the host waits for before a pass.
    fn read_before(&mut self, b: &ProgramBuilder, task: &Task) {
        let waits = self.w.setup.shares.workload.parallelism.pipeline.p2p != PointToPoint::Async;
        for read in pipeline::reads_before(b, self.w.compute, task, waits) {
            self.w.host_reads(read);
        }
    }

    /// A pass comes to a unit: what it needs is brought in, what it keeps is allocated.
    pub(super) fn opens(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        if visit.pass != Pass::WeightGrad {
            self.bring_in(b, chain, visit);
        } else {
            // An embedding has no input gradient, whose visit would have brought them in.
            self.policies.activations.arrive(&mut self.w, b, chain, visit);
        }
        if matches!(visit.pass, Pass::Backward | Pass::WeightGrad) && !visit.repeats {
            self.policies.gradients.arrive(&mut self.w, b, chain, visit);
        }
        let bytes = match (visit.pass, visit.repeats) {
            (Pass::Forward, _) => self.w.kept(visit.unit),
            (_, true) => self.w.all(visit.unit).saturating_sub(self.w.kept(visit.unit)),
            (Pass::InputGrad, false) => {
                self.w.held_for_weight_grad(visit.unit).saturating_sub(self.w.all(visit.unit))
            }
            (Pass::Backward, false) => self.w.staying(visit.unit),
            _ => 0,
        };
        let again =
            if visit.recomputes { self.w.all(visit.unit).saturating_sub(self.w.kept(visit.unit)) } else { 0 };
        chain.take(MemoryClass::Activations, bytes + again);
        if !visit.repeats {
            chain.take(MemoryClass::Workspace, self.w.units[visit.unit as usize].plan.workspace_bytes);
        }
    }

    /// A pass leaves a unit: what it no longer needs is freed, and what follows from it is started.
    pub(super) fn closes(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        if visit.repeats {
            return;
        }
        let (all, held) = (self.w.all(visit.unit), self.w.held_for_weight_grad(visit.unit));
        let freed = match visit.pass {
            Pass::Forward => 0,
            Pass::Backward => {
                let stays = self.w.staying(visit.unit);
                self.staying += 2 * stays;
                all - stays
            }
            Pass::InputGrad => all.saturating_sub(held),
            Pass::WeightGrad if self.w.units[visit.unit as usize].plan.input_grad.is_empty() => all,
            Pass::WeightGrad => held,
        };
        let end = chain.output().expect("a visit has at least one op");
        free(b, end, MemoryClass::Activations, 0, freed);
        free(b, end, MemoryClass::Workspace, 0, self.w.units[visit.unit as usize].plan.workspace_bytes);
        if visit.pass != Pass::WeightGrad {
            self.leave(b, visit, end);
        } else if self.w.units[visit.unit as usize].plan.input_grad.is_empty() {
            // Its backward visit does not take place.
            self.w.visits.pass_over(visit.unit);
            self.policies.weights.leave(&mut self.w, b, visit, end);
        }
        if matches!(visit.pass, Pass::Backward | Pass::WeightGrad) {
            self.policies.gradients.leave(&mut self.w, b, visit, end);
        }
    }

    /// Brings in what a visit needs, and makes the chain wait for it. Bytes that a recomputation brought in stay for
    /// the backward visit that follows.
    fn bring_in(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        if self.w.visits.is_present(visit) {
            return;
        }
        let coming = self.w.visits.reach(visit);
        let renewed = self.w.fresh[visit.unit as usize].len();
        self.policies.weights.arrive(&mut self.w, b, chain, visit);
        // Of what was there before this visit: a write-back that it started holds up the next one only.
        self.w.fresh[visit.unit as usize].drain(..renewed).for_each(|op| chain.wait(op));
        let mut bytes = self.w.unit_weight_bytes(visit.unit);
        if visit.pass != Pass::Forward {
            self.policies.activations.arrive(&mut self.w, b, chain, visit);
            bytes += self.w.kept(visit.unit);
        }
        self.w.visits.begin(visit, coming, bytes, OpId((b.len() as u32).saturating_sub(1)));
    }

    /// Closes the record of a visit whose last op is `end`, and gives up what was brought in for it.
    fn leave(&mut self, b: &mut ProgramBuilder, visit: Visit, end: OpId) {
        if self.w.visits.end(visit, end) {
            self.policies.weights.leave(&mut self.w, b, visit, end);
            self.policies.activations.leave(&mut self.w, b, visit, end);
        }
    }

    /// Bytes that are there before the first op and stay.
    fn reside(&self, b: &mut ProgramBuilder) {
        let context = self.w.setup.shares.workload.context_bytes();
        let classes = [
            (MemoryClass::Weights, self.policies.weights.resident(&self.w)),
            (MemoryClass::Gradients, self.policies.gradients.resident(&self.w)),
            (MemoryClass::Optimizer, self.policies.optimizer.resident(&self.w)),
            (MemoryClass::Workspace, vec![(0, context as f64)]),
        ];
        for (class, places) in classes {
            let rounded = places.into_iter().map(|(tier, bytes)| (tier, bytes.round() as u64));
            for (tier, bytes) in rounded.filter(|place| place.1 > 0) {
                b.resident(MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier, bytes });
            }
        }
    }
}

impl StageWork for Stage<'_, '_> {
    fn begin(&mut self, b: &mut ProgramBuilder, rank: u32) -> u16 {
        self.acts.clear();
        self.passes.clear();
        self.acts_paired.clear();
        self.w.begin(b, rank);
        self.units = on_rank(&self.packed, &self.w.order.placement, rank);
        self.exchanges = self.chunks_with_exchanges();
        self.policies.begin(self.w.units.len());
        self.w.visits = RankVisits::new(self.w.units.len(), self.foresee(b));
        self.begin_step();
        self.reside(b);
        self.w.compute
    }

    fn pass(&mut self, b: &mut ProgramBuilder, task: &Task) -> OpId {
        self.read_before(b, task);
        let mut chain = self.chain(b, task);
        while self.run(b, &mut chain) {}
        let end = chain.output().unwrap_or_else(|| self.nothing(b, task));
        free(b, end, MemoryClass::Activations, 0, std::mem::take(&mut self.staying));
        end
    }

    /// In turns: while one pass communicates, kernels of the other run.
    fn overlapped(&mut self, b: &mut ProgramBuilder, forward: &Task, backward: &Task) -> (OpId, OpId) {
        if self.pairs_exchanges(forward, backward) {
            return self.paired(b, forward, backward);
        }
        let mut chains = [forward, backward].map(|task| self.chain(b, task));
        let mut left = [true; 2];
        while left != [false; 2] {
            for (chain, left) in chains.iter_mut().zip(&mut left) {
                *left = *left && self.run(b, chain);
            }
        }
        let [f, w] = chains.map(|c| c.output());
        (f.unwrap_or_else(|| self.nothing(b, forward)), w.unwrap_or_else(|| self.nothing(b, backward)))
    }

    fn end(&mut self, b: &mut ProgramBuilder, _rank: u32) {
        self.policies.gradients.close(&mut self.w, b);
        self.policies.optimizer.close(&mut self.w, b);
        self.policies.weights.close(&mut self.w, b);
        self.policies.activations.close(&mut self.w, b);
        if let Some(last) = b.recent(self.w.compute, 1) {
            self.forget_gradients(b, last);
            self.w.host_reads(HostWait::at_once(HostRead::Loss, last));
        }
        self.w.step += 1;
        self.begin_step();
    }

    fn message(&self, channel: &Channel) -> Message {
        let (messages, placement) = (&self.w.setup.messages, &self.w.order.placement);
        let is_side = |seat| placement.is_side(placement.stage(seat));
        let side = messages.of_side(channel.data).filter(|_| is_side(channel.from) || is_side(channel.to));
        if let Some((transfer, bytes)) = side {
            return Message { transfer, bytes: bytes as f64, fans: [1; 2] };
        }
        let border = border_behind(channel.from_stage.stage, channel.data);
        let (transfer, bytes) = messages.of(border, channel.data);
        Message { transfer, bytes: bytes as f64, fans: messages.fans(border, channel.data) }
    }
}

impl Stage<'_, '_> {
    /// With the last op of a step gradients are given up, where they do not stay for the next.
    fn forget_gradients(&self, b: &mut ProgramBuilder, last: OpId) {
        let shares = &self.w.setup.shares;
        if shares.gradients_come_and_go(self.w.order.per_direction()) {
            let trained = self.w.units.iter().filter(|unit| unit.plan.has_backward());
            let bytes = trained.map(|unit| shares.gradients_kept_bytes(unit)).sum();
            free(b, last, MemoryClass::Gradients, 0, bytes);
        }
    }
    /// Nothing of the step to come has happened yet.
    fn begin_step(&mut self) {
        self.w.begin_step();
        self.policies.begin_step(&self.w);
        self.weights_cast = vec![false; self.w.units.len()];
    }

    /// A pass through a chunk without layers: an op that takes no time, so that there is something to wait for.
    pub(super) fn nothing(&mut self, b: &mut ProgramBuilder, task: &Task) -> OpId {
        let phase = pipeline::phase(task.part.pass);
        let info = b.info(OpInfo::of("empty stage", phase, 0.0));
        let work = Work::Compute { time: stepsim_core::units::Time::ZERO };
        b.op(self.w.compute, work, task.input.as_slice(), info, task.part.micro_batch)
    }
}

/// The stage before the border that data crosses when it leaves stage `from`.
fn border_behind(from: u32, data: Data) -> u32 {
    match data {
        Data::Activations => from,
        Data::Gradients => from - 1,
    }
}

/// Puts ops in front of one visit of a pass; other passes that share its visits keep theirs.
fn put_first(segments: &mut Segments, visit: usize, first: &[Act]) {
    let acts = &mut Rc::make_mut(segments)[visit].1;
    *acts = first.iter().chain(acts.iter()).copied().collect();
}
