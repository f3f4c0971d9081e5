//! Writing a program: ops are pushed in an order in which every wait points backwards.

use super::{MemoryEffect, Op, OpInfo, Program, Span, Stream, StreamKind, StreamTraits, Work};
use crate::ids::OpId;
use crate::units::{Bandwidth, Time};

impl Program {
    /// Bounds what kernels move by the bandwidth of the device's memory: the bytes of some are counted higher than
    /// their times allow.
    pub fn bound_memory_rates(&mut self, bandwidth: Bandwidth) {
        // Rounded down: a kernel alone is never held up.
        let most = (bandwidth.0 as f32).next_down();
        self.ops.iter_mut().for_each(|op| op.memory_rate = op.memory_rate.min(most));
    }

    /// The program with other prices. By description: the time of its kernels and how many thousandths they take
    /// longer beside communication; what has none stays as it is. Bounds of memory rates are not kept.
    pub fn priced(&self, of_infos: &[Option<(Time, u16)>]) -> Program {
        let mut program = Program { facts: self.facts.same(), ..self.clone() };
        for op in &mut program.ops {
            if let Work::Compute { time } = &mut op.work
                && let Some((price, slowdown)) = of_infos[op.info as usize]
            {
                (*time, op.slowdown) = (price, slowdown);
                let kind = program.streams[usize::from(op.stream)].kind;
                op.memory_rate = memory_rate(kind, price, &program.infos[op.info as usize]);
            }
        }
        program
    }
}

/// Bytes per second that a kernel of the device moves.
fn memory_rate(kind: StreamKind, time: Time, info: &OpInfo) -> f32 {
    if kind == StreamKind::Compute && time > Time::ZERO { (info.bytes / time.s()) as f32 } else { 0.0 }
}

/// Builds a [`Program`] op by op.
#[derive(Debug, Default)]
pub struct ProgramBuilder {
    program: Program,
    /// The memory that ops take and give back, in any order of the ops.
    effects: Vec<(OpId, MemoryEffect)>,
    /// By stream: how many ops there may be.
    room: Vec<usize>,
}

impl ProgramBuilder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }
    /// Nothing yet, with room for a program of the size of another, and for `more` ops on one more stream, each with an
    /// op that waits for it.
    pub fn with_room_of(other: &Program, more: usize) -> Self {
        let room = |length: usize| length + length / 8;
        let program = Program {
            ops: Vec::with_capacity(room(other.ops.len()) + more),
            waits: Vec::with_capacity(room(other.waits.len()) + more),
            ..Program::default()
        };
        let effects = Vec::with_capacity(room(other.memory.len()));
        let room = other.streams.iter().map(|stream| room(stream.ops.len())).chain([more]).collect();
        ProgramBuilder { program, effects, room }
    }
    /// Adds an in-order queue that behaves as its kind does, and returns its number.
    pub fn stream(&mut self, kind: StreamKind) -> u16 {
        self.stream_with(kind, kind.traits())
    }
    /// Adds an in-order queue that behaves so, and returns its number.
    pub fn stream_with(&mut self, kind: StreamKind, traits: StreamTraits) -> u16 {
        let ops = Vec::with_capacity(self.room.get(self.program.streams.len()).copied().unwrap_or(0));
        self.program.streams.push(Stream { kind, traits, ops, latency: Time::ZERO });
        (self.program.streams.len() - 1) as u16
    }
    /// Other streams see the ends of this one's ops so much later.
    pub fn latency(&mut self, stream: u16, latency: Time) {
        self.program.streams[usize::from(stream)].latency = latency;
    }
    /// Adds a description that ops refer to.
    pub fn info(&mut self, info: OpInfo) -> u32 {
        self.program.infos.push(info);
        (self.program.infos.len() - 1) as u32
    }
    /// Queues an op on `stream` behind all that is there, to wait for `waits` as well.
    ///
    /// # Panics
    /// If a wait names an op that has not been pushed yet: that program could never be swept forward.
    pub fn op(&mut self, stream: u16, work: Work, waits: &[OpId], info: u32, micro_batch: u32) -> OpId {
        let id = OpId(self.program.ops.len() as u32);
        let span = Span { start: self.program.waits.len() as u32, len: waits.len() as u32 };
        // One by one: there are seldom more than two.
        for &wait in waits {
            assert!(wait < id, "an op may only wait for ops pushed before it");
            self.program.waits.push(wait);
        }
        let memory_rate = self.memory_rate(stream, work, info);
        self.program.ops.push(Op {
            work,
            waits: span,
            memory: Span::default(),
            info,
            micro_batch,
            stream,
            slowdown: 0,
            memory_rate,
        });
        self.program.streams[stream as usize].ops.push(id);
        id
    }
    /// Bytes per second that an op moves as a kernel of the device.
    fn memory_rate(&self, stream: u16, work: Work, info: u32) -> f32 {
        match (work, self.program.infos.get(info as usize)) {
            (Work::Compute { time }, Some(info)) => {
                memory_rate(self.program.streams[stream as usize].kind, time, info)
            }
            _ => 0.0,
        }
    }
    /// Makes an op slower by `thousandths` while a communication kernel runs on its device.
    ///
    /// # Panics
    /// If the op has not been pushed yet.
    pub fn slowdown(&mut self, op: OpId, thousandths: u16) {
        self.program.ops[op.index()].slowdown = thousandths;
    }
    /// Adds a memory effect to an op, behind those that it has.
    ///
    /// # Panics
    /// If the op has not been pushed yet.
    pub fn memory(&mut self, op: OpId, effect: MemoryEffect) {
        assert!(op.index() < self.program.ops.len(), "an op before its memory");
        self.effects.push((op, effect));
    }
    /// Declares bytes that are there before the first op.
    pub fn resident(&mut self, effect: MemoryEffect) {
        self.program.resident.push(effect);
    }
    /// The op that stands `back` places from the end of a stream (1: the last), if there are so many.
    pub fn recent(&self, stream: u16, back: usize) -> Option<OpId> {
        let ops = &self.program.streams[stream as usize].ops;
        ops.len().checked_sub(back).and_then(|i| ops.get(i)).copied()
    }
    /// The stream on which an op is queued.
    pub fn stream_of(&self, op: OpId) -> u16 {
        self.program.ops[op.index()].stream
    }
    /// The ops that an op waits for beside the one before it on its stream.
    pub fn waits_of(&self, op: OpId) -> &[OpId] {
        &self.program.waits[self.program.ops[op.index()].waits.range()]
    }
    /// The name of an op.
    pub fn name(&self, op: OpId) -> &str {
        &self.program.infos[self.program.ops[op.index()].info as usize].name
    }
    /// Number of ops so far.
    pub fn len(&self) -> usize {
        self.program.ops.len()
    }
    /// True if no op has been pushed.
    pub fn is_empty(&self) -> bool {
        self.program.ops.is_empty()
    }
    /// Notes that a round (a step of several) ends with the op pushed last.
    pub fn end_round(&mut self) {
        self.program.rounds.push(self.program.ops.len() as u32);
    }
    /// The finished program.
    pub fn finish(mut self) -> Program {
        self.effects.sort_by_key(|(op, _)| *op);
        self.program.memory.reserve_exact(self.effects.len());
        for effects in self.effects.chunk_by(|a, b| a.0 == b.0) {
            let of_op = effects.iter().map(|(_, effect)| *effect);
            self.program.ops[effects[0].0.index()].memory = Span::append(&mut self.program.memory, of_op);
        }
        self.program
    }
}
