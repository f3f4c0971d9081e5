//! The passes of Calculon's step on one rank: the ops of its blocks, and of the optimizer behind them.

use super::labels::{Infos, Local, Move};
use super::{CalculonStep, DataParallelPlan};
use stepsim::core::ids::{OpId, TransferId};
use stepsim::core::program::{
    MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, ProgramBuilder, StreamKind, Work,
};
use stepsim::core::units::Time;
use stepsim::plan::pipeline::{Channel, Message, StageWork, Task};
use stepsim::schedule::{Data, Pass, SlotPass};

/// Streams of the open program.
#[derive(Clone, Copy, Debug, Default)]
struct BlockStreams {
    compute: u16,
    tensor: u16,
    data: u16,
    copy_in: u16,
    copy_out: u16,
}

/// Puts the ops of a [`CalculonStep`] between the transfers of `plan::pipeline`.
pub(super) struct BlockWriter<'a> {
    step: &'a CalculonStep,
    streams: BlockStreams,
    infos: Infos,
    /// The last op of the pass before.
    last: Option<OpId>,
    /// Ends of the blocks run so far, the last two: what a copy with one block of look-ahead waits for.
    recent: [Option<OpId>; 2],
    /// Copies out of the last two forward blocks.
    written: [Option<OpId>; 2],
    /// Per (chunk, block, micro-batch) its copy out.
    away: Vec<Option<OpId>>,
    /// Reductions (or the gathers behind them) of blocks in the order of their last backward pass.
    reduced: Vec<OpId>,
}

/// Steps through the ops of one block.
struct BlockCursor {
    after: Option<OpId>,
    micro_batch: u32,
}

impl<'a> BlockWriter<'a> {
    /// Those of a step, before its first rank.
    pub(super) fn new(step: &'a CalculonStep) -> BlockWriter<'a> {
        BlockWriter {
            step,
            streams: BlockStreams::default(),
            infos: Infos::default(),
            last: None,
            recent: [None; 2],
            written: [None; 2],
            away: Vec::new(),
            reduced: Vec::new(),
        }
    }
    fn local(&self, local: Local, kind: Move) -> Work {
        Work::Comm { slot: local as u16, transfer: TransferId(kind as u32) }
    }
    /// Pushes an op behind the chain and whatever else it waits for.
    fn push(
        &self,
        b: &mut ProgramBuilder,
        chain: &mut BlockCursor,
        stream: u16,
        work: Work,
        info: u32,
        waits: &[Option<OpId>],
    ) -> OpId {
        let waits: Vec<OpId> = chain.after.into_iter().chain(waits.iter().copied().flatten()).collect();
        let op = b.op(stream, work, &waits, info, chain.micro_batch);
        chain.after = Some(op);
        op
    }
    fn kernel(
        &self,
        b: &mut ProgramBuilder,
        chain: &mut BlockCursor,
        phase: usize,
        time: Time,
        waits: &[Option<OpId>],
    ) -> OpId {
        if let (Time::ZERO, Some(after), true) = (time, chain.after, waits.iter().all(Option::is_none)) {
            return after;
        }
        let slowdown = self.step.slowdown;
        let (work, info) = (Work::Compute { time }, self.infos.kernels[phase]);
        let op = self.push(b, chain, self.streams.compute, work, info, waits);
        b.slowdown(op, [slowdown.forward, slowdown.forward, slowdown.backward, 0][phase]);
        op
    }
    fn comm(&self, b: &mut ProgramBuilder, chain: &mut BlockCursor, time: Time, kind: Move, info: u32) {
        if time > Time::ZERO {
            let work = self.local(Local::Tensor, kind);
            self.push(b, chain, self.streams.tensor, work, info, &[]);
        }
    }
    fn charged(&self, b: &mut ProgramBuilder, chain: &mut BlockCursor, time: Time, kind: Move) {
        if time > Time::ZERO && self.step.copies.is_none() {
            let work = self.local(Local::CopyIn, kind);
            self.push(b, chain, self.streams.copy_in, work, self.infos.weights, &[]);
        }
    }
    /// A copy of a block's weights or stored activations towards the device, one block ahead of its use: what it brings
    /// has its memory from the start.
    fn fetch(
        &self,
        b: &mut ProgramBuilder,
        micro_batch: u32,
        class: MemoryClass,
        from: Option<OpId>,
    ) -> Option<OpId> {
        let (step, copies) = (self.step, self.step.copies.unwrap_or_default());
        let (time, kind, info, bytes) = match class {
            MemoryClass::Activations => (copies.activations, Move::Stored, self.infos.stored, step.stored()),
            _ => (copies.weights, Move::Weights, self.infos.weights, step.bytes.weights),
        };
        if time == Time::ZERO {
            return None;
        }
        let waits: Vec<OpId> = self.recent[0].into_iter().chain(from).collect();
        let op = b.op(self.streams.copy_in, self.local(Local::CopyIn, kind), &waits, info, micro_batch);
        Self::memory(b, op, MemoryWhen::AllocAtStart, class, bytes);
        Some(op)
    }
    fn memory(b: &mut ProgramBuilder, op: OpId, when: MemoryWhen, class: MemoryClass, bytes: u64) {
        if bytes > 0 {
            b.memory(op, MemoryEffect { when, class, tier: 0, bytes });
        }
    }
    fn ended(&mut self, op: Option<OpId>) {
        self.recent = [self.recent[1], op];
    }

    fn forward(&mut self, b: &mut ProgramBuilder, task: &Task, chain: &mut BlockCursor, block: u32) {
        let (step, m) = (self.step, task.part.micro_batch);
        let times = *step.block(task.rank, task.part.chunk, block);
        let edge = block + 1 == step.blocks_of(task.rank, task.part.chunk);
        let copies = step.copies.unwrap_or_default();
        let weights = self.fetch(b, m, MemoryClass::Weights, None);
        let room = if copies.activations > Time::ZERO { self.written[0] } else { None };
        let kernel = self.kernel(b, chain, 0, times.forward, &[weights, room]);
        Self::memory(b, kernel, MemoryWhen::AllocAtStart, MemoryClass::Activations, step.stored());
        if weights.is_some() {
            Self::memory(b, kernel, MemoryWhen::FreeAtEnd, MemoryClass::Weights, step.bytes.weights);
        }
        let pick = |base: Move, at_edge: Move| if edge { at_edge } else { base };
        let comm = pick(Move::ForwardComm, Move::EdgeForwardComm);
        self.comm(b, chain, times.forward_comm, comm, self.infos.comm[0]);
        self.charged(b, chain, times.forward_offload, pick(Move::ForwardOffload, Move::EdgeForwardOffload));
        if copies.activations > Time::ZERO {
            let work = self.local(Local::CopyOut, Move::Stored);
            let op = b.op(self.streams.copy_out, work, chain.after.as_slice(), self.infos.out, m);
            Self::memory(b, op, MemoryWhen::FreeAtEnd, MemoryClass::Activations, step.stored());
            self.written = [self.written[1], Some(op)];
            let at = self.away_index(task.part, block);
            self.away[at] = Some(op);
        }
        self.ended(chain.after);
    }

    fn backward(&mut self, b: &mut ProgramBuilder, task: &Task, chain: &mut BlockCursor, block: u32) {
        let (step, m) = (self.step, task.part.micro_batch);
        let times = *step.block(task.rank, task.part.chunk, block);
        let edge = block + 1 == step.blocks_of(task.rank, task.part.chunk);
        let weights = self.fetch(b, m, MemoryClass::Weights, None);
        let away = self.away[self.away_index(task.part, block)];
        let stored = self.fetch(b, m, MemoryClass::Activations, away);
        let pick = |base: Move, at_edge: Move| if edge { at_edge } else { base };
        let mut waits = [weights, stored];
        if times.recompute > Time::ZERO {
            self.kernel(b, chain, 1, times.recompute, &waits);
            waits = [None; 2];
        }
        self.comm(b, chain, times.redo_comm, pick(Move::RedoComm, Move::EdgeRedoComm), self.infos.comm[1]);
        let kernel = self.kernel(b, chain, 2, times.backward, &waits);
        Self::memory(b, kernel, MemoryWhen::FreeAtEnd, MemoryClass::Activations, step.stored());
        if weights.is_some() {
            Self::memory(b, kernel, MemoryWhen::FreeAtEnd, MemoryClass::Weights, step.bytes.weights);
        }
        let comm = pick(Move::BackwardComm, Move::EdgeBackwardComm);
        self.comm(b, chain, times.backward_comm, comm, self.infos.comm[2]);
        let offload = pick(Move::BackwardOffload, Move::EdgeBackwardOffload);
        self.charged(b, chain, times.backward_offload, offload);
        self.ended(chain.after);
        if task.last_of_chunk
            && let DataParallelPlan::Blocks { overlap: true, .. } = step.data
        {
            self.reduce(b, chain.after);
        }
    }

    fn away_index(&self, part: SlotPass, block: u32) -> usize {
        let (chunk, m) = (u64::from(part.chunk), u64::from(self.step.micro_batches));
        ((chunk * u64::from(self.step.blocks) + u64::from(block)) * m + u64::from(part.micro_batch)) as usize
    }

    /// Reduces the gradients of one block.
    fn reduce(&mut self, b: &mut ProgramBuilder, after: Option<OpId>) {
        let DataParallelPlan::Blocks { gather, gather_after_step, .. } = self.step.data else { return };
        let work = self.local(Local::Data, Move::Reduce);
        let mut op = b.op(self.streams.data, work, after.as_slice(), self.infos.reduce, NO_MICRO_BATCH);
        if gather.is_some() && !gather_after_step {
            let work = self.local(Local::Data, Move::Gather);
            op = b.op(self.streams.data, work, &[op], self.infos.gather, NO_MICRO_BATCH);
        }
        self.reduced.push(op);
    }

    /// The optimizer step of every block, each behind its reduction, with its state coming and going.
    fn optimizer(&mut self, b: &mut ProgramBuilder, rank: u32) {
        let step = self.step;
        let state = step.copies.unwrap_or_default().state;
        let after_step =
            matches!(step.data, DataParallelPlan::Blocks { gather: Some(_), gather_after_step: true, .. });
        let mut steps: Vec<OpId> = Vec::new();
        let before = self.last;
        for block in 0..step.all_blocks(rank) as usize {
            let mut waits: Vec<OpId> = before.into_iter().chain(self.reduced.get(block).copied()).collect();
            if state > Time::ZERO {
                let room = block.checked_sub(2).map(|i| steps[i]).or(before);
                let work = self.local(Local::CopyIn, Move::State);
                let copy =
                    b.op(self.streams.copy_in, work, room.as_slice(), self.infos.state_in, NO_MICRO_BATCH);
                waits.push(copy);
            }
            let work = Work::Compute { time: step.optimizer };
            let op = b.op(self.streams.compute, work, &waits, self.infos.kernels[3], NO_MICRO_BATCH);
            steps.push(op);
            if after_step {
                let work = self.local(Local::Data, Move::Gather);
                b.op(self.streams.data, work, &[op], self.infos.gather, NO_MICRO_BATCH);
            }
            if state > Time::ZERO {
                let work = self.local(Local::CopyOut, Move::State);
                b.op(self.streams.copy_out, work, &[op], self.infos.state_out, NO_MICRO_BATCH);
            }
        }
    }
}

impl CalculonStep {
    fn stored(&self) -> u64 {
        if self.training { self.bytes.stored } else { 0 }
    }
}

impl StageWork for BlockWriter<'_> {
    fn begin(&mut self, b: &mut ProgramBuilder, rank: u32) -> u16 {
        self.streams = BlockStreams {
            compute: b.stream(StreamKind::Compute),
            tensor: b.stream(StreamKind::Tensor),
            data: b.stream(StreamKind::Data),
            copy_in: b.stream(StreamKind::CopyIn),
            copy_out: b.stream(StreamKind::CopyOut),
        };
        self.infos = self.step.describe(b);
        let step = self.step;
        (self.last, self.recent, self.written) = (None, [None; 2], [None; 2]);
        self.away = vec![None; step.chunks as usize * step.blocks as usize * step.micro_batches as usize];
        self.reduced = Vec::new();
        let copies = step.copies.unwrap_or_default();
        let blocks = u64::from(step.all_blocks(rank));
        let stays = |away: Time, bytes: u64| if away > Time::ZERO { 0 } else { bytes.saturating_mul(blocks) };
        for (class, bytes) in [
            (MemoryClass::Weights, stays(copies.weights, step.bytes.weights)),
            (MemoryClass::Gradients, stays(copies.state, step.bytes.gradients)),
            (MemoryClass::Optimizer, stays(copies.state, step.bytes.state)),
        ] {
            if bytes > 0 {
                b.resident(MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier: 0, bytes });
            }
        }
        self.streams.compute
    }

    fn pass(&mut self, b: &mut ProgramBuilder, task: &Task) -> OpId {
        // The input is waited for by the first kernel beside what came before on this rank.
        let mut chain = BlockCursor { after: self.last, micro_batch: task.part.micro_batch };
        let forward = task.part.pass == Pass::Forward;
        if let Some(input) = task.input {
            // An op of no time that joins the two, so that copies of the first block need not wait for the input.
            let phase = if forward { 0 } else { 2 };
            self.kernel(b, &mut chain, phase, Time::ZERO, &[Some(input)]);
        }
        let blocks = self.step.blocks_of(task.rank, task.part.chunk);
        for i in 0..blocks {
            if forward {
                self.forward(b, task, &mut chain, i);
            } else {
                self.backward(b, task, &mut chain, blocks - 1 - i);
            }
        }
        if chain.after.is_none() {
            self.kernel(b, &mut chain, 0, Time::ZERO, &[]);
        }
        let stages = self.step.ranks * u32::from(self.step.chunks);
        let end = if forward { task.at.stage + 1 == stages } else { task.at.stage == 0 };
        let kind = usize::from(!forward);
        if self.step.ends_send && end && self.step.ranks > 1 {
            let work = self.local(Local::Send, [Move::Activations, Move::Gradients][kind]);
            self.push(b, &mut chain, self.streams.compute, work, self.infos.send[kind], &[]);
        }
        self.last = chain.after;
        chain.after.unwrap_or(OpId(0))
    }

    fn end(&mut self, b: &mut ProgramBuilder, rank: u32) {
        if !self.step.training {
            return;
        }
        match self.step.data {
            DataParallelPlan::Exposed(time) if time > Time::ZERO => {
                let work = self.local(Local::Data, Move::Exposed);
                let mut chain = BlockCursor { after: self.last, micro_batch: NO_MICRO_BATCH };
                self.push(b, &mut chain, self.streams.data, work, self.infos.exposed, &[]);
                self.last = chain.after;
            }
            DataParallelPlan::Blocks { overlap: false, .. } => {
                for _ in 0..self.step.all_blocks(rank) {
                    self.reduce(b, self.last);
                }
            }
            _ => {}
        }
        self.optimizer(b, rank);
    }

    fn message(&self, channel: &Channel) -> Message {
        let kind = if channel.data == Data::Activations { Move::Activations } else { Move::Gradients };
        Message {
            transfer: TransferId(kind as u32),
            bytes: self.step.p2p[channel.data as usize].bytes,
            fans: [1; 2],
        }
    }
}
