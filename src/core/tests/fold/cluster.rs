//! Training jobs on clusters with shared NICs and an oversubscribed spine, as worlds: made directly, without topology
//! or plan, so that a test can bend every part of them.

use std::collections::{BTreeMap, VecDeque};

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stepsim_core::ids::{CommId, OpId, ProgramId, RankId, ResourceId, TierId, TransferId};
use stepsim_core::program::{
    Action, BEHIND, Edit, Flow, MemoryClass, MemoryEffect, MemoryWhen, OpInfo, Phase, Program,
    ProgramBuilder, Span, StreamKind, Work, World,
};
use stepsim_core::units::{Bandwidth, Bytes, Time};

/// How transfers of one kind play out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fidelity {
    /// A fixed time.
    Fixed,
    /// Two phases over the whole group, round it one way and then the other.
    Phases,
    /// A flow for every hop and step.
    Graph,
}

/// Kinds of transfers, in the order of `Layout::fidelity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Tensor,
    Data,
    Context,
    Pipeline,
    CopyIn,
    CopyOut,
}

/// A cluster and the job on it. Ranks are numbered tensor first, then context, data, pipeline.
#[derive(Clone, Debug)]
pub struct Layout {
    pub tp: u32,
    pub cp: u32,
    pub dp: u32,
    pub pp: u32,
    pub gpus_per_node: u32,
    pub gpus_per_nic: u32,
    pub nodes_per_leaf: u32,
    pub layers: u32,
    pub micro_batches: u32,
    /// Groups of data parallelism have the profile of those of tensor parallelism.
    pub data_as_tensor: bool,
    /// Every rank has two slots more: one names some communicator, one none.
    pub unused_slots: bool,
    pub fidelity: [Fidelity; 6],
    /// Prefetched layers that fit into device memory.
    pub device_layers: u64,
    /// Offloaded layers that fit into the memory of one host, shared by its devices.
    pub host_layers: u64,
    /// A node whose first NIC has 37 instead of 50 GB/s.
    pub slow_nic: Option<u32>,
    /// A rank whose kernels take 1.7 times as long.
    pub slow_rank: Option<u32>,
    /// Ranks with jitter, seeded by their number modulo this.
    pub jitter_period: Option<u64>,
    /// Kernels become this many thousandths longer beside communication.
    pub slowdown: u16,
    /// Bandwidth of each device's memory, which copies and kernels share; 0: unlimited.
    pub memory_gbps: u32,
    /// Durations are few and round, so that much happens at the same instant.
    pub ties: bool,
    /// Of the durations, bytes, latencies and limits.
    pub seed: u64,
}

const WEIGHTS: u64 = 1 << 28;
const SAVED: u64 = 1 << 27;

impl Layout {
    pub fn ranks(&self) -> u32 {
        self.tp * self.cp * self.dp * self.pp
    }
    /// The world of this layout.
    pub fn world(&self) -> World {
        let mut maker = Maker {
            layout: self,
            rng: ChaCha8Rng::seed_from_u64(self.seed),
            world: World::default(),
            up: vec![],
            nic: vec![],
            leaf: vec![],
            host: vec![],
            memory: vec![],
            bindings: vec![BTreeMap::new(); self.ranks() as usize],
        };
        maker.machine();
        maker.profiles();
        maker.communicators();
        maker.bind();
        maker.world
    }
}

/// Resources, and how many times each is crossed.
type Path = Vec<(ResourceId, u32)>;

struct Maker<'l> {
    layout: &'l Layout,
    rng: ChaCha8Rng,
    world: World,
    /// Outgoing resource; the incoming one is the next.
    up: Vec<u32>,
    nic: Vec<u32>,
    leaf: Vec<u32>,
    host: Vec<u32>,
    /// Bandwidth of the device memories.
    memory: Vec<ResourceId>,
    /// Communicator of each use that a rank makes of one.
    bindings: Vec<BTreeMap<&'static str, CommId>>,
}

impl Maker<'_> {
    /// A duration below `most` picoseconds.
    fn time(&mut self, most: u64) -> u64 {
        if self.layout.ties { most / 3 * self.rng.random_range(0..3) } else { self.rng.random_range(0..most) }
    }
    fn pair(&mut self, gbps: f64) -> u32 {
        let [first, _] = [(); 2].map(|()| self.world.add_resource(Bandwidth::from_gbps(gbps)));
        first.0
    }
    fn machine(&mut self) {
        let l = self.layout;
        if l.jitter_period.is_some() {
            self.world.set_jitter(vec![0.93, 1.0, 1.0, 1.21]);
        }
        let nodes = l.ranks().div_ceil(l.gpus_per_node);
        self.up = (0..l.ranks()).map(|_| self.pair(450.0)).collect();
        for node in 0..nodes {
            for n in 0..l.gpus_per_node.div_ceil(l.gpus_per_nic) {
                let slow = n == 0 && l.slow_nic == Some(node);
                let nic = self.pair(if slow { 37.0 } else { 50.0 });
                self.nic.push(nic);
            }
            let host = self.pair(96.0);
            self.host.push(host);
        }
        if l.memory_gbps > 0 {
            let memory = Bandwidth::from_gbps(f64::from(l.memory_gbps));
            self.memory = (0..l.ranks()).map(|_| self.world.add_resource(memory)).collect();
        }
        self.leaf = (0..nodes.div_ceil(l.nodes_per_leaf)).map(|_| self.pair(130.0)).collect();
        for _ in 0..l.ranks() {
            self.world.add_tier("hbm", Bytes(l.device_layers * WEIGHTS));
        }
        for _ in 0..nodes {
            self.world.add_tier("host", Bytes(l.host_layers * SAVED));
        }
    }
    /// Resources from one device to another, or between a device and its host's memory.
    fn route(&self, from: u32, to: u32) -> Vec<u32> {
        let l = self.layout;
        let (a, b) = (from / l.gpus_per_node, to / l.gpus_per_node);
        if a == b {
            return vec![self.up[from as usize], self.up[to as usize] + 1];
        }
        let nics = l.gpus_per_node.div_ceil(l.gpus_per_nic);
        let nic =
            |rank: u32, node: u32| self.nic[(node * nics + rank % l.gpus_per_node / l.gpus_per_nic) as usize];
        let mut route = vec![nic(from, a), nic(to, b) + 1];
        let leaf = |node: u32| self.leaf[(node / l.nodes_per_leaf) as usize];
        if leaf(a) != leaf(b) {
            route.extend([leaf(a), leaf(b) + 1]);
        }
        route
    }
    fn path(&self, hops: &[(u32, u32)]) -> Path {
        let mut crossings = BTreeMap::new();
        for &(from, to) in hops {
            self.route(from, to).into_iter().for_each(|r| *crossings.entry(ResourceId(r)).or_insert(0) += 1);
        }
        crossings.into_iter().collect()
    }
    /// A communicator of `members`, each of which knows it by a name.
    fn comm(&mut self, kind: Kind, members: &[(u32, &'static str)], paths: &[Path]) {
        let ranks: Vec<RankId> = members.iter().map(|m| RankId(m.0)).collect();
        let paths: Vec<&[(ResourceId, u32)]> = paths.iter().map(Vec::as_slice).collect();
        let as_tensor = kind == Kind::Data && self.layout.data_as_tensor;
        let profile = if as_tensor { Kind::Tensor } else { kind };
        let id = self.world.add_comm(profile as u32, &ranks, &paths);
        for &(rank, name) in members {
            self.bindings[rank as usize].insert(name, id);
        }
    }
    /// Path 0 goes round, path 1 goes round the other way, path 2 + i is hop i.
    fn ring(&mut self, kind: Kind, name: &'static str, members: &[u32]) {
        let n = members.len();
        let forth: Vec<_> = (0..n).map(|i| (members[i], members[(i + 1) % n])).collect();
        let back: Vec<_> = forth.iter().map(|&(a, b)| (b, a)).collect();
        let named: Vec<_> = members.iter().map(|&m| (m, name)).collect();
        let mut paths = vec![self.path(&forth), self.path(&back)];
        if self.layout.fidelity[kind as usize] == Fidelity::Graph {
            paths.extend(forth.iter().map(|&hop| self.path(&[hop])));
        }
        self.comm(kind, &named, &paths);
    }
    /// Number of paths of a channel or copy, all alike: what `flow` and `graph` refer to.
    fn ways(&self, kind: Kind) -> usize {
        if self.layout.fidelity[kind as usize] == Fidelity::Graph { 3 } else { 2 }
    }
    /// All paths are all the way from one to the other.
    fn channel(&mut self, kind: Kind, from: (u32, &'static str), to: (u32, &'static str)) {
        let paths = vec![self.path(&[(from.0, to.0)]); self.ways(kind)];
        self.comm(kind, &[from, to], &paths);
    }
    fn communicators(&mut self) {
        let l = self.layout;
        let rank = |t: u32, c: u32, d: u32, p: u32| ((p * l.dp + d) * l.cp + c) * l.tp + t;
        for p in 0..l.pp {
            for (d, c) in (0..l.dp).flat_map(|d| (0..l.cp).map(move |c| (d, c))) {
                let group: Vec<_> = (0..l.tp).map(|t| rank(t, c, d, p)).collect();
                self.ring(Kind::Tensor, "tp", &group);
            }
            for (c, t) in (0..l.cp).flat_map(|c| (0..l.tp).map(move |t| (c, t))) {
                let group: Vec<_> = (0..l.dp).map(|d| rank(t, c, d, p)).collect();
                self.ring(Kind::Data, "dp", &group);
                for d in 0..l.dp {
                    if l.cp > 1 {
                        let next = rank(t, (c + 1) % l.cp, d, p);
                        self.channel(Kind::Context, (rank(t, c, d, p), "cp to"), (next, "cp from"));
                    }
                    if p + 1 < l.pp {
                        let next = rank(t, c, d, p + 1);
                        self.channel(Kind::Pipeline, (rank(t, c, d, p), "pp to"), (next, "pp from"));
                    }
                }
            }
        }
        for rank in 0..l.ranks() {
            let host = self.host[(rank / l.gpus_per_node) as usize];
            for (kind, name, side) in [(Kind::CopyIn, "h2d", 0), (Kind::CopyOut, "d2h", 1)] {
                let links = [(host + side, 1), (self.up[rank as usize] + 1 - side, 2)];
                let mut crossings = BTreeMap::from(links.map(|(link, times)| (ResourceId(link), times)));
                crossings.extend(self.memory.get(rank as usize).map(|memory| (*memory, 1)));
                let paths = vec![crossings.into_iter().collect(); self.ways(kind)];
                self.comm(kind, &[(rank, name)], &paths);
            }
        }
    }

    fn flow(&mut self, path: u32) -> Flow {
        let latency = Time(self.time(5_000_000) * u64::from(self.rng.random_bool(0.7)));
        let bytes = if self.rng.random_bool(0.1) { 0.0 } else { self.rng.random_range(1e3..3e7_f64).round() };
        let rate_limit =
            if self.rng.random_bool(0.3) { self.rng.random_range(1e9..6e10) } else { f64::INFINITY };
        Flow { latency, bytes, rate_limit, path }
    }
    /// Two transfers of a kind over `hops` hops.
    fn profiles(&mut self) {
        let l = self.layout;
        let hops = [l.tp, l.dp, 1, 1, 1, 1];
        for (fidelity, hops) in l.fidelity.into_iter().zip(hops) {
            let actions = [(); 2].map(|()| {
                let action = match fidelity {
                    Fidelity::Fixed => Action::Fixed(Time(self.time(90_000_000))),
                    Fidelity::Phases => Action::Phases(vec![self.flow(0), self.flow(1)]),
                    Fidelity::Graph => self.graph(hops),
                };
                self.world.add_action(action)
            });
            self.world.add_profile(actions);
        }
    }
    /// Up to three rounds over the hops, up to three equal flows on each. In later rounds a hop waits for itself and
    /// the hop before, round the group or only along it; a hop may also have to wait for one far away. Where links
    /// are queues, it queues behind itself rather than wait.
    fn graph(&mut self, hops: u32) -> Action {
        let (rounds, copies) = (self.rng.random_range(1..4u32), self.rng.random_range(1..4u32));
        let (closed, far) = (self.rng.random_bool(0.7), self.rng.random_bool(0.2));
        // Along a line the first hop waits for nothing while the others do: a class of its own, and so all of them.
        let queues = closed && self.layout.seed % 2 == 1;
        let (mut flows, mut parents, mut parent_ids) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let kind = self.flow(0);
            for (hop, copy) in (0..hops).flat_map(|hop| (0..copies).map(move |copy| (hop, copy))) {
                let before = |hop: u32| ((round - 1) * hops + hop) * copies + copy;
                let start = parent_ids.len() as u32;
                if round > 0 {
                    parent_ids.push(before(hop) | if queues { BEHIND } else { 0 });
                    if hops > 1 && (closed || hop > 0) {
                        parent_ids.push(before((hop + hops - 1) % hops));
                    }
                    if far {
                        parent_ids.push(before(hops / 2));
                    }
                }
                parents.push(Span { start, len: parent_ids.len() as u32 - start });
                flows.push(Flow { path: 2 + hop, ..kind });
            }
        }
        Action::Graph { flows, parents, parent_ids }
    }

    /// One program per stage; a rank's slots are its uses of communicators in order of their names.
    fn bind(&mut self) {
        let l = self.layout;
        let per_stage = l.tp * l.cp * l.dp;
        for rank in 0..l.ranks() {
            let names: Vec<&'static str> = self.bindings[rank as usize].keys().copied().collect();
            if rank % per_stage == 0 {
                let program = self.program(&names);
                self.world.add_program(program);
            }
            let unused = if l.unused_slots { 2 } else { 0 };
            let id = self.world.add_rank(ProgramId(rank / per_stage), names.len() as u32 + unused);
            let bound = self.bindings[rank as usize].values().copied();
            let any = l.unused_slots.then_some(CommId(rank % 3));
            for (slot, comm) in (0..).zip(bound.chain(any)) {
                self.world.bind(id, slot, comm);
            }
            let host = l.ranks() + rank / l.gpus_per_node;
            self.world.set_tiers(id, &[rank, host].map(TierId));
            if let Some(memory) = self.memory.get(rank as usize) {
                self.world.set_memory(id, &[(*memory, 1)]);
            }
            if l.slow_rank == Some(rank) {
                self.world.edit(&Edit::SlowRank(id, 1.7));
            }
            self.world.set_jitter_seed(id, l.jitter_period.map_or(0, |n| u64::from(rank) % n));
        }
    }
    fn program(&mut self, names: &[&'static str]) -> Program {
        let mut p = StageProgram { names, ..StageProgram::default() };
        let compute = p.stream(StreamKind::Compute);
        for name in names {
            let kind = match *name {
                "tp" => StreamKind::Tensor,
                "dp" => StreamKind::Data,
                "cp to" | "cp from" => StreamKind::Context,
                "pp to" => StreamKind::PipelineSend,
                "pp from" => StreamKind::PipelineRecv,
                "h2d" => StreamKind::CopyIn,
                _ => StreamKind::CopyOut,
            };
            let stream = p.stream(kind);
            p.streams.push(stream);
        }
        for micro_batch in 0..self.layout.micro_batches {
            let last = micro_batch + 1 == self.layout.micro_batches;
            let mut before = p.comm("pp from", 0, &[]);
            for layer in 0..self.layout.layers {
                before = self.layer(&mut p, compute, before, layer % 2, last);
            }
            p.comm("pp to", 0, before.as_slice());
        }
        while let Some(offload) = p.offloaded.pop_front() {
            let kernel = p.kernel(compute, self.time(90_000_000), &[offload]);
            p.builder.memory(kernel, freed(1, SAVED));
        }
        p.builder.finish()
    }
    /// Prefetched weights, kernel, context exchange, kernel, tensor collective; the result is offloaded until two
    /// layers on, and gradients are reduced in the last micro-batch.
    fn layer(
        &mut self,
        p: &mut StageProgram,
        compute: u16,
        before: Option<OpId>,
        odd: u32,
        last: bool,
    ) -> Option<OpId> {
        let mut waits: Vec<OpId> = before.into_iter().collect();
        let fetched = p.comm("h2d", odd, &[]);
        fetched.iter().for_each(|op| p.builder.memory(*op, taken(0, WEIGHTS)));
        waits.extend(fetched);
        let reuse = if p.offloaded.len() >= 2 { p.offloaded.pop_front() } else { None };
        waits.extend(reuse);
        let kernel = p.kernel(compute, self.time(90_000_000), &waits);
        p.builder.slowdown(kernel, self.layout.slowdown);
        if reuse.is_some() {
            p.builder.memory(kernel, freed(1, SAVED));
        }
        let sent = p.comm("cp to", odd, &[kernel]);
        let got = p.comm("cp from", odd, &[kernel]);
        let waits: Vec<OpId> = got.into_iter().chain(sent).collect();
        let kernel = p.kernel(compute, self.time(90_000_000), &waits);
        p.builder.slowdown(kernel, self.layout.slowdown);
        p.builder.memory(kernel, freed(0, WEIGHTS));
        let reduced = p.comm("tp", odd, &[kernel]);
        let offload = p.comm("d2h", odd, &[kernel]);
        offload.iter().for_each(|op| p.builder.memory(*op, taken(1, SAVED)));
        p.offloaded.extend(offload);
        if last {
            p.comm("dp", odd, &[kernel]);
        }
        reduced
    }
}

fn taken(tier: u8, bytes: u64) -> MemoryEffect {
    MemoryEffect { when: MemoryWhen::AllocAtStart, class: MemoryClass::Weights, tier, bytes }
}

fn freed(tier: u8, bytes: u64) -> MemoryEffect {
    MemoryEffect { when: MemoryWhen::FreeAtEnd, ..taken(tier, bytes) }
}

#[derive(Default)]
struct StageProgram<'n> {
    builder: ProgramBuilder,
    names: &'n [&'static str],
    /// Stream of each slot.
    streams: Vec<u16>,
    /// Copies to the host whose bytes are still there.
    offloaded: VecDeque<OpId>,
}

impl StageProgram<'_> {
    fn stream(&mut self, kind: StreamKind) -> u16 {
        self.builder.stream(kind)
    }
    fn op(&mut self, stream: u16, work: Work, waits: &[OpId]) -> OpId {
        let info = OpInfo::of(
            "op",
            Phase::Forward,
            match work {
                // 5 to 35 GB/s, by the kernel's time.
                Work::Compute { time } => time.s() * 5e9 * (1 + time.0 % 7) as f64,
                Work::Comm { .. } => 0.0,
            },
        );
        let info = self.builder.info(info);
        self.builder.op(stream, work, waits, info, 0)
    }
    fn kernel(&mut self, stream: u16, ps: u64, waits: &[OpId]) -> OpId {
        self.op(stream, Work::Compute { time: Time(ps) }, waits)
    }
    /// A transfer on the communicator of that name, if the rank has one.
    fn comm(&mut self, name: &str, transfer: u32, waits: &[OpId]) -> Option<OpId> {
        let slot = self.names.iter().position(|n| *n == name)?;
        let work = Work::Comm { slot: slot as u16, transfer: TransferId(transfer) };
        Some(self.op(self.streams[slot], work, waits))
    }
}
