//! The last wait of an op.
//!
//! An op is *ready* when its predecessor on the stream and all its waits have ended. A kernel then starts, unless
//! it must wait for memory. A communication op *arrives* when it is ready, and starts when the last member has arrived.
//! So the record's start and end columns are enough: the latest of those moments is the cause, and a start later
//! than all of them is a wait for memory.
//!
//! Members of one action are found by order: the n-th op of a slot belongs to the n-th action of its communicator.
//! Programs are indexed once (ranks share them); who arrived last is looked up once an action, and only for the
//! actions somebody asks about, so reading a few ranks of a large world stays cheap.
//!
//! Hazard: ops of one slot on several streams may be matched in another order than the program's. All members of an
//! action start and end together, so the span tells, and it is checked.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::kind::OpKind;
use stepsim_core::engine::Record;
use stepsim_core::ids::{CommId, OpId, RankId};
use stepsim_core::program::{MemoryWhen, Op, Program, StreamKind, Work, World};
use stepsim_core::units::Time;

/// The last wait of an op of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Binding {
    /// Nothing: it could start at time zero.
    Nothing,
    /// The op before it on its stream.
    Predecessor(OpId),
    /// An op of the same rank that it waits for.
    Wait(OpId),
    /// The member of its communicator that arrived last: another rank's op (or, in a folded world, this rank's op in
    /// another slot).
    Member(RankId, OpId),
    /// Room on a tier: it started later than all else allowed.
    Memory,
}

/// When something became possible, and which op made it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The moment.
    pub time: Time,
    /// [`Binding::Nothing`], [`Binding::Predecessor`] or [`Binding::Wait`].
    pub by: Binding,
}

impl Ready {
    /// The op whose end it was.
    pub fn op(self) -> Option<OpId> {
        match self.by {
            Binding::Predecessor(op) | Binding::Wait(op) => Some(op),
            _ => None,
        }
    }
}

/// The member of an action that arrived last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it was ready.
    pub time: Time,
    /// The member.
    pub rank: RankId,
    /// Its op.
    pub op: OpId,
}

/// The facts of a program that readers need beside its ops.
#[derive(Debug, Default)]
pub(crate) struct ProgramIndex {
    /// The op before each op on its stream; `NONE` for the first.
    predecessor: Vec<u32>,
    /// How many ops of the same slot come before each communication op.
    sequence: Vec<u32>,
    /// The ops of each slot, in program order.
    pub(crate) by_slot: Vec<Vec<OpId>>,
    /// The purpose of each op.
    pub(crate) kinds: Vec<OpKind>,
    /// Kernels on compute streams, stream by stream.
    pub(crate) kernels: Vec<OpId>,
    /// Ops that take memory or give it back: few of all.
    pub(crate) holding: Vec<OpId>,
    /// True if ops of any stream are seen by others later than they end.
    late: bool,
    /// True if there is more than one compute stream, so that `kernels` may be out of time order.
    pub(crate) many_compute_streams: bool,
}

const NONE: u32 = u32::MAX;

impl ProgramIndex {
    fn new(program: &Program) -> ProgramIndex {
        let mut index = ProgramIndex {
            predecessor: vec![NONE; program.ops.len()],
            sequence: vec![0; program.ops.len()],
            ..ProgramIndex::default()
        };
        for stream in &program.streams {
            for pair in stream.ops.windows(2) {
                index.predecessor[pair[1].index()] = pair[0].0;
            }
        }
        for (i, op) in program.ops.iter().enumerate() {
            if let Work::Comm { slot, .. } = op.work {
                let slot = slot as usize;
                if index.by_slot.len() <= slot {
                    index.by_slot.resize(slot + 1, Vec::new());
                }
                index.sequence[i] = index.by_slot[slot].len() as u32;
                index.by_slot[slot].push(OpId(i as u32));
            }
            if !op.memory.is_empty() {
                index.holding.push(OpId(i as u32));
            }
        }
        index.kinds = OpKind::of_all(program);
        index.late = program.streams.iter().any(|s| s.latency > Time::ZERO);
        let is_kernel = |op: &&OpId| matches!(program.ops[op.index()].work, Work::Compute { .. });
        for (before, stream) in program.streams.iter().filter(|s| s.kind == StreamKind::Compute).enumerate() {
            index.kernels.reserve(stream.ops.len());
            index.kernels.extend(stream.ops.iter().filter(is_kernel));
            index.many_compute_streams = before > 0;
        }
        index
    }
}

impl ProgramIndex {
    /// [`Program::latency_between`], at no cost where no stream has any.
    #[inline]
    pub(crate) fn latency_between(&self, program: &Program, before: OpId, op: OpId) -> Time {
        if self.late { program.latency_between(before, op) } else { Time::ZERO }
    }
}

/// Finds causes in a record.
pub struct Causes<'a> {
    world: &'a World,
    record: &'a Record,
    /// By rank of the world, the rank of the record that has its spans; absent: itself.
    source: Option<&'a [u32]>,
    programs: Vec<Arc<ProgramIndex>>,
    last: FxHashMap<(CommId, Time, Time), Arrival>,
}

impl<'a> Causes<'a> {
    /// Indexes the programs of a world. `record` must be a run of that world.
    pub fn new(world: &'a World, record: &'a Record) -> Causes<'a> {
        let programs = world.programs.iter().map(|p| p.facts.of(|| ProgramIndex::new(p))).collect();
        Causes { world, record, source: None, programs, last: FxHashMap::default() }
    }
    /// The same for a world that was folded before it was played: `source[rank]` is the rank of the folded world
    /// (`Folded::ranks.of`). Peers are then named as they are, not by the one that stood for them.
    pub fn unfolded(world: &'a World, record: &'a Record, source: &'a [u32]) -> Causes<'a> {
        Causes { source: Some(source), ..Causes::new(world, record) }
    }
    /// Start and end of an op of a rank of the world.
    #[inline]
    pub fn span(&self, rank: RankId, op: OpId) -> (Time, Time) {
        let source = self.source.map_or(rank, |of| RankId(of[rank.index()]));
        self.record.span(source, op)
    }
    /// The first rank of the world that has the spans of a rank of the record.
    pub(crate) fn first_of(&self, source: RankId) -> RankId {
        let found = self.source.and_then(|of| of.iter().position(|class| *class == source.0));
        found.map_or(source, |rank| RankId(rank as u32))
    }
    /// The world.
    pub fn world(&self) -> &'a World {
        self.world
    }
    /// The record.
    pub fn record(&self) -> &'a Record {
        self.record
    }
    /// The index of a rank's program.
    pub(crate) fn index_of(&self, rank: RankId) -> &ProgramIndex {
        &self.programs[self.world.ranks[rank.index()].program.index()]
    }
    /// A rank's kernels in the order of their starts.
    pub(crate) fn kernels(&self, rank: RankId) -> Vec<OpId> {
        let index = self.index_of(rank);
        let mut kernels = index.kernels.clone();
        if index.many_compute_streams {
            kernels.sort_by_key(|&kernel| self.span(rank, kernel));
        }
        kernels
    }
    /// The purpose of an op.
    #[inline]
    pub fn kind(&self, rank: RankId, op: OpId) -> OpKind {
        self.index_of(rank).kinds[op.index()]
    }
    fn op(&self, rank: RankId, op: OpId) -> &'a Op {
        &self.world.program_of(rank).ops[op.index()]
    }
    /// The op before `op` on its stream.
    pub fn predecessor(&self, rank: RankId, op: OpId) -> Option<OpId> {
        let p = self.index_of(rank).predecessor[op.index()];
        (p != NONE).then_some(OpId(p))
    }
    /// When an op's stream and waits let it go: it starts then, unless it needs memory or a peer.
    /// Of ops that end together the predecessor is named, else the first wait.
    pub fn ready(&self, rank: RankId, op: OpId) -> Ready {
        let (program, index) = (self.world.program_of(rank), self.index_of(rank));
        let mut ready = match index.predecessor[op.index()] {
            NONE => Ready { time: Time::ZERO, by: Binding::Nothing },
            p => Ready { time: self.span(rank, OpId(p)).1, by: Binding::Predecessor(OpId(p)) },
        };
        for &wait in &program.waits[program.ops[op.index()].waits.range()] {
            let end = self.span(rank, wait).1 + index.latency_between(program, wait, op);
            if end > ready.time || (ready.by == Binding::Nothing && end == ready.time) {
                ready = Ready { time: end, by: Binding::Wait(wait) };
            }
        }
        ready
    }
    /// The communicator of a communication op; `None` for a kernel.
    pub fn comm(&self, rank: RankId, op: OpId) -> Option<CommId> {
        match self.op(rank, op).work {
            Work::Comm { slot, .. } => Some(self.world.slots_of(rank)[slot as usize]),
            Work::Compute { .. } => None,
        }
    }
    /// The ops of all members of the action that a communication op took part in, in the order of the members, its
    /// own included; empty for a kernel.
    pub fn members(&self, rank: RankId, op: OpId) -> Vec<(RankId, OpId)> {
        let mut found = Vec::new();
        self.for_each_member(rank, op, |r, o| found.push((r, o)));
        found
    }
    fn for_each_member(&self, rank: RankId, op: OpId, mut visit: impl FnMut(RankId, OpId)) {
        let Some(comm) = self.comm(rank, op) else { return };
        let span = self.span(rank, op);
        let sequence = self.index_of(rank).sequence[op.index()] as usize;
        let members = self.world.members_of(comm);
        for (i, &member) in members.iter().enumerate() {
            if i > 0 && members[i - 1] == member {
                continue;
            }
            let by_slot = &self.index_of(member).by_slot;
            for (slot, _) in self.world.slots_of(member).iter().enumerate().filter(|(_, c)| **c == comm) {
                let ops = by_slot.get(slot).map_or(&[][..], Vec::as_slice);
                let together = |o: &&OpId| self.span(member, **o) == span;
                if let Some(&o) = ops.get(sequence).filter(together).or_else(|| ops.iter().find(together)) {
                    visit(member, o);
                }
            }
        }
    }
    /// The member that arrived last at the action of a communication op; of several, the first in member order.
    /// `None` for a kernel.
    pub fn last_arrival(&mut self, rank: RankId, op: OpId) -> Option<Arrival> {
        let comm = self.comm(rank, op)?;
        let (start, end) = self.span(rank, op);
        if let Some(&known) = self.last.get(&(comm, start, end)) {
            return Some(known);
        }
        let mut last = Arrival { time: self.ready(rank, op).time, rank, op };
        let mut first = true;
        self.for_each_member(rank, op, |r, o| {
            let time = self.ready(r, o).time;
            if first || time > last.time {
                last = Arrival { time, rank: r, op: o };
            }
            first = false;
        });
        self.last.insert((comm, start, end), last);
        Some(last)
    }
    /// The last wait before the start of an op. Where this rank and a peer arrived together, this rank's own cause is
    /// named.
    pub fn binding(&mut self, rank: RankId, op: OpId) -> Binding {
        let own = self.ready(rank, op);
        let start = self.span(rank, op).0;
        if own.time >= start {
            return own.by;
        }
        match self.last_arrival(rank, op) {
            Some(last) if last.time > own.time && last.time >= start => Binding::Member(last.rank, last.op),
            _ => Binding::Memory,
        }
    }
    /// True if an op takes bytes when it starts, and so may have to wait for them.
    pub fn allocates(&self, rank: RankId, op: OpId) -> bool {
        let program = self.world.program_of(rank);
        let effects = &program.memory[self.op(rank, op).memory.range()];
        effects.iter().any(|e| e.when == MemoryWhen::AllocAtStart && e.bytes > 0)
    }
}
