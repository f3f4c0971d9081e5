//! Puts a timeline into a sink, process by process.

use std::io;

use rustc_hash::{FxHashMap, FxHashSet};

use super::arrows::{self, Arrows, End};
use super::critical::Step;
use super::rows::{Level, Piece, Rows};
use super::{Detail, Stall, Summary, Timeline, TracedRank, counters, names, passes, stalls};
use crate::analysis::memory;
use crate::engine::kernel_time;
use crate::ids::{OpId, RankId};
use crate::program::{Phase, Program, StreamKind, Work};
use crate::trace::writer::{Key, Kind, Sink, Slice, Thread, Unit, Value};
use crate::units::Time;

/// Places of the processes for stalls and for the critical path after the step's.
const STALLS: u64 = 2;
const CRITICAL: u64 = 3;
/// Place of the process for shared tiers after the step's.
const POOLS: u64 = 4;

/// A timeline on its way into a sink.
pub struct Layout<'a> {
    timeline: &'a Timeline<'a>,
    pub sink: &'a mut dyn Sink,
    keys: Keys,
    kinds: Kinds,
    next_tid: u64,
    /// Number of the next arrow.
    pub next_arrow: u64,
    /// What was written so far.
    pub summary: Summary,
    /// The ops of the rank at hand that lie on the critical path.
    on_path: FxHashSet<OpId>,
    /// By tier of the world, whether several ranks use it.
    shared: Vec<bool>,
    args: Vec<(Key, Value<'static>)>,
    ids: [Vec<u64>; 2],
}

/// Names of arguments that differ from slice to slice of one kind.
#[derive(Clone, Copy)]
struct Keys {
    tflops: Key,
    gbps: Key,
    group_size: Key,
    peer: Key,
    uncontended: Key,
    contention: Key,
    waited_for: Key,
    waited: [Key; 3],
    link: Key,
    sharers: Key,
    nominal: Key,
    noise: Key,
    interference: Key,
    critical: Key,
    slack: Key,
    rank: Key,
    ops: Key,
    micro_batch: Key,
    busy: Key,
    flops: Key,
    bytes: Key,
}

impl Keys {
    fn new(sink: &mut dyn Sink) -> io::Result<Keys> {
        Ok(Keys {
            tflops: sink.key("achieved_TFLOPps")?,
            gbps: sink.key("achieved_GBps")?,
            group_size: sink.key("group_size")?,
            peer: sink.key("peer_rank")?,
            uncontended: sink.key("uncontended_us")?,
            contention: sink.key("added_by_contention_us")?,
            waited_for: sink.key("waited_for")?,
            waited: [sink.key("waited_rank")?, sink.key("waited_layer")?, sink.key("waited_micro_batch")?],
            link: sink.key("link")?,
            sharers: sink.key("sharers")?,
            nominal: sink.key("nominal_us")?,
            noise: sink.key("slowed_by_noise_us")?,
            interference: sink.key("slowed_by_interference_us")?,
            critical: sink.key("critical")?,
            slack: sink.key("slack_us")?,
            rank: sink.key("rank")?,
            ops: sink.key("ops")?,
            micro_batch: sink.key("micro_batch")?,
            busy: sink.key("busy_us")?,
            flops: sink.key("flops")?,
            bytes: sink.key("bytes")?,
        })
    }
}

/// Kinds of slices, made when first needed.
#[derive(Default)]
struct Kinds {
    /// By program, description, row and step: what ops of all micro-batches have in common.
    ops: FxHashMap<(usize, u32, StreamKind, Option<u64>), Kind>,
    passes: FxHashMap<(String, &'static str, Option<u64>), Kind>,
    merged: FxHashMap<(StreamKind, Level, Phase, Option<u32>, u32), Kind>,
    stalls: FxHashMap<&'static str, Kind>,
    /// By program and description.
    critical: FxHashMap<(usize, u32), Kind>,
}

impl<'a> Layout<'a> {
    /// Nothing written yet but the names of arguments.
    pub fn new(timeline: &'a Timeline<'a>, sink: &'a mut dyn Sink) -> io::Result<Layout<'a>> {
        let keys = Keys::new(sink)?;
        // Threads are numbered in the order on screen, from a round number above all process numbers.
        let mut next_tid = 1000;
        while next_tid < timeline.world.ranks.len() as u64 + 6 {
            next_tid *= 10;
        }
        Ok(Layout {
            timeline,
            sink,
            keys,
            kinds: Kinds::default(),
            next_tid,
            next_arrow: 1,
            summary: Summary::default(),
            on_path: FxHashSet::default(),
            shared: memory::users(timeline.world).iter().map(|users| users.len() > 1).collect(),
            args: Vec::new(),
            ids: [Vec::new(), Vec::new()],
        })
    }

    fn thread(&mut self, pid: u64, name: &str) -> io::Result<Thread> {
        self.next_tid += 1;
        self.sink.thread(pid, self.next_tid, name)
    }

    /// The process with the slice that spans the step.
    pub fn step(&mut self) -> io::Result<()> {
        let pid = self.timeline.world.ranks.len() as u64 + 1;
        self.sink.process(pid, "step", 0)?;
        let thread = self.thread(pid, "step and run parameters")?;
        let kind = self.sink.kind("step", "step", &self.timeline.meta.values())?;
        let (start, stop) = self.timeline.window_ns();
        let end = self.timeline.record.step_end.round_ns().min(stop).max(start + 1);
        self.summary.slices += 1;
        self.sink.slice(thread, kind, &Slice { start, end, ..Slice::default() })?;
        self.steps(thread)?;
        if self.sink.counts_all_slices() {
            if self.timeline.stalls.is_some() {
                self.sink.process(pid + STALLS, "stalls", pid)?;
            }
            if !self.timeline.critical.is_empty() {
                self.sink.process(pid + CRITICAL, "critical path", pid + 1)?;
            }
        }
        Ok(())
    }

    /// Of a run of several steps, a slice for each in that of the run.
    fn steps(&mut self, thread: Thread) -> io::Result<()> {
        let (times, (from, until)) = (self.timeline.steps, self.timeline.window_ns());
        let mut ended = Time::ZERO;
        for (number, time) in (1..).zip(times).filter(|_| times.len() > 1) {
            let [start, end] = [ended, ended + *time].map(|at| at.round_ns().clamp(from, until));
            ended += *time;
            if start < end {
                let kind =
                    self.sink.kind(&format!("step {number}"), "round", &[("step", Value::Uint(number))])?;
                self.sink.slice(thread, kind, &Slice { start, end, ..Slice::default() })?;
                self.summary.slices += 1;
            }
        }
        Ok(())
    }

    /// A row of a rank for what is no activity of it: below its kernels, or in a process of its own that stands `after`
    /// the step's where viewers count all slices.
    fn aside(&mut self, traced: &TracedRank, name: &str, after: u64) -> io::Result<Thread> {
        if self.sink.counts_all_slices() {
            return self.thread(self.timeline.world.ranks.len() as u64 + 1 + after, &traced.name);
        }
        self.thread(u64::from(traced.rank.0) + 1, name)
    }

    /// The process of a rank; `ends` are its ops' ends of arrows between ranks, `held_up` those at its stalls, `path` what
    /// of the critical path it has.
    pub fn rank(
        &mut self,
        traced: &TracedRank,
        ends: &[End],
        held_up: &[(u32, u64)],
        path: &[Step],
    ) -> io::Result<()> {
        let timeline = self.timeline;
        let rows = Rows::new(timeline, traced);
        self.summary.too_short += rows.too_short;
        let pid = u64::from(traced.rank.0) + 1;
        self.sink.process(pid, &traced.name, pid)?;

        let held = timeline.stalls.map_or_else(Vec::new, |stalls| stalls(traced.rank));
        let mut threads = Vec::with_capacity(rows.rows.len());
        let kernels = rows.rows.iter().filter(|row| row.kind == StreamKind::Compute).count();
        for row in &rows.rows[..kernels] {
            threads.push(self.thread(pid, &row.name())?);
        }
        let path_thread = match path.is_empty() {
            true => None,
            false => Some(self.aside(traced, "critical path", CRITICAL)?),
        };
        let stall_thread = match held.is_empty() {
            true => None,
            false => Some(self.aside(traced, "stalls", STALLS)?),
        };
        for row in &rows.rows[kernels..] {
            threads.push(self.thread(pid, &row.name())?);
        }

        let mut arrows = arrows::within_rank(timeline, traced, &rows, self.next_arrow, ends);
        let mut stall_ends =
            stalls::within_rank(timeline, traced, &held, &rows, self.next_arrow, &mut arrows);
        stall_ends[1].extend_from_slice(held_up);
        stall_ends[1].sort_unstable();
        self.next_arrow += arrows.count;
        self.summary.arrows += arrows.count;
        self.on_path = path.iter().map(|step| step.link.op).collect();
        self.pieces(traced, &rows, &threads, &arrows)?;
        if let Some(thread) = self.sink.summary(pid) {
            self.overview(traced, &rows, thread)?;
        }
        if let Some(thread) = path_thread {
            self.path(traced, thread, path)?;
        }
        if let Some(thread) = stall_thread {
            self.stalls(traced, thread, &held, &stall_ends)?;
        }
        self.summary.counter_values += counters::memory(timeline, traced, pid, &self.shared, self.sink)?;
        for count in timeline.counts.iter().filter(|count| count.rank == traced.rank) {
            let track = self.sink.counter_track(pid, &count.name, "number", Unit::Number)?;
            let start = count.points.first().map_or(0, |point| point.1);
            let points = count.points.iter().skip(1).map(|(time, n)| (time.round_ns(), *n));
            let put = |ns, n| self.sink.counter(track, ns, Value::Uint(n));
            self.summary.counter_values += counters::write_steps(points, start, timeline.window_ns(), put)?;
        }
        Ok(())
    }

    fn pieces(
        &mut self,
        traced: &TracedRank,
        rows: &Rows,
        threads: &[Thread],
        arrows: &Arrows,
    ) -> io::Result<()> {
        let (mut out, mut into) = (arrows.out.as_slice(), arrows.into.as_slice());
        for (i, piece) in rows.pieces.iter().enumerate() {
            let kind = self.kind(traced, rows, piece)?;
            self.arguments(traced, rows, piece);
            take_ids(&mut out, i as u32, &mut self.ids[0]);
            take_ids(&mut into, i as u32, &mut self.ids[1]);
            let (start, end) = (piece.start, piece.end);
            let slice = Slice { start, end, args: &self.args, out: &self.ids[0], into: &self.ids[1] };
            self.sink.slice(threads[piece.row as usize], kind, &slice)?;
        }
        self.summary.slices += rows.pieces.len() as u64;
        Ok(())
    }

    /// The passes of a rank's first row once more, on the rank itself.
    fn overview(&mut self, traced: &TracedRank, rows: &Rows, thread: Thread) -> io::Result<()> {
        for piece in rows.pieces.iter().filter(|piece| piece.level == Level::Pass && piece.row == 0) {
            let kind = self.pass(traced, rows, piece, "summary")?;
            let slice = Slice { start: piece.start, end: piece.end, ..Slice::default() };
            self.sink.slice(thread, kind, &slice)?;
            self.summary.slices += 1;
        }
        Ok(())
    }

    /// The kind of a pass.
    fn pass(
        &mut self,
        traced: &TracedRank,
        rows: &Rows,
        piece: &Piece,
        category: &'static str,
    ) -> io::Result<Kind> {
        let program = self.timeline.world.program_of(traced.rank);
        let parts = passes::parts(program, rows.ops_of(piece));
        let step = round(program, rows.ops_of(piece)[0]);
        let key = (names::pass(parts.iter().copied()), category, step);
        if let Some(kind) = self.kinds.passes.get(&key) {
            return Ok(*kind);
        }
        let mut args = Vec::with_capacity(4);
        let words = [("phase", "micro_batch"), ("second_phase", "second_micro_batch")];
        for ((phase, micro_batch), (phase_key, key)) in parts.into_iter().zip(words) {
            args.push((phase_key, Value::Text(phase.name())));
            args.extend(names::place_arguments(None, micro_batch).map(|(_, value)| (key, value)));
        }
        args.extend(step.map(|step| ("step", Value::Uint(step))));
        let kind = self.sink.kind(&key.0, category, &args)?;
        self.kinds.passes.insert(key, kind);
        Ok(kind)
    }

    /// Whether a piece is shown as one op, and not as a stretch of them.
    fn is_one_op(&self, rows: &Rows, piece: &Piece) -> bool {
        let of_kernels = rows.rows[piece.row as usize].kind == StreamKind::Compute;
        let alone = self.timeline.detail == Detail::Op || !of_kernels && rows.ops_of(piece).len() == 1;
        piece.level == Level::Op && alone
    }

    /// The kind of slice that a piece is.
    fn kind(&mut self, traced: &TracedRank, rows: &Rows, piece: &Piece) -> io::Result<Kind> {
        if piece.level == Level::Pass {
            return self.pass(traced, rows, piece, "pass");
        }
        let program = self.timeline.world.program_of(traced.rank);
        let number = self.timeline.world.ranks[traced.rank.index()].program.index();
        let row = rows.rows[piece.row as usize].kind;
        let ops = rows.ops_of(piece);
        let op = &program.ops[ops[0].index()];
        let info = &program.infos[op.info as usize];
        if self.is_one_op(rows, piece) {
            let key = (number, op.info, row, round(program, ops[0]));
            if let Some(kind) = self.kinds.ops.get(&key) {
                return Ok(*kind);
            }
            let name = names::op(row, info);
            let mut args = names::arguments(info);
            args.extend(key.3.map(|step| ("step", Value::Uint(step))));
            let kind = self.sink.kind(&name, row.name(), &args)?;
            self.kinds.ops.insert(key, kind);
            return Ok(kind);
        }
        let phase =
            names::merged(ops.iter().map(|op| program.infos[program.ops[op.index()].info as usize].phase));
        let layer = info.layer.filter(|_| self.timeline.detail != Detail::Phase);
        let key = (row, piece.level, phase, layer, op.micro_batch);
        if let Some(kind) = self.kinds.merged.get(&key) {
            return Ok(*kind);
        }
        let name = match row {
            StreamKind::Compute => names::layer(layer, phase),
            _ => format!("{} {}", row.name(), phase.name()),
        };
        let category = if piece.level == Level::Layer { "layer" } else { row.name() };
        let phase = [("phase", Value::Text(phase.name()))];
        let args: Vec<_> = phase.into_iter().chain(names::place_arguments(layer, op.micro_batch)).collect();
        let kind = self.sink.kind(&name, category, &args)?;
        self.kinds.merged.insert(key, kind);
        Ok(kind)
    }

    /// Fills `self.args` with what differs between slices of one kind.
    fn arguments(&mut self, traced: &TracedRank, rows: &Rows, piece: &Piece) {
        let (world, record) = (self.timeline.world, self.timeline.record);
        let program = world.program_of(traced.rank);
        let ops = rows.ops_of(piece);
        let (mut flops, mut bytes, mut busy) = (0.0, 0.0, Time::ZERO);
        for id in ops {
            let info = &program.infos[program.ops[id.index()].info as usize];
            let (start, end) = record.span(traced.source, *id);
            flops += info.flops;
            bytes += info.bytes;
            busy += end - start;
        }
        let keys = self.keys;
        self.args.clear();
        if self.is_one_op(rows, piece) {
            let micro_batch = names::micro_batch(program.ops[ops[0].index()].micro_batch);
            self.args.extend(micro_batch.map(|m| (keys.micro_batch, m)));
        }
        if ops.len() > 1 || piece.level != Level::Op {
            self.args.push((keys.ops, Value::Uint(ops.len() as u64)));
            self.args.push((keys.busy, Value::Milli(busy.round_ns())));
            self.args.extend((flops > 0.0).then_some((keys.flops, Value::Float(flops))));
            self.args.extend((bytes > 0.0).then_some((keys.bytes, Value::Float(bytes))));
        }
        // FLOP per picosecond is TFLOP/s; bytes per picosecond, a thousand GB/s.
        let per_ps = |amount: f64| amount / busy.0 as f64;
        if flops > 0.0 {
            self.args.push((keys.tflops, Value::Milli((per_ps(flops) * 1e3).round() as u64)));
        }
        if bytes > 0.0 {
            self.args.push((keys.gbps, Value::Milli((per_ps(bytes) * 1e6).round() as u64)));
        }
        if let ([op], Level::Op) = (ops, piece.level) {
            match program.ops[op.index()].work {
                Work::Compute { time } => self.kernel(traced, *op, time, busy),
                Work::Comm { .. } => self.communication(traced, *op, busy),
            }
            if let Some(slack) = self.timeline.slack {
                self.args.push((keys.slack, Value::Milli(slack(traced.source, *op).round_ns())));
            }
            if self.on_path.contains(op) {
                self.args.push((keys.critical, Value::Uint(1)));
            }
        }
    }

    /// Arguments of one kernel that did not take its nominal time: what noise and what its neighbours added.
    fn kernel(&mut self, traced: &TracedRank, op: OpId, nominal: Time, took: Time) {
        if took == nominal {
            return;
        }
        let alone = kernel_time(self.timeline.world, traced.rank, op, nominal.0);
        let us = |from: u64, to: u64| (to as f64 - from as f64) / 1e6;
        let (noise, interference) = (us(nominal.0, alone), us(alone, took.0));
        self.args.push((self.keys.nominal, Value::Float(us(0, nominal.0))));
        self.args.extend((noise != 0.0).then_some((self.keys.noise, Value::Float(noise))));
        self.args
            .extend((interference != 0.0).then_some((self.keys.interference, Value::Float(interference))));
    }

    /// Arguments of one communication op: with whom, and what sharing added.
    fn communication(&mut self, traced: &TracedRank, id: OpId, busy: Time) {
        let world = self.timeline.world;
        let program = world.program_of(traced.rank);
        let op = &program.ops[id.index()];
        let Work::Comm { slot, .. } = op.work else { return };
        let members = world.members_of(world.slots_of(traced.rank)[slot as usize]);
        let row = program.streams[op.stream as usize].kind;
        match (members, direction(row, &program.infos[op.info as usize].name)) {
            ([a, b], Some(_)) => {
                let peer = if *a == traced.rank { b } else { a };
                self.args.push((self.keys.peer, Value::Uint(u64::from(peer.0))));
            }
            ([] | [_], _) => {}
            _ => self.args.push((self.keys.group_size, Value::Uint(members.len() as u64))),
        }
        if let Some(alone) = self.timeline.uncontended.and_then(|alone| alone(traced.rank, id)) {
            let added = busy.saturating_sub(alone);
            self.args.push((self.keys.uncontended, Value::Milli(alone.round_ns())));
            self.args.push((self.keys.contention, Value::Milli(added.round_ns())));
        }
    }

    /// What of the critical path lies on a rank.
    fn path(&mut self, traced: &TracedRank, thread: Thread, path: &[Step]) -> io::Result<()> {
        let program = self.timeline.world.program_of(traced.rank);
        let number = self.timeline.world.ranks[traced.rank.index()].program.index();
        for step in path {
            let op = &program.ops[step.link.op.index()];
            let key = (number, op.info);
            let kind = match self.kinds.critical.get(&key) {
                Some(kind) => *kind,
                None => {
                    let row = program.streams[usize::from(op.stream)].kind;
                    let info = &program.infos[op.info as usize];
                    let args = names::arguments(info);
                    let kind = self.sink.kind(&names::op(row, info), "critical", &args)?;
                    self.kinds.critical.insert(key, kind);
                    kind
                }
            };
            let (start, end) = (step.link.start.round_ns(), step.link.end.round_ns());
            self.args.clear();
            let micro_batch = names::micro_batch(op.micro_batch);
            self.args.extend(micro_batch.map(|m| (self.keys.micro_batch, m)));
            self.args.push((self.keys.rank, Value::Uint(u64::from(traced.rank.0))));
            let (out, into) = (step.out.as_slice(), step.into.as_slice());
            self.sink.slice(thread, kind, &Slice { start, end, args: &self.args, out, into })?;
            self.summary.slices += 1;
        }
        Ok(())
    }

    /// The stalls of a rank; `ends` are the arrows that leave and that arrive, by the stall's number.
    fn stalls(
        &mut self,
        traced: &TracedRank,
        thread: Thread,
        held: &[Stall],
        ends: &[Vec<(u32, u64)>; 2],
    ) -> io::Result<()> {
        let (mut out, mut into) = (ends[0].as_slice(), ends[1].as_slice());
        for (i, stall) in (0..).zip(held) {
            let Some((start, end)) = stalls::shown(self.timeline, stall) else { continue };
            let kind = match self.kinds.stalls.get(stall.cause) {
                Some(kind) => *kind,
                None => {
                    let cause = [("cause", Value::Text(stall.cause))];
                    let kind = self.sink.kind(stall.cause, "stall", &cause)?;
                    self.kinds.stalls.insert(stall.cause, kind);
                    kind
                }
            };
            let mut args = vec![(self.keys.rank, Value::Uint(u64::from(traced.rank.0)))];
            if !stall.waited_for.is_empty() {
                args.push((self.keys.waited_for, Value::Text(&stall.waited_for)));
            }
            let waited = self.keys.waited.into_iter().zip(stalls::waited(self.timeline, stall));
            args.extend(waited.filter_map(|(key, value)| Some((key, Value::Uint(value?)))));
            if let Some((link, sharers)) = &stall.shared {
                args.push((self.keys.link, Value::Text(link)));
                args.push((self.keys.sharers, Value::Uint(u64::from(*sharers))));
            }
            take_ids(&mut out, i, &mut self.ids[0]);
            take_ids(&mut into, i, &mut self.ids[1]);
            let slice = Slice { start, end, args: &args, out: &self.ids[0], into: &self.ids[1] };
            self.sink.slice(thread, kind, &slice)?;
            self.summary.slices += 1;
        }
        Ok(())
    }

    /// The process with the use of links, in percent of what each can carry.
    pub fn links(&mut self) -> io::Result<()> {
        let timeline = self.timeline;
        if timeline.links.is_empty() {
            return Ok(());
        }
        let pid = timeline.world.ranks.len() as u64 + 2;
        self.sink.process(pid, "links", pid)?;
        let (from, until) = timeline.window_ns();
        for link in timeline.links {
            let name = format!("{} ({} GB/s)", link.name, link.capacity.gbps());
            let track = self.sink.counter_track(pid, &name, "%", Unit::Percent)?;
            let changes = timeline.link_use.iter().filter(|change| change.resource == link.resource);
            let points = changes.map(|change| {
                let share = (change.rate.0 / link.capacity.0).clamp(0.0, 1.0);
                (change.time.round_ns(), (share * 1e5).round() as u64)
            });
            self.summary.counter_values += counters::write_steps(points, 0, (from, until), |ns, v| {
                self.sink.counter(track, ns, Value::Milli(v))
            })?;
        }
        Ok(())
    }
}

impl Layout<'_> {
    /// The process with the tiers that ranks share: who holds how much, and what there is.
    pub fn pools(&mut self) -> io::Result<()> {
        let timeline = self.timeline;
        if timeline.pools.is_empty() {
            return Ok(());
        }
        let pid = timeline.world.ranks.len() as u64 + 1 + POOLS;
        self.sink.process(pid, "pools", pid)?;
        let window = timeline.window_ns();
        for pool in timeline.pools {
            let capacity = ("capacity".to_owned(), vec![(Time::ZERO, pool.capacity)]);
            for (series, points) in pool.levels.iter().chain([&capacity]) {
                let track =
                    self.sink.counter_track(pid, &format!("{} bytes", pool.name), series, Unit::Bytes)?;
                let start = points.first().map_or(0, |point| point.1);
                let points = points.iter().skip(1).map(|(time, bytes)| (time.round_ns(), *bytes));
                self.summary.counter_values += counters::write_steps(points, start, window, |ns, v| {
                    self.sink.counter(track, ns, Value::Uint(v))
                })?;
            }
        }
        Ok(())
    }
}

/// Which of several steps an op belongs to, from 1.
fn round(program: &Program, op: OpId) -> Option<u64> {
    let rounds = &program.rounds;
    (rounds.len() > 1).then(|| rounds.partition_point(|until| *until <= op.0) as u64 + 1)
}

/// Moves the ids of piece `i` from the front of `arrows` to `ids`.
fn take_ids(arrows: &mut &[(u32, u64)], i: u32, ids: &mut Vec<u64>) {
    ids.clear();
    while let Some(((piece, id), rest)) = arrows.split_first()
        && *piece == i
    {
        ids.push(*id);
        *arrows = rest;
    }
}

/// Whether an op is one end of a transfer between two ranks, and which.
pub fn direction(row: StreamKind, name: &str) -> Option<Direction> {
    match row {
        StreamKind::PipelineSend => Some(Direction::Send),
        StreamKind::PipelineRecv => Some(Direction::Receive),
        _ if name.starts_with("send") => Some(Direction::Send),
        _ if name.starts_with("recv") => Some(Direction::Receive),
        _ => None,
    }
}

/// End of a transfer between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// The rank that has the data.
    Send,
    /// The rank that gets it.
    Receive,
}

/// Start and end of an op of a traced rank.
pub fn span(timeline: &Timeline, traced: &TracedRank, op: OpId) -> (Time, Time) {
    timeline.record.span(traced.source, op)
}

/// The place of each rank among those traced.
pub fn places(timeline: &Timeline) -> FxHashMap<RankId, usize> {
    timeline.ranks.iter().enumerate().map(|(i, traced)| (traced.rank, i)).collect()
}
