//! What the passes of a transformer do on one rank: kernels and communication of its layers, weights brought in before
//! they are needed, activations kept, dropped, recomputed or moved out, gradients reduced, and the optimizer step.

use std::rc::Rc;

use rustc_hash::FxHashMap;

use super::chain::{Act, Chain, Step, Visit};
use super::gradients::UnitGradient;
use super::groups::Group;
use super::overlap;
use super::profile::transfer_of;
use super::unit::{FullRecompute, State, Unit};
use super::visits::{Coming, Trace};
use super::weights::{Gathered, free};
use super::{Prices, Setup};
use crate::collective::{Lowering, Op, Transfer};
use crate::ids::{OpId, TransferId};
use crate::model::{CommGroup, Item, Kernel};
use crate::plan::pipeline::{self, Channel, Message, StageWork, Task};
use crate::program::{MemoryClass, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work};
use crate::schedule::{Data, Part, Pass};
use crate::spec::stack::HostRead;
use crate::spec::workload::ShardingKind;

/// The rank that is being written, and what has been pushed of it.
pub(super) struct Stage<'a, 'm> {
    pub(super) setup: &'a Setup<'a>,
    pub(super) prices: &'a dyn Prices,
    pub(super) lowering: &'a mut Lowering<'m>,
    /// For each pipeline rank, for each group (slot), the transfers that its programs ask for.
    pub(super) used: Vec<Vec<Vec<TransferId>>>,
    pub(super) rank: u32,
    /// Stream of each group's slot.
    streams: Vec<u16>,
    pub(super) compute: u16,
    pub(super) units: Vec<Unit>,
    /// First unit of each chunk; one entry more than chunks.
    pub(super) first_unit: Vec<u32>,
    acts: FxHashMap<(u32, Pass, bool), Rc<[Act]>>,
    /// The same of passes that are paired with another.
    acts_paired: FxHashMap<(u32, Pass), Rc<[Act]>>,
    infos: FxHashMap<(Group, TransferId, Phase, Option<u32>), u32>,
    /// Visits that needed weights, in order, over all steps.
    pub(super) visits: Vec<VisitRecord>,
    /// The first of the visits of the pass under way, or of those of its direction and micro-batch.
    pub(super) run_start: usize,
    /// The visits of one step, known beforehand.
    pub(super) trace: Trace,
    /// By pipeline rank: ops whose results the host reads.
    pub(super) reads: Vec<Vec<(OpId, HostRead)>>,
    /// Which step of the run is being written.
    pub(super) step: u32,
    /// By unit: how many micro-batches have yet to add their gradient.
    pub(super) to_come: Vec<u32>,
    /// By unit: how many backward visits are to come.
    pub(super) backward_left: Vec<u32>,
    /// By unit: its gradient.
    pub(super) gradients: Vec<UnitGradient>,
    /// By unit: ops after which its gradient is reduced, and is where it lives.
    pub(super) reduced: Vec<Vec<OpId>>,
    /// Units whose gradients are complete and wait for their bucket to fill.
    pub(super) bucket: Vec<u32>,
    /// By unit: whether its weights have been cast in this step.
    weights_cast: Vec<bool>,
    /// By unit: weights gathered from other ranks.
    pub(super) gathered: Vec<Gathered>,
    /// Elements gathered and not given up.
    pub(super) live_elements: u64,
    /// By unit: whether weights that live elsewhere are on the device.
    pub(super) on_device: Vec<bool>,
    /// By unit: ops after which the weights that the step before has updated may be read.
    pub(super) fresh: Vec<Vec<OpId>>,
    /// By unit: the op that wrote its optimizer state back.
    pub(super) state_written: Vec<Option<OpId>>,
    /// By unit and direction: the record of the visit under way.
    pub(super) present: Vec<Option<u32>>,
    /// By unit: the record of its last visit.
    pub(super) last_visit: Vec<u32>,
    /// Activations that went out, by unit, micro-batch and share.
    pub(super) moved_out: FxHashMap<(u32, u32, u32), OpId>,
}

/// A visit that needed weights.
#[derive(Clone, Debug)]
pub(super) struct VisitRecord {
    /// Its last kernel, once pushed.
    pub end: OpId,
    /// Bytes that were brought in for it.
    pub bytes: u64,
    /// Its gradient's reductions, where they follow the visit.
    pub reduce: Vec<OpId>,
    pub backward: bool,
    pub micro_batch: u32,
    /// The rank's next pass in this direction goes through the same chunk.
    pub again: bool,
}

impl<'a, 'm> Stage<'a, 'm> {
    pub fn new(setup: &'a Setup<'a>, prices: &'a dyn Prices, lowering: &'a mut Lowering<'m>) -> Self {
        let ranks = setup.order.placement.ranks() as usize;
        Stage {
            setup,
            prices,
            lowering,
            used: vec![vec![Vec::new(); setup.groups.len()]; ranks],
            rank: 0,
            streams: Vec::new(),
            compute: 0,
            units: Vec::new(),
            first_unit: Vec::new(),
            acts: FxHashMap::default(),
            acts_paired: FxHashMap::default(),
            infos: FxHashMap::default(),
            visits: Vec::new(),
            run_start: 0,
            trace: Trace::default(),
            reads: vec![Vec::new(); ranks],
            step: 0,
            to_come: Vec::new(),
            backward_left: Vec::new(),
            gradients: Vec::new(),
            reduced: Vec::new(),
            bucket: Vec::new(),
            weights_cast: Vec::new(),
            gathered: Vec::new(),
            live_elements: 0,
            on_device: Vec::new(),
            fresh: Vec::new(),
            state_written: Vec::new(),
            present: Vec::new(),
            last_visit: Vec::new(),
            moved_out: FxHashMap::default(),
        }
    }

    /// The slot of a group, if it has more than one member (copies always have one).
    pub(super) fn slot(&self, group: Group) -> Option<u16> {
        self.setup.groups.iter().position(|g| *g == group).map(|s| s as u16)
    }

    /// Notes that this rank's `slot` does a transfer, and returns its id.
    fn transfer(&mut self, slot: u16, transfer: Transfer) -> TransferId {
        let id = self.lowering.transfer(transfer);
        let used = &mut self.used[self.rank as usize][usize::from(slot)];
        if !used.contains(&id) {
            used.push(id);
        }
        id
    }

    /// Pushes a communication that belongs to no layer list: a reduction, a gather or a copy. `None` if the group has
    /// one member.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn communicate(
        &mut self,
        b: &mut ProgramBuilder,
        group: Group,
        op: Op,
        bytes: u64,
        (name, phase, layer): (&'static str, Phase, Option<u32>),
        waits: &[OpId],
        micro_batch: u32,
    ) -> Option<OpId> {
        let slot = self.slot(group)?;
        if bytes == 0 {
            return None;
        }
        let transfer = self.transfer(slot, Transfer::new(op, bytes));
        let info = *self.infos.entry((group, transfer, phase, layer)).or_insert_with(|| {
            b.info(OpInfo { name: name.into(), phase, layer, class: None, flops: 0.0, bytes: bytes as f64 })
        });
        Some(b.op(self.streams[usize::from(slot)], Work::Comm { slot, transfer }, waits, info, micro_batch))
    }

    /// Pushes a kernel that belongs to no layer list.
    pub(super) fn kernel(
        &mut self,
        b: &mut ProgramBuilder,
        kernel: &Kernel,
        phase: Phase,
        layer: Option<u32>,
        waits: &[OpId],
    ) -> OpId {
        let info = b.info(info_of(kernel, phase, layer));
        let op =
            b.op(self.compute, Work::Compute { time: self.prices.time(kernel) }, waits, info, NO_MICRO_BATCH);
        b.slowdown(self.prices.slowdown(kernel));
        op
    }

    /// The ops of one pass through one unit, built once a program.
    pub(super) fn acts(&mut self, b: &mut ProgramBuilder, unit: u32, pass: Pass, repeats: bool) -> Rc<[Act]> {
        if let Some(acts) = self.acts.get(&(unit, pass, repeats)) {
            return acts.clone();
        }
        let layer = &self.units[unit as usize];
        let (items, phase) = if repeats {
            (layer.repeated(&self.setup.workload.recompute), Phase::Recompute)
        } else {
            (layer.items(pass).to_vec(), pipeline::phase(pass))
        };
        let number = layer.layer;
        let parallelism = &self.setup.workload.parallelism;
        let items = overlap::decompose(&items, parallelism.tensor_overlap, parallelism.tensor);
        let acts: Rc<[Act]> = items.iter().filter_map(|item| self.act(b, item, phase, number)).collect();
        self.acts.insert((unit, pass, repeats), acts.clone());
        acts
    }

    /// Acts of another make than [`Stage::acts`]'s, kept beside them.
    pub(super) fn kept_acts(&mut self) -> &mut FxHashMap<(u32, Pass), Rc<[Act]>> {
        &mut self.acts_paired
    }

    pub(super) fn act(
        &mut self,
        b: &mut ProgramBuilder,
        item: &Item,
        phase: Phase,
        layer: Option<u32>,
    ) -> Option<Act> {
        match item {
            Item::Kernel(kernel) => Some(Act::Kernel {
                info: b.info(info_of(kernel, phase, layer)),
                time: self.prices.time(kernel),
                slowdown: self.prices.slowdown(kernel),
            }),
            Item::Comm(point) => {
                let slot = self.slot(Group::Layer(point.group))?;
                let transfer = self.transfer(slot, transfer_of(point));
                let bytes = point.bytes as f64;
                let info =
                    b.info(OpInfo { name: point.name.into(), phase, layer, class: None, flops: 0.0, bytes });
                let stream = self.streams[usize::from(slot)];
                let (hidden, exchange) = (point.hidden_behind, point.exchange.is_some());
                Some(Act::Comm { slot, stream, transfer, info, hidden, exchange })
            }
        }
    }

    /// The visits of one pass in order with their ops, with recomputation where it runs.
    pub(super) fn segments(&mut self, b: &mut ProgramBuilder, part: Part) -> Vec<(Visit, Rc<[Act]>)> {
        let Part { pass, chunk, micro_batch } = part;
        let chunk = usize::from(chunk);
        let range = self.first_unit[chunk]..self.first_unit[chunk + 1];
        let mut segments: Vec<(Visit, Rc<[Act]>)> = Vec::with_capacity(2 * range.len());
        let mut add = |stage: &mut Self, b: &mut ProgramBuilder, unit: u32, repeats: bool| {
            let acts = stage.acts(b, unit, pass, repeats);
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
                    while self.units[from as usize].recompute == FullRecompute::FromBefore {
                        from -= 1;
                    }
                    (from..=unit).for_each(|u| add(self, b, u, true));
                    repeated_from = from;
                }
                add(self, b, unit, false);
            }
        }
        segments
    }

    /// The ops of one pass; on a cut border its first op gathers what was received.
    pub(super) fn chain(&mut self, b: &mut ProgramBuilder, task: &Task) -> Chain {
        let mut segments = self.segments(b, task.part);
        if task.part.pass == Pass::Forward {
            self.cast_weights(b, &mut segments);
        }
        if let (Some(gather), Some(first)) = (self.border_gather(b, task), segments.first_mut()) {
            first.1 = [gather].into_iter().chain(first.1.iter().copied()).collect();
        }
        Chain::new(segments, task.input, self.compute)
    }

    /// Weights are cast in front of the first forward visit of a step, once they are there.
    fn cast_weights(&mut self, b: &mut ProgramBuilder, segments: &mut [(Visit, Rc<[Act]>)]) {
        for (visit, acts) in segments {
            let unit = visit.unit as usize;
            if self.units[unit].plan.weight_casts.is_empty()
                || std::mem::replace(&mut self.weights_cast[unit], true)
            {
                continue;
            }
            let (casts, layer) = (self.units[unit].plan.clone(), self.units[unit].layer);
            let first: Vec<Act> = casts
                .weight_casts
                .iter()
                .filter_map(|item| self.act(b, item, Phase::Forward, layer))
                .collect();
            *acts = first.into_iter().chain(acts.iter().copied()).collect();
        }
    }

    /// The visits of a whole step, in order.
    fn foresee(&mut self, b: &mut ProgramBuilder) -> Trace {
        let order = self.setup.order;
        let parts: Vec<Part> = order.ranks[self.rank as usize]
            .iter()
            .flat_map(|slot| slot.parts())
            .filter(|p| p.pass != Pass::WeightGrad)
            .collect();
        let mut visits: Vec<Coming> = Vec::new();
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
            for (visit, _) in self.segments(b, part) {
                if !visits[first..].iter().any(|v| v.unit == visit.unit) {
                    let (unit, micro_batch) = (visit.unit, visit.micro_batch);
                    visits.push(Coming { unit, backward: part.pass != Pass::Forward, micro_batch, again });
                }
            }
        }
        Trace::of(visits)
    }

    /// The gather of an input that came in pieces from another rank.
    fn border_gather(&mut self, b: &mut ProgramBuilder, task: &Task) -> Option<Act> {
        let bytes = self.setup.gathered_border?;
        let placement = &self.setup.order.placement;
        let (from, _) = placement.source(task.at, task.part.pass.makes()?)?;
        if placement.seat(from).rank == task.rank {
            return None;
        }
        let (group, phase) = (Group::Layer(CommGroup::Tensor), pipeline::phase(task.part.pass));
        let slot = self.slot(group)?;
        let transfer = self.transfer(slot, Transfer::new(Op::AllGather, bytes));
        let name = "all-gather received".into();
        let info = *self.infos.entry((group, transfer, phase, None)).or_insert_with(|| {
            b.info(OpInfo { name, phase, layer: None, class: None, flops: 0.0, bytes: bytes as f64 })
        });
        Some(Act::Comm {
            slot,
            stream: self.streams[usize::from(slot)],
            transfer,
            info,
            hidden: 0,
            exchange: false,
        })
    }

    /// Pushes ops of a chain up to and including its next communication; false when nothing is left.
    fn run(&mut self, b: &mut ProgramBuilder, chain: &mut Chain) -> bool {
        loop {
            match chain.step(b) {
                Step::Opens(visit) => self.opens(b, chain, visit),
                Step::Closes(visit) => self.closes(b, chain, visit),
                Step::Kernel => {}
                Step::Comm | Step::Exchange => {
                    self.counts_read(b);
                    return true;
                }
                Step::Done => return false,
            }
        }
    }

    /// Before tokens are sent to their experts, the host reads how many go where.
    pub(super) fn counts_read(&mut self, b: &ProgramBuilder) {
        let op = OpId(b.len() as u32 - 1);
        if b.name(op) == "dispatch tokens"
            && let Some(before) = op.0.checked_sub(1)
        {
            self.host_reads(HostRead::ExpertCounts, OpId(before));
        }
    }

    /// A pass comes to a unit: what it needs is brought in, what it keeps is allocated.
    pub(super) fn opens(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        if visit.pass != Pass::WeightGrad {
            self.bring_in(b, chain, visit);
        } else {
            // An embedding has no input gradient, whose visit would have brought them in.
            self.copy_activations_in(b, chain, visit);
        }
        if matches!(visit.pass, Pass::Backward | Pass::WeightGrad) && !visit.repeats {
            self.gradient_wanted(b, chain, visit);
        }
        let bytes = match (visit.pass, visit.repeats) {
            (Pass::Forward, _) => self.kept(visit.unit),
            (_, true) => self.all(visit.unit).saturating_sub(self.kept(visit.unit)),
            (Pass::InputGrad, false) => {
                self.held_for_weight_grad(visit.unit).saturating_sub(self.all(visit.unit))
            }
            _ => 0,
        };
        let again =
            if visit.recomputes { self.all(visit.unit).saturating_sub(self.kept(visit.unit)) } else { 0 };
        chain.take(MemoryClass::Activations, bytes + again);
        if !visit.repeats {
            chain.take(MemoryClass::Workspace, self.units[visit.unit as usize].plan.workspace_bytes);
        }
    }

    /// A pass leaves a unit: what it no longer needs is freed, and what follows from it is started.
    pub(super) fn closes(&mut self, b: &mut ProgramBuilder, chain: &mut Chain, visit: Visit) {
        if visit.repeats {
            return;
        }
        let (all, held) = (self.all(visit.unit), self.held_for_weight_grad(visit.unit));
        let freed = match visit.pass {
            Pass::Forward => 0,
            Pass::Backward => all,
            Pass::InputGrad => all.saturating_sub(held),
            Pass::WeightGrad if self.units[visit.unit as usize].plan.input_grad.is_empty() => all,
            Pass::WeightGrad => held,
        };
        free(b, MemoryClass::Activations, 0, freed);
        free(b, MemoryClass::Workspace, 0, self.units[visit.unit as usize].plan.workspace_bytes);
        let end = chain.output().expect("a visit has at least one op");
        if visit.pass != Pass::WeightGrad {
            self.leave(b, visit, end);
        } else if self.units[visit.unit as usize].plan.input_grad.is_empty() {
            self.leave_unread(b, visit.unit);
        }
        if matches!(visit.pass, Pass::Backward | Pass::WeightGrad) {
            self.gradient_added(b, visit, end);
        }
    }

    /// Bytes of activations that a unit keeps between its passes under the policy.
    pub(super) fn kept(&self, unit: u32) -> u64 {
        self.units[unit as usize].kept_bytes(&self.setup.workload.recompute)
    }
    /// Bytes of activations that its backward pass reads.
    fn all(&self, unit: u32) -> u64 {
        let unit = &self.units[unit as usize];
        unit.plan.all_saved_bytes().max(unit.kept_bytes(&self.setup.workload.recompute))
    }
    fn held_for_weight_grad(&self, unit: u32) -> u64 {
        self.units[unit as usize].plan.weight_grad_bytes
    }

    /// What the optimizer, gradients and weights of this rank hold in all.
    pub(super) fn state(&self) -> State {
        let kind = self.setup.workload.parallelism.sharding.kind;
        let cut = [kind >= ShardingKind::Zero3, kind >= ShardingKind::Zero2, kind >= ShardingKind::Zero1];
        let d = &self.setup.degrees;
        State::of(
            self.units.iter(),
            &self.setup.bytes,
            f64::from(d.shard),
            f64::from(d.expert_replicas()),
            cut,
        )
    }
}

impl StageWork for Stage<'_, '_> {
    fn begin(&mut self, b: &mut ProgramBuilder, rank: u32) -> u16 {
        self.rank = rank;
        self.acts.clear();
        self.acts_paired.clear();
        self.infos.clear();
        self.visits.clear();
        self.run_start = 0;
        self.step = 0;
        self.compute = b.stream(StreamKind::Compute);
        // Groups that share a stream: tensor, context and expert each have one; every other group has its own.
        let mut shared: Vec<(StreamKind, u16)> = Vec::new();
        self.streams = self
            .setup
            .groups
            .iter()
            .map(|group| {
                let kind = group.stream();
                let own = !matches!(group, Group::Layer(_));
                match shared.iter().find(|(k, _)| *k == kind && !own) {
                    Some((_, stream)) => *stream,
                    None => {
                        let stream = b.stream(kind);
                        if !own {
                            shared.push((kind, stream));
                        }
                        stream
                    }
                }
            })
            .collect();
        self.units.clear();
        self.first_unit = vec![0];
        let placement = &self.setup.order.placement;
        for chunk in 0..placement.chunks(rank) {
            let at = placement.stage(crate::schedule::Seat { rank, chunk });
            self.units.extend(self.setup.stages[at.stage as usize].iter().cloned());
            self.first_unit.push(self.units.len() as u32);
        }
        let units = self.units.len();
        self.live_elements = 0;
        self.gathered = vec![Gathered::default(); units];
        self.on_device = vec![false; units];
        self.fresh = vec![Vec::new(); units];
        self.state_written = vec![None; units];
        self.present = vec![None; 2 * units];
        self.last_visit = vec![0; units];
        self.begin_step();
        self.trace = self.foresee(b);
        self.reside(b);
        self.compute
    }

    fn pass(&mut self, b: &mut ProgramBuilder, task: &Task) -> OpId {
        let mut chain = self.chain(b, task);
        while self.run(b, &mut chain) {}
        chain.output().unwrap_or_else(|| self.nothing(b, task))
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
        self.optimizer(b);
        self.step += 1;
        self.begin_step();
    }

    fn message(&self, channel: &Channel) -> Message {
        let stage = match channel.data {
            Data::Activations => channel.from_stage.stage,
            Data::Gradients => channel.from_stage.stage - 1,
        };
        Message { transfer: self.setup.border_transfer, bytes: self.setup.border_bytes(stage) as f64 }
    }
}

impl Stage<'_, '_> {
    /// Nothing of the step to come has happened yet.
    fn begin_step(&mut self) {
        let units = self.units.len();
        self.to_come = vec![self.setup.order.per_direction(); units];
        self.backward_left = self.to_come.clone();
        self.gradients = vec![UnitGradient::default(); units];
        self.reduced = vec![Vec::new(); units];
        self.bucket.clear();
        self.moved_out.clear();
        self.weights_cast = vec![false; units];
        self.trace.rewind();
        if self.setup.workload.parallelism.sharding.kind != ShardingKind::Zero3 {
            self.gathered = vec![Gathered::default(); units];
        }
    }

    /// A pass through a chunk without layers: an op that takes no time, so that there is something to wait for.
    pub(super) fn nothing(&mut self, b: &mut ProgramBuilder, task: &Task) -> OpId {
        let phase = pipeline::phase(task.part.pass);
        let info = b.info(OpInfo {
            name: "empty stage".into(),
            phase,
            layer: None,
            class: None,
            flops: 0.0,
            bytes: 0.0,
        });
        let work = Work::Compute { time: crate::units::Time::ZERO };
        b.op(self.compute, work, task.input.as_slice(), info, task.part.micro_batch)
    }
}

fn info_of(kernel: &Kernel, phase: Phase, layer: Option<u32>) -> OpInfo {
    OpInfo {
        name: kernel.name.into(),
        phase,
        layer,
        class: Some(kernel.class),
        flops: kernel.flops,
        bytes: kernel.bytes,
    }
}
