//! The host of a rank: launches become ops of a stream of its own.
//!
//! H_i is when launch i returns, S_i and E_i when its op starts and ends, h the time that the launch holds the host, l
//! the latency of an idle stream, g the gap between two kernels, Q the depth of the queue, s the price of a wait:
//! ```text
//! H_i = max(H_{i-1} + h_i, S_{i-Q})
//! S_i = max(H_i + l, E_{i-1} + g, what it waits for)
//! read back: H = max(H, E of what is read) + s
//! ```
//! A host that blocks launches i+1 behind E_i. Ops are launched in the order in which they were written. The gap is at
//! the end of every kernel; the latency belongs to the host's stream ([`stepsim_core::program::Stream`]); "S_j" stands
//! for all ops that op j waits for. Ops launched as one graph wait for one launch.
//!
//! Hazard: a launch that a full queue held up starts its op without the latency, which differs only where a whole queue
//! of kernels takes less than the latency.

use rustc_hash::{FxHashMap, FxHashSet};

use stepsim_core::ids::OpId;
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::program::{NO_MICRO_BATCH, Op, OpInfo, Phase, Program, ProgramBuilder, StreamKind, Work};
use stepsim_core::units::Time;
use stepsim_spec::stack::{GraphScope, HostRead, HostSpec, LayerHosts};

/// The overheads of device and model, beside the stack's host.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Follows every kernel.
    pub gap: Time,
    /// Factor on all times of the host.
    pub slowness: f64,
    /// Experts of a rank by layer, which grouped products are launched for one by one; the last stands for all layers
    /// behind it.
    pub groups: Vec<u64>,
    /// The time added to the launch of a tensor-parallel collective, in microseconds.
    pub tensor_us: f64,
    /// The framework's work before the first kernel of a layer's pass.
    pub layers: LayerHosts,
}

/// The ops that the host waits for before it launches on.
#[derive(Clone, Copy, Debug)]
pub struct HostWait {
    /// Why.
    pub what: HostRead,
    /// The op whose end it waits for.
    pub of: OpId,
    /// The op that it has launched last by then.
    pub behind: OpId,
}

impl HostWait {
    /// As soon as the op is launched.
    pub fn at_once(what: HostRead, op: OpId) -> HostWait {
        HostWait { what, of: op, behind: op }
    }
}

/// The program with its launches; the host reads back the results of `reads`, which are in the order of their launches.
pub fn launch(program: &Program, host: &HostSpec, setting: &Setting, reads: &[HostWait]) -> Program {
    let mut b = ProgramBuilder::with_room_of(program, program.ops.len());
    for stream in &program.streams {
        b.stream(stream.kind);
    }
    for info in &program.infos {
        b.info(info.clone());
    }
    program.resident.iter().for_each(|effect| b.resident(*effect));
    let stream = b.stream(StreamKind::Host);
    b.latency(stream, Time::from_us(host.latency_us));
    let queues = vec![Vec::new(); program.streams.len()];
    let mut launcher = Launcher {
        program,
        host,
        gap: setting.gap,
        setting,
        stream,
        b,
        queues,
        room: Vec::new(),
        group: Vec::new(),
        waited: vec![None; program.streams.len() + 1],
        waits: Vec::new(),
        graph: None,
        last: vec![None; program.streams.len()],
        layers: FxHashMap::default(),
        with_experts: program.infos.iter().filter(|i| is_grouped(i)).filter_map(|i| i.layer).collect(),
        infos: Vec::new(),
    };
    let mut reads = reads.iter().peekable();
    if !reads.clone().any(|read| read.what == HostRead::Loss) {
        launcher.work("step", Phase::Forward, host.step_us, &[]);
    }
    let mut moved = Vec::with_capacity(program.ops.len());
    let mut rounds = program.rounds.iter().peekable();
    for (i, op) in program.ops.iter().enumerate() {
        let new = launcher.op(op, &moved);
        moved.push(new);
        while let Some(read) = reads.next_if(|read| read.behind.index() == i) {
            let of = read.of.index();
            launcher.read(read.what, &program.ops[of], moved[of]);
        }
        if rounds.next_if(|ops| **ops as usize == i + 1).is_some() {
            launcher.b.end_round();
        }
    }
    launcher.b.finish()
}

struct Launcher<'a> {
    program: &'a Program,
    host: &'a HostSpec,
    gap: Time,
    setting: &'a Setting,
    /// The host's.
    stream: u16,
    b: ProgramBuilder,
    /// By stream: what was launched there, each with the op before it on its stream.
    queues: Vec<Vec<(OpId, Option<OpId>)>>,
    /// The ops that the next launch waits for, so that there is room in the queue.
    room: Vec<OpId>,
    /// Messages between stages that follow one another: one launch of the library (`ncclGroupStart`), so that a host
    /// that blocks waits for them together.
    group: Vec<OpId>,
    /// By stream: the last op that the host has waited for.
    waited: Vec<Option<OpId>>,
    /// The ops that the op at hand waits for.
    waits: Vec<OpId>,
    /// The graph under way.
    graph: Option<LaunchGraph>,
    /// By stream: what was launched there last, and for which micro-batch.
    last: Vec<Option<(u32, u32)>>,
    /// Layer and micro-batch of the kernel of a pass that was launched last, and of its last product of experts: passes
    /// of two micro-batches may take turns.
    layers: FxHashMap<(Phase, bool), (u32, u32)>,
    /// Layers that have experts.
    with_experts: FxHashSet<u32>,
    /// Descriptions of the host's ops: a few.
    infos: Vec<((&'static str, Phase), u32)>,
}

/// True for a product of several experts.
fn is_grouped(info: &OpInfo) -> bool {
    info.class.is_some_and(KernelClass::is_grouped)
}

/// Ops that are launched together.
struct LaunchGraph {
    /// The key that they have in common.
    key: (Option<Phase>, Option<u32>, u32),
    launch: OpId,
    /// Streams whose ops wait for the launch already.
    streams: Vec<u16>,
}

impl Launcher<'_> {
    /// Pushes an op of the program behind its launch.
    fn op(&mut self, op: &Op, moved: &[OpId]) -> OpId {
        let mut waits = std::mem::take(&mut self.waits);
        waits.extend(self.program.waits[op.waits.range()].iter().map(|w| moved[w.index()]));
        let mut work = op.work;
        let mut queued = false;
        if let Some(time) = self.launch_us(op) {
            let time = if self.is_again(op) { time.min(self.host.launch_us.again) } else { time };
            let time = time + self.layer_us(op);
            if !self.is_message(op) {
                self.room.append(&mut self.group);
            }
            let (launch, own) = self.launch(op, time);
            queued = own;
            waits.extend(launch);
            if let Work::Compute { time } = &mut work {
                let graph = self.graph.is_some();
                *time += if graph {
                    self.gap.min(Time::from_us(self.host.graphs.kernel_gap_us))
                } else {
                    self.gap
                };
            }
        }
        let before = self.b.recent(op.stream, 1);
        let new = self.b.op(op.stream, work, &waits, op.info, op.micro_batch);
        waits.clear();
        self.waits = waits;
        self.b.slowdown(new, op.slowdown);
        self.program.memory[op.memory.range()].iter().for_each(|effect| self.b.memory(new, *effect));
        if queued && self.host.blocking {
            let waited = if self.is_message(op) { &mut self.group } else { &mut self.room };
            waited.push(new);
        } else if queued {
            self.queue(op.stream, new, before);
        }
        new
    }

    /// True for a message between pipeline stages.
    fn is_message(&self, op: &Op) -> bool {
        let info = &self.program.infos[op.info as usize];
        match self.program.streams[usize::from(op.stream)].kind {
            StreamKind::PipelineSend | StreamKind::PipelineRecv => true,
            // A send that holds the compute stream.
            StreamKind::Compute => matches!(op.work, Work::Comm { .. }) && info.name.starts_with("send "),
            _ => false,
        }
    }

    /// How long the launch of an op holds the host by itself; `None` for an op without a launch.
    fn launch_us(&self, op: &Op) -> Option<f64> {
        let l = &self.host.launch_us;
        match (op.work, self.program.streams[usize::from(op.stream)].kind) {
            (Work::Compute { time: Time::ZERO }, _) | (_, StreamKind::Host) => None,
            (Work::Comm { .. }, StreamKind::CopyIn | StreamKind::CopyOut) => Some(l.copy),
            (Work::Comm { .. }, StreamKind::Tensor) => Some(l.collective + self.setting.tensor_us),
            (Work::Comm { .. }, _) => Some(l.collective),
            (Work::Compute { .. }, _) => {
                let info = &self.program.infos[op.info as usize];
                let of_layer = info.layer.and_then(|layer| self.setting.groups.get(layer as usize));
                let groups = of_layer.or(self.setting.groups.last()).copied().unwrap_or(1);
                Some(l.of_groups(info.class, groups))
            }
        }
    }

    /// The framework's time before the first kernel of a layer's pass, and before the first product of its experts.
    fn layer_us(&mut self, op: &Op) -> f64 {
        let info = &self.program.infos[op.info as usize];
        let Some(layer) = info.layer.filter(|_| info.class.is_some()) else { return 0.0 };
        let (phase, at) = (info.phase, (layer, op.micro_batch));
        let mut first = |experts: bool| self.layers.insert((phase, experts), at) != Some(at);
        let mut us = 0.0;
        if first(false) {
            let experts = self.with_experts.contains(&layer);
            us += self.setting.layers.of(experts).of(phase);
        }
        if is_grouped(info) && first(true) {
            us += self.host.expert_us.of(phase);
        }
        us
    }

    /// True if an op repeats the one before it on its stream, as pieces do.
    fn is_again(&mut self, op: &Op) -> bool {
        let last = self.last[usize::from(op.stream)].replace((op.info, op.micro_batch));
        let info = |i: u32| &self.program.infos[i as usize];
        last.is_some_and(|(before, micro_batch)| {
            let (a, b) = (info(before), info(op.info));
            before == op.info && micro_batch == op.micro_batch
                || (a.phase, a.layer, micro_batch, &a.name) == (b.phase, b.layer, op.micro_batch, &b.name)
        })
    }

    /// The launch that an op waits for, if no op before it on its stream does, and whether it is the op's own.
    fn launch(&mut self, op: &Op, time: f64) -> (Option<OpId>, bool) {
        let info = &self.program.infos[op.info as usize];
        let Some(key) = self.key(op, info) else {
            self.graph = None;
            return (Some(self.work("launch", info.phase, time, &[])), true);
        };
        if self.graph.as_ref().is_none_or(|graph| graph.key != key) {
            let launch = self.work("launch graph", info.phase, self.host.graphs.launch_us, &[]);
            self.graph = Some(LaunchGraph { key, launch, streams: vec![op.stream] });
            return (Some(launch), true);
        }
        let graph = self.graph.as_mut().expect("a graph with this key");
        let first = !graph.streams.contains(&op.stream);
        if first {
            graph.streams.push(op.stream);
        }
        (first.then_some(graph.launch), false)
    }

    /// The key that the ops of this op's graph have in common; `None` for an op that is launched by itself.
    fn key(&self, op: &Op, info: &OpInfo) -> Option<(Option<Phase>, Option<u32>, u32)> {
        let kind = self.program.streams[usize::from(op.stream)].kind;
        let inner = matches!(
            kind,
            StreamKind::Compute | StreamKind::Tensor | StreamKind::Context | StreamKind::Expert
        );
        let of_pass = inner && info.phase != Phase::Optimizer;
        // A backward pass and what it repeats are one graph.
        let phase = if info.phase == Phase::Recompute { Phase::Backward } else { info.phase };
        match self.host.graphs.scope {
            // Where the host reads how many rows each expert has, their products are known on the way only and not
            // captured; rows that are padded to a capacity are.
            GraphScope::Layer
                if of_pass && !(is_grouped(info) && self.host.reads.contains(&HostRead::ExpertCounts)) =>
            {
                Some((Some(phase), info.layer, op.micro_batch))
            }
            GraphScope::Pass if of_pass => Some((Some(phase), None, op.micro_batch)),
            GraphScope::Passes if info.phase != Phase::Optimizer => Some((None, None, 0)),
            GraphScope::Step => Some((None, None, 0)),
            _ => None,
        }
    }

    /// Notes a launched op; where the queue is full, the next launch waits for the start of the oldest one in it.
    fn queue(&mut self, stream: u16, op: OpId, before: Option<OpId>) {
        let queue = &mut self.queues[usize::from(stream)];
        queue.push((op, before));
        if let Some(at) = queue.len().checked_sub(self.host.queue as usize + 1) {
            let (oldest, before) = queue[at];
            for &wait in self.b.waits_of(oldest).iter().chain(&before) {
                if self.b.stream_of(wait) != self.stream {
                    self.room.push(wait);
                }
            }
        }
    }

    /// The host waits for an op whose result it reads.
    fn read(&mut self, what: HostRead, op: &Op, new: OpId) {
        let phase = self.program.infos[op.info as usize].phase;
        let more = match what {
            HostRead::Loss => self.host.step_us,
            HostRead::ExpertCounts => self.host.expert_counts_us,
            HostRead::GradientNorm | HostRead::Batch | HostRead::Passes | HostRead::Transfers => 0.0,
        };
        // A kernel ends with its gap, which the host does not wait for.
        let gap = matches!(op.work, Work::Compute { .. }).then_some(self.gap.us()).unwrap_or_default();
        self.graph = None;
        self.room.append(&mut self.group);
        // The host waits for the inputs of a pass together with all that it launched before.
        let of_kernels = matches!(what, HostRead::Batch | HostRead::Passes);
        let all = of_kernels || what == HostRead::Transfers;
        let streams = self.program.streams.iter().take_while(|_| all).enumerate();
        let compute = streams.filter(|(_, s)| s.kind == StreamKind::Compute);
        let before = compute.filter_map(|(stream, _)| self.b.recent(stream as u16, 1));
        let waits: Vec<OpId> = before.chain((!of_kernels).then_some(new)).collect();
        self.work("read back", phase, (self.host.synchronise_us + more - gap).max(0.0), &waits);
    }

    /// Pushes work of the host.
    fn work(&mut self, name: &'static str, phase: Phase, us: f64, waits: &[OpId]) -> OpId {
        let info = match self.infos.iter().find(|(what, _)| *what == (name, phase)) {
            Some((_, info)) => *info,
            None => {
                let info = self.b.info(OpInfo::of(name, phase, 0.0));
                self.infos.push(((name, phase), info));
                info
            }
        };
        self.room.extend(waits);
        // An op before one that it has waited for is over.
        self.room.retain(|wait| {
            let waited = &mut self.waited[usize::from(self.b.stream_of(*wait))];
            let is_later = waited.is_none_or(|before| *wait > before);
            *waited = (*waited).max(Some(*wait));
            is_later
        });
        let time = Time::from_us(us * self.host.slowness * self.setting.slowness);
        let op = self.b.op(self.stream, Work::Compute { time }, &self.room, info, NO_MICRO_BATCH);
        self.room.clear();
        op
    }
}
