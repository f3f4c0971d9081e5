//! Worlds for tests, with records made by a forward sweep in one global order, so no engine is needed: each op's
//! start is the latest end of what it waits for, plus a wait for memory if one is asked for; its end is its time
//! on an idle machine, plus contention if asked for.

use rand::{Rng, SeedableRng};
use stepsim_core::engine::Record;
use stepsim_core::ids::{CommId, OpId, RankId, ResourceId, TransferId};
use stepsim_core::program::{
    Action, Flow, MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, Span,
    StreamKind, Work, World,
};
use stepsim_core::units::{Bandwidth, Bytes, Time};

/// A world with one program a rank, and what happened in it.
pub struct Scenario {
    /// The world.
    pub world: World,
    /// The spans of all ops.
    pub record: Record,
    /// For each op of each rank: how long it waited for memory and how much contention added.
    pub added: Vec<Vec<(Time, Time)>>,
    builders: Vec<ProgramBuilder>,
    kinds: Vec<Vec<StreamKind>>,
    spans: Vec<Vec<(Time, Time)>>,
    stream_end: Vec<Vec<Time>>,
    waits: Vec<Vec<OpId>>,
    last_kernel: Vec<Option<OpId>>,
    last_comm: Vec<Option<OpId>>,
    slots: Vec<Vec<CommId>>,
}

impl Scenario {
    /// `ranks` ranks without streams.
    pub fn new(ranks: usize) -> Scenario {
        let mut world = World::default();
        world.add_resource(Bandwidth(1e12));
        Scenario {
            world,
            record: Record::default(),
            added: vec![Vec::new(); ranks],
            builders: (0..ranks).map(|_| ProgramBuilder::new()).collect(),
            kinds: vec![Vec::new(); ranks],
            spans: vec![Vec::new(); ranks],
            stream_end: vec![Vec::new(); ranks],
            waits: vec![Vec::new(); ranks],
            last_kernel: vec![None; ranks],
            last_comm: vec![None; ranks],
            slots: vec![Vec::new(); ranks],
        }
    }
    /// Two ranks with a stream of kernels (0) and one of `kind` (1): a kernel of `kernels` ps each, and behind both a
    /// communication of `time` ps that starts `memory` ps late.
    pub fn of_two(kind: StreamKind, kernels: [u64; 2], time: u64, memory: u64) -> Scenario {
        let mut s = Scenario::new(2);
        for (rank, kernel) in kernels.into_iter().enumerate() {
            s.stream(rank, StreamKind::Compute);
            s.stream(rank, kind);
            s.kernel(rank, 0, kernel, 0);
            s.wait_for_last_kernel(rank);
        }
        s.comm(&[(0, 1), (1, 1)], time, 0, memory);
        s
    }
    /// The next kernel of either rank, of `time` ps, behind its last communication.
    pub fn kernels_behind(&mut self, time: u64) {
        for rank in 0..2 {
            self.wait_for_last_comm(rank);
            self.kernel(rank, 0, time, 0);
        }
    }
    /// A stream of a rank.
    pub fn stream(&mut self, rank: usize, kind: StreamKind) -> u16 {
        self.kinds[rank].push(kind);
        self.stream_end[rank].push(Time::ZERO);
        self.builders[rank].stream(kind)
    }
    /// The next op of the rank waits for its last kernel.
    pub fn wait_for_last_kernel(&mut self, rank: usize) {
        self.waits[rank].extend(self.last_kernel[rank]);
    }
    /// The next op of the rank waits for its last communication.
    pub fn wait_for_last_comm(&mut self, rank: usize) {
        self.waits[rank].extend(self.last_comm[rank]);
    }
    /// Ready time of the rank's next op on a stream.
    fn ready(&self, rank: usize, stream: u16) -> Time {
        let waits = self.waits[rank].iter().map(|w| self.spans[rank][w.index()].1);
        waits.fold(self.stream_end[rank][stream as usize], Time::max)
    }
    fn push(
        &mut self,
        rank: usize,
        stream: u16,
        work: Work,
        span: (Time, Time),
        added: (Time, Time),
    ) -> OpId {
        let builder = &mut self.builders[rank];
        let info = builder.info(OpInfo::of("op", Phase::Forward, 10.0));
        let waits = std::mem::take(&mut self.waits[rank]);
        let op = builder.op(stream, work, &waits, info, NO_MICRO_BATCH);
        self.spans[rank].push(span);
        self.added[rank].push(added);
        self.stream_end[rank][stream as usize] = span.1;
        op
    }
    /// A kernel of `time` ps that starts `memory` ps after it is ready.
    pub fn kernel(&mut self, rank: usize, stream: u16, time: u64, memory: u64) -> OpId {
        let start = self.ready(rank, stream) + Time(memory);
        let work = Work::Compute { time: Time(time) };
        let op = self.push(rank, stream, work, (start, start + Time(time)), (Time(memory), Time::ZERO));
        self.last_kernel[rank] = Some(op);
        op
    }
    /// A collective of its own communicator over one flow: `time` ps on an idle machine, `contention` more, and
    /// it starts `memory` ps after its last member has arrived. A rank twice among the members takes two slots.
    pub fn comm(&mut self, members: &[(usize, u16)], time: u64, contention: u64, memory: u64) {
        // 10¹² bytes per second, crossed twice: half a byte a picosecond
        let flow = Flow { latency: Time::ZERO, bytes: time as f64 / 2.0, rate_limit: f64::INFINITY, path: 0 };
        let action = self.world.add_action(Action::Phases(vec![flow]));
        let profile = self.world.add_profile([action]);
        let ranks: Vec<RankId> = members.iter().map(|m| RankId(m.0 as u32)).collect();
        let comm = self.world.add_comm(profile, &ranks, &[&[(ResourceId(0), 2)]]);
        let last = members.iter().map(|&(r, s)| self.ready(r, s)).max().expect("a member");
        let start = last + Time(memory);
        let end = start + Time(time) + Time(contention);
        for &(rank, stream) in members {
            let slot = self.slots[rank].len() as u16;
            self.slots[rank].push(comm);
            let work = Work::Comm { slot, transfer: TransferId(0) };
            let op = self.push(rank, stream, work, (start, end), (Time(memory), Time(contention)));
            self.last_comm[rank] = Some(op);
        }
    }
    /// Adds a memory effect to the rank's last op.
    pub fn memory(&mut self, rank: usize, when: MemoryWhen, class: MemoryClass, bytes: u64) {
        let last = OpId(self.builders[rank].len() as u32 - 1);
        self.builders[rank].memory(last, MemoryEffect { when, class, tier: 0, bytes });
    }
    /// Adds bytes that are there from the start.
    pub fn resident(&mut self, rank: usize, class: MemoryClass, bytes: u64) {
        let effect = MemoryEffect { when: MemoryWhen::AllocAtStart, class, tier: 0, bytes };
        self.builders[rank].resident(effect);
    }
    /// The world with its programs bound, all ranks on one tier, and the record.
    pub fn finish(mut self) -> Scenario {
        let w = &mut self.world;
        let hbm = w.add_tier("hbm", Bytes(1 << 40));
        for (builder, comms) in std::mem::take(&mut self.builders).into_iter().zip(&self.slots) {
            let program = w.add_program(builder.finish());
            let rank = w.add_rank(program, 0);
            w.ranks[rank.index()].slots = Span::append(&mut w.slots, comms.iter().copied());
            w.set_tiers(rank, &[hbm]);
        }
        self.record = Record::for_world(w);
        for (i, &(start, end)) in self.spans.iter().flatten().enumerate() {
            self.record.spans[i] = (start, end);
            self.record.step_end = self.record.step_end.max(end);
        }
        self
    }
}

const KINDS: [StreamKind; 9] = [
    StreamKind::Compute,
    StreamKind::Tensor,
    StreamKind::Expert,
    StreamKind::PipelineSend,
    StreamKind::PipelineRecv,
    StreamKind::Data,
    StreamKind::CopyIn,
    StreamKind::CopyOut,
    StreamKind::Host,
];

/// A random world: 1 to 5 ranks, all kinds of streams, up to 60 ops, some of them late for memory or contended.
pub fn random(seed: u64) -> Scenario {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    let ranks = rng.random_range(1..=5);
    let mut s = Scenario::new(ranks);
    for r in 0..ranks {
        for kind in KINDS {
            s.stream(r, kind);
        }
        let class = MemoryClass::ALL[rng.random_range(0..5)];
        s.resident(r, class, 1_000_000);
    }
    for _ in 0..rng.random_range(1..60) {
        let rank = rng.random_range(0..ranks);
        let time = rng.random_range(0..10) * 1_000_000;
        let memory = if rng.random_bool(0.2) { rng.random_range(1..9) * 1_000_000 } else { 0 };
        for r in 0..ranks {
            if rng.random_bool(0.4) {
                s.wait_for_last_kernel(r);
            }
            if rng.random_bool(0.4) {
                s.wait_for_last_comm(r);
            }
        }
        let touched = if rng.random_bool(0.5) {
            let stream = if rng.random_bool(0.8) { 0 } else { 8 };
            s.kernel(rank, stream, time, memory);
            vec![rank]
        } else {
            let mut members: Vec<usize> = (0..ranks).filter(|_| rng.random_bool(0.5)).collect();
            if members.is_empty() {
                members.push(rank);
            }
            let members: Vec<_> = members.into_iter().map(|r| (r, rng.random_range(0..8))).collect();
            let contention = if rng.random_bool(0.3) { rng.random_range(1..5) * 1_000_000 } else { 0 };
            s.comm(&members, time, contention, memory);
            members.into_iter().map(|m| m.0).collect()
        };
        for r in touched {
            let class = MemoryClass::ALL[rng.random_range(0..5)];
            let bytes = rng.random_range(0..1000);
            s.memory(r, MemoryWhen::AllocAtStart, class, bytes + 5);
            s.memory(r, MemoryWhen::FreeAtEnd, class, bytes);
            s.memory(r, MemoryWhen::FreeAtStart, class, 3);
        }
    }
    s.finish()
}

/// The random world of a seed twice: as it was made, and as the engine plays it on a small tier (unless that is too
/// small), where its communicators contend for one resource.
pub fn both(seed: u64) -> impl Iterator<Item = Scenario> {
    let mut played = random(seed);
    played.world.tiers[0].capacity = Bytes(1_000_000 * played.world.ranks.len() as u64 + 2_000);
    let played = stepsim_core::engine::run(&played.world).ok().map(|record| Scenario { record, ..played });
    [random(seed)].into_iter().chain(played)
}
