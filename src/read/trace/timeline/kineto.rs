//! Kineto files, as PyTorch's profiler writes them: one a rank, for the tools that read those.
//!
//! Kernels and copies stand on streams of a device (`kernel`, `gpu_memcpy`), collectives under the names of NCCL with
//! the arguments that the profiler gives them. Each is launched by a call of the host (`cuda_runtime`) inside an
//! operator of its name (`cpu_op`); the correlation and an arrow (`ac2g`) lead from the call to what it launches. A
//! wait for another stream is an event recorded there, a call that waits for it and a `cuda_sync`. Passes and layers
//! are `gpu_user_annotation`s, memory is `[memory]` instants, and `ProfilerStep#0` spans all.
//!
//! Host and device stand as hardware shows them. Where the step has a host, a call stands at the end of the time that its
//! launch took: a launch that waits for room in the queue is a long call, and where the host reads a result back it
//! synchronises. Without one, launches run ahead of the device as far as a queue lets them. A collective or a message
//! is a kernel that starts as soon as its own rank lets it and spins until the last has come: the time that ranks
//! wait for one another is in the files. All times of the device are later than in the run by
//! [`TimelineSummary::shifted_ns`](super::TimelineSummary), the time of the first launches, where the run has no
//! host.
//!
//! Hazards: HolisticTraceAnalysis finds the rank by a pattern that wants a space after the colon of `"rank":`, and has
//! no critical path where a stream waits for itself, as two of the program's streams on one row would. TraceLens sees
//! no device without the arrows.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use super::counters;
use super::names;
use super::places::{direction, span};
use super::rows::{Pairs, RankRows, SliceLevel, SlicePiece};
use super::shown::{Timeline, TimelineSummary, TracedRank};
use crate::trace::writer::Value;
use crate::trace::writer::json::{push_head, push_members, push_milli, push_string, push_uint, push_value};
use stepsim_core::ids::OpId;
use stepsim_core::program::{OpInfo, Phase, Program, StreamKind, Work};
use stepsim_core::units::Time;

/// Nanoseconds that an operator takes at least: in it, from one on, up to `WAITS` waits for other streams, two for each;
/// then the launch; behind that the event that other streams wait for. Each call takes one at least.
const OPERATOR: u64 = 20;
const WAIT: u64 = 1;
const WAITS: usize = 4;
const LAUNCH: u64 = 10;
/// The call at the end of a launch, which leads to the device: real ones take 3 to 10 us, and the kernel begins 5 to 7 us
/// after they began where the device is idle.
const CALL: u64 = 5_000;
/// Launches that run ahead of the device where the step has no host: the queue of a stream.
const AHEAD: usize = 1024;
/// Numbers of the device's process, of the host's and of its thread, above all ranks and streams.
const DEVICE: u64 = 1_000_000;
const HOST: u64 = 2_000_000;
const HOST_THREAD: u64 = 3_000_000;
/// The first stream.
const FIRST_STREAM: u64 = 7;
/// The call in which the host waits for the device.
const SYNCHRONIZE: &str = "cudaStreamSynchronize";
/// Bytes gathered before they are handed on.
const BLOCK: usize = 1 << 18;

/// Names of NCCL's kernels and of the collectives in PyTorch's words, by our own.
const COLLECTIVES: [(&str, &str, &str); 4] = [
    ("all-gather", "AllGather", "_allgather_base"),
    ("reduce-scatter", "ReduceScatter", "_reduce_scatter_base"),
    ("all-reduce", "AllReduce", "allreduce"),
    ("all-to-all", "SendRecv", "all_to_allv"),
];

/// The launch of an op, in nanoseconds of the file.
#[derive(Clone, Copy, Debug, Default)]
struct KernelLaunch {
    operator: [u64; 2],
    call: [u64; 2],
    /// Correlations: of the launch, and of the event behind it, if another stream waits for the op.
    number: u64,
    event: Option<u64>,
    /// True if the launch is the op's own, and not that of a graph.
    own: bool,
}

/// A wait of an op for one of another stream, and the correlation of the call that queues it.
type StreamWait = (OpId, u64);

/// A file on its way.
struct KinetoFile<'a, W: Write> {
    timeline: &'a Timeline<'a>,
    traced: &'a TracedRank,
    program: &'a Program,
    rows: RankRows,
    /// The row of each op that is shown.
    row_of: FxHashMap<OpId, u32>,
    /// By op, the one before it on its stream.
    before: Vec<Option<OpId>>,
    /// By op, its waits for other streams that are queued.
    waits: FxHashMap<OpId, Vec<StreamWait>>,
    /// By op, the event behind it.
    events: FxHashMap<OpId, u64>,
    out: W,
    text: Vec<u8>,
    calls: u64,
    summary: TimelineSummary,
}

/// Writes the file of one rank.
pub fn write<W: Write>(timeline: &Timeline, traced: &TracedRank, out: W) -> io::Result<TimelineSummary> {
    let rows = RankRows::new(timeline, traced, Pairs::Together);
    let program = timeline.world.program_of(traced.rank);
    let text = Vec::with_capacity(BLOCK + 4096);
    let summary = TimelineSummary { too_short: rows.too_short, ..TimelineSummary::default() };
    let ops = rows.pieces.iter().filter(|piece| piece.level == SliceLevel::Op);
    let row_of = ops.map(|piece| (rows.ops_of(piece)[0], piece.row)).collect();
    let mut before = vec![None; program.ops.len()];
    for pair in program.streams.iter().flat_map(|stream| stream.ops.windows(2)) {
        before[pair[1].index()] = Some(pair[0]);
    }
    let mut file = KinetoFile {
        timeline,
        traced,
        program,
        rows,
        row_of,
        before,
        waits: FxHashMap::default(),
        events: FxHashMap::default(),
        out,
        text,
        calls: 0,
        summary,
    };
    file.all()?;
    Ok(file.summary)
}

impl<W: Write> KinetoFile<'_, W> {
    fn all(&mut self) -> io::Result<()> {
        let mut pieces: Vec<SlicePiece> = self.rows.pieces.clone();
        pieces.sort_by_key(|piece| (piece.start, piece.row, std::cmp::Reverse(piece.end)));
        // Communication spins from when its own rank lets it go.
        let mut ended = vec![0; self.rows.rows.len()];
        for piece in pieces.iter_mut().filter(|piece| piece.level == SliceLevel::Op) {
            let op = self.op(piece);
            let row = self.rows.rows[piece.row as usize].kind;
            let copies = matches!(row, StreamKind::CopyIn | StreamKind::CopyOut | StreamKind::Host);
            if matches!(self.program.ops[op.index()].work, Work::Comm { .. }) && !copies {
                piece.start = self.ready(op).round_ns().max(ended[piece.row as usize]).min(piece.start);
            }
            ended[piece.row as usize] = piece.end;
        }
        pieces.sort_by_key(|piece| (piece.start, piece.row, std::cmp::Reverse(piece.end)));
        let mut launched: Vec<(OpId, SlicePiece)> = Vec::new();
        let on_device = |piece: &SlicePiece| {
            piece.level == SliceLevel::Op && self.rows.rows[piece.row as usize].kind != StreamKind::Host
        };
        launched.extend(pieces.iter().filter(|piece| on_device(piece)).map(|piece| (self.op(piece), *piece)));
        // In the order in which the program was written.
        launched.sort_by_key(|(op, _)| *op);
        let (launches, shift, host) = self.launches(&launched);
        self.summary.shifted_ns = shift;
        self.head(shift)?;
        for (start, end, name) in host {
            let (category, args) = match name {
                SYNCHRONIZE => ("cuda_runtime", vec![("correlation", Value::Uint(self.next_call()))]),
                _ => ("cpu_op", Vec::new()),
            };
            self.slice(category, name, [HOST, HOST_THREAD], [start, end], &args)?;
        }
        for (op, piece) in &launched {
            self.launch(&launches[op], *op, piece)?;
        }
        for piece in &pieces {
            let launch = (piece.level == SliceLevel::Op).then(|| launches.get(&self.op(piece))).flatten();
            self.piece(piece, launch, shift)?;
        }
        self.memory(shift)?;
        self.text.extend_from_slice(b"\n]}\n");
        self.out.write_all(&self.text)?;
        self.out.flush()
    }

    fn span(&self, op: OpId) -> (Time, Time) {
        span(self.timeline, self.traced, op)
    }

    /// When an op could start for all that its own rank knows.
    fn ready(&self, id: OpId) -> Time {
        let op = &self.program.ops[id.index()];
        let waits = self.program.waits[op.waits.range()].iter();
        let waits = waits.map(|wait| self.span(*wait).1 + self.program.latency_between(*wait, id));
        waits.chain(self.before[id.index()].map(|before| self.span(before).1)).max().unwrap_or(Time::ZERO)
    }

    /// Nanoseconds of the window at a time.
    fn ns(&self, at: Time) -> u64 {
        at.round_ns().saturating_sub(self.timeline.window_ns().0)
    }

    fn next_call(&mut self) -> u64 {
        self.calls += 1;
        self.calls
    }

    /// The launches of ops in the order in which the program was written; how much later than in the run the device is,
    /// so that each is launched before it runs; and what else the host does: start, end, name.
    #[allow(clippy::type_complexity)]
    fn launches(
        &mut self,
        ops: &[(OpId, SlicePiece)],
    ) -> (FxHashMap<OpId, KernelLaunch>, u64, Vec<(u64, u64, &'static str)>) {
        let (mut launches, mut shift, mut host) = (FxHashMap::default(), 0, Vec::new());
        let is_host = |op: &OpId| {
            self.kind_of(*op) == StreamKind::Host
                && matches!(self.program.ops[op.index()].work, Work::Compute { .. })
        };
        // The op of the host that launched an op: the last that it waits for.
        let launcher = |id: &OpId| {
            let waits = self.program.waits[self.program.ops[id.index()].waits.range()].iter().copied();
            waits.filter(|wait| is_host(wait) && self.info(*wait).name.starts_with("launch")).max()
        };
        let of: Vec<Option<OpId>> = ops.iter().map(|(op, _)| launcher(op)).collect();
        let has_host = of.iter().any(Option::is_some);
        let own: FxHashMap<OpId, usize> =
            of.iter().enumerate().rev().filter_map(|(i, op)| Some(((*op)?, i))).collect();
        let hosts = self.program.streams.iter().filter(|stream| stream.kind == StreamKind::Host);
        let work: Vec<OpId> = hosts.flat_map(|stream| &stream.ops).copied().filter(is_host).collect();
        // Each turn of the host: the op that it launches, if it does, and when it began and ended.
        let mut turns: Vec<(Option<usize>, u64, u64)> = Vec::new();
        if has_host {
            let mut done = 0;
            for op in work {
                let (start, end) = self.span(op);
                let (start, end) = (self.ns(start), self.ns(end));
                let name = if &*self.info(op).name == "read back" { SYNCHRONIZE } else { "host" };
                match own.get(&op) {
                    // Held up, the call itself lasts.
                    Some(i) => turns.push((Some(*i), if start > done { done } else { start }, end)),
                    None if end > done && !self.info(op).name.starts_with("launch") => {
                        host.push((done, end, name))
                    }
                    None => {}
                }
                done = done.max(end);
            }
        } else {
            let mut done = 0;
            for i in 0..ops.len() {
                let room = i.checked_sub(AHEAD).map_or(0, |oldest| ops[oldest].1.start);
                let start = done.max(room.min(ops[i].1.start).saturating_sub(self.timeline.window_ns().0));
                done = start + OPERATOR;
                turns.push((Some(i), start, done));
            }
        }
        let mut done = 0;
        for (i, start, end) in turns.into_iter().filter_map(|(i, start, end)| Some((i?, start, end))) {
            let (op, piece) = &ops[i];
            let start = start.max(done);
            let end = end.max(start + OPERATOR);
            done = end;
            let held = has_host && of[i].is_some_and(|host| self.ns(self.span(host).0) > start + LAUNCH);
            let call = if held { start + LAUNCH } else { (start + LAUNCH).max(end.saturating_sub(CALL)) };
            let number = self.next_call();
            let launch = KernelLaunch {
                operator: [start, end - 1],
                call: [call, end - 4],
                number,
                event: None,
                own: true,
            };
            shift =
                shift.max((call + 1).saturating_sub(piece.start.saturating_sub(self.timeline.window_ns().0)));
            launches.insert(*op, launch);
        }
        for (op, piece) in ops {
            if !launches.contains_key(op) {
                continue;
            }
            let mut waits = Vec::new();
            for awaited in self.awaited(*op, piece) {
                let Some(launch): Option<&mut KernelLaunch> = launches.get_mut(&awaited) else { continue };
                launch.event = launch.event.or_else(|| Some(self.next_call()));
                waits.push((awaited, self.next_call()));
            }
            self.waits.insert(*op, waits);
        }
        // An op without a launch of its own is part of a graph that was launched before it.
        let mut last = KernelLaunch::default();
        for (op, _) in ops {
            match launches.get(op) {
                Some(launch) => last = KernelLaunch { own: false, ..*launch },
                None => drop(launches.insert(*op, last)),
            }
        }
        self.events = launches.iter().filter_map(|(op, launch)| Some((*op, launch.event?))).collect();
        (launches, shift, host)
    }

    /// Writes the launch of an op: the operator with its calls, and where the arrow to the device begins.
    fn launch(&mut self, launch: &KernelLaunch, op: OpId, piece: &SlicePiece) -> io::Result<()> {
        if !launch.own {
            return Ok(());
        }
        let home = [HOST, HOST_THREAD];
        let external = ("External id", Value::Uint(launch.number));
        let (_, call, name) = self.words(op, piece);
        self.slice("cpu_op", &name, home, launch.operator, &[external])?;
        let waits = self.waits.get(&op).map_or(&[][..], Vec::as_slice).iter();
        let waits = (0..)
            .zip(waits)
            .map(|(place, wait)| ("cudaStreamWaitEvent", wait.1, launch.operator[0] + WAIT + 2 * place));
        let event = launch.event.map(|event| ("cudaEventRecord", event, launch.call[1] + 1));
        for (call, number, start) in waits.chain(event).collect::<Vec<_>>() {
            let args = [("correlation", Value::Uint(number)), external];
            self.slice("cuda_runtime", call, home, [start, start + 1], &args)?;
        }
        let args = [("correlation", Value::Uint(launch.number)), external];
        self.slice("cuda_runtime", call, home, launch.call, &args)?;
        self.arrow(b"{\"ph\":\"s\"", launch.number, home, launch.call[0])
    }

    fn head(&mut self, shift: u64) -> io::Result<()> {
        let text = &mut self.text;
        text.extend_from_slice(
            b"{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", \
              \"distributedInfo\": {\"backend\": \"nccl\", \"rank\": ",
        );
        push_uint(text, u64::from(self.traced.rank.0));
        text.extend_from_slice(b", \"world_size\": ");
        push_uint(text, self.timeline.world.ranks.len() as u64);
        text.extend_from_slice(
            b"},\n\"deviceProperties\": [{\"id\": 0, \"name\": \"simulated\"}], \"stepsim_run\": {",
        );
        push_members(text, &self.timeline.meta.values());
        text.extend_from_slice(b"},\n\"traceEvents\": [");
        let rows = self.rows.rows.iter().map(|row| (row.kind == StreamKind::Host, row.name()));
        let rows: Vec<(bool, String)> = rows.collect();
        let mut first = true;
        let mut name = |text: &mut Vec<u8>, what: &str, pid: u64, tid: u64, name: &str| {
            text.extend_from_slice(if first { b"\n" } else { b",\n" });
            first = false;
            push_head(text, b"{\"ph\":\"M\",\"ts\":0", pid, Some(tid));
            text.extend_from_slice(b",\"name\":");
            push_string(text, what);
            text.extend_from_slice(b",\"args\":{\"name\":");
            push_string(text, name);
            text.extend_from_slice(b"}}");
        };
        name(text, "process_name", DEVICE, FIRST_STREAM, &self.traced.name);
        name(text, "process_name", HOST, HOST_THREAD, "host");
        name(text, "thread_name", HOST, HOST_THREAD, "launches");
        for (stream, (on_host, row)) in (FIRST_STREAM..).zip(&rows) {
            if *on_host {
                name(text, "thread_name", HOST, HOST_THREAD + stream, row);
            } else {
                name(text, "thread_name", DEVICE, stream, &format!("stream {stream} {row}"));
            }
        }
        self.step(shift)
    }

    /// The mark of the step.
    fn step(&mut self, shift: u64) -> io::Result<()> {
        let (from, until) = self.timeline.window_ns();
        let end = self.timeline.record.step_end.round_ns().clamp(from, until) - from;
        if end > 0 {
            let place = [HOST, HOST_THREAD];
            self.slice("user_annotation", "ProfilerStep#0", place, [0, shift + end], &[])?;
        }
        Ok(())
    }

    /// Hands the text on if it is long.
    fn hand_on(&mut self) -> io::Result<()> {
        if self.text.len() >= BLOCK {
            self.out.write_all(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }

    fn slice(
        &mut self,
        category: &str,
        name: &str,
        [pid, tid]: [u64; 2],
        [start, end]: [u64; 2],
        args: &[(&str, Value)],
    ) -> io::Result<()> {
        let text = &mut self.text;
        text.extend_from_slice(b",\n{\"ph\":\"X\",\"cat\":");
        push_string(text, category);
        text.extend_from_slice(b",\"name\":");
        push_string(text, name);
        push_head(text, b"", pid, Some(tid));
        text.extend_from_slice(b",\"ts\":");
        push_milli(text, start);
        text.extend_from_slice(b",\"dur\":");
        push_milli(text, end - start);
        text.extend_from_slice(b",\"args\":{");
        push_members(text, args);
        text.extend_from_slice(b"}}");
        self.summary.slices += 1;
        self.hand_on()
    }

    fn op(&self, piece: &SlicePiece) -> OpId {
        self.rows.ops_of(piece)[0]
    }

    fn info(&self, op: OpId) -> &OpInfo {
        &self.program.infos[self.program.ops[op.index()].info as usize]
    }

    fn kind_of(&self, op: OpId) -> StreamKind {
        self.program.streams[usize::from(self.program.ops[op.index()].stream)].kind
    }

    /// The ops of other streams that an op of the device waits for, of many the last to end.
    fn awaited(&self, id: OpId, piece: &SlicePiece) -> Vec<OpId> {
        let op = &self.program.ops[id.index()];
        let is_other = |wait: &OpId| self.row_of.get(wait).is_some_and(|row| *row != piece.row);
        let is_host = |wait: &OpId| self.kind_of(*wait) == StreamKind::Host;
        let waits = self.program.waits[op.waits.range()].iter().copied();
        let mut waits: Vec<OpId> = waits.filter(|wait| is_other(wait) && !is_host(wait)).collect();
        waits.sort_by_key(|wait| std::cmp::Reverse(self.span(*wait).1));
        waits.truncate(WAITS);
        waits
    }

    /// One end of the arrow from a launch to what it launches.
    fn arrow(&mut self, head: &[u8], number: u64, [pid, tid]: [u64; 2], at: u64) -> io::Result<()> {
        let text = &mut self.text;
        text.extend_from_slice(b",\n");
        text.extend_from_slice(head);
        text.extend_from_slice(b",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"id\":");
        push_uint(text, number);
        push_head(text, b"", pid, Some(tid));
        text.extend_from_slice(b",\"ts\":");
        push_milli(text, at);
        text.push(b'}');
        self.hand_on()
    }

    /// Writes that a piece waited for an op of another stream: at that op's end.
    fn wait(&mut self, piece: &SlicePiece, (awaited, queued): StreamWait, shift: u64) -> io::Result<()> {
        let (Some(row), Some(event)) = (self.row_of.get(&awaited), self.events.get(&awaited)) else {
            return Ok(());
        };
        let stream = FIRST_STREAM + u64::from(piece.row);
        let args = [
            ("correlation", Value::Uint(queued)),
            ("device", Value::Uint(0)),
            ("context", Value::Uint(1)),
            ("stream", Value::Uint(stream)),
            ("wait_on_stream", Value::Uint(FIRST_STREAM + u64::from(*row))),
            ("wait_on_cuda_event_record_corr_id", Value::Uint(*event)),
            ("wait_on_cuda_event_id", Value::Uint(*event)),
        ];
        let at = shift + self.ns(self.span(awaited).1);
        self.slice("cuda_sync", "Stream Wait Event", [DEVICE, stream], [at, at], &args)
    }

    /// Category, call and name of an op.
    fn words(&self, id: OpId, piece: &SlicePiece) -> (&'static str, &'static str, String) {
        let row = self.rows.rows[piece.row as usize].kind;
        match row {
            StreamKind::Host => ("cpu_op", "", names::op(row, self.info(id))),
            StreamKind::CopyIn => {
                ("gpu_memcpy", "cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)".to_owned())
            }
            StreamKind::CopyOut => {
                ("gpu_memcpy", "cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)".to_owned())
            }
            StreamKind::Compute if matches!(self.program.ops[id.index()].work, Work::Compute { .. }) => {
                ("kernel", "cudaLaunchKernel", kernel(row, self.info(id)))
            }
            _ => ("kernel", "cudaLaunchKernel", format!("ncclDevKernel_{}", self.collective(id).0)),
        }
    }

    fn piece(&mut self, piece: &SlicePiece, launch: Option<&KernelLaunch>, shift: u64) -> io::Result<()> {
        let origin = self.timeline.window_ns().0;
        let time = [piece.start, piece.end].map(|ns| shift + ns.saturating_sub(origin));
        let stream = FIRST_STREAM + u64::from(piece.row);
        if piece.level != SliceLevel::Op {
            let ops = self.rows.ops_of(piece);
            let name = match piece.level {
                SliceLevel::Layer => names::layer(self.info(ops[0]).layer, self.info(ops[0]).phase),
                _ => names::pass(super::passes::parts(self.program, ops)),
            };
            let on_host = self.rows.rows[piece.row as usize].kind == StreamKind::Host;
            let (category, home) = if on_host {
                ("user_annotation", [HOST, HOST_THREAD + stream])
            } else {
                ("gpu_user_annotation", [DEVICE, stream])
            };
            return self.slice(category, &name, home, time, &[]);
        }
        let id = self.op(piece);
        let op = &self.program.ops[id.index()];
        let (category, _, name) = self.words(id, piece);
        // Launches of the host stand among its calls.
        if category == "cpu_op" && matches!(op.work, Work::Compute { .. }) {
            return Ok(());
        }
        let number = launch.map_or(0, |launch| launch.number);
        if launch.is_some_and(|launch| launch.own) {
            for wait in self.waits.get(&id).cloned().unwrap_or_default() {
                self.wait(piece, wait, shift)?;
            }
            self.arrow(b"{\"ph\":\"f\",\"bp\":\"e\"", number, [DEVICE, stream], time[0])?;
        }
        let info = &self.program.infos[op.info as usize];
        let mut args = vec![
            ("device", Value::Uint(0)),
            ("context", Value::Uint(1)),
            ("stream", Value::Uint(stream)),
            ("correlation", Value::Uint(number)),
            ("External id", Value::Uint(number)),
        ];
        if launch.is_none() {
            args.clear();
        }
        args.extend(names::arguments(info));
        args.extend(names::micro_batch(op.micro_batch).map(|number| ("micro_batch", number)));
        if let (true, Work::Comm { slot, .. }) = (name.starts_with("nccl"), op.work) {
            let world = self.timeline.world;
            let comm = world.slots_of(self.traced.rank)[usize::from(slot)];
            let members = world.members_of(comm).len() as u64;
            args.extend([
                ("Collective name", Value::Text(self.collective(id).1)),
                ("dtype", Value::Text("Byte")),
                ("In msg nelems", Value::Uint(info.bytes as u64)),
                ("Out msg nelems", Value::Uint(info.bytes as u64)),
                ("Group size", Value::Uint(members)),
            ]);
            let group = comm.0.to_string();
            args.push(("Process Group Name", Value::Text(&group)));
            return self.slice(category, &name, [DEVICE, stream], time, &args);
        }
        let args = args.clone();
        let home = if category == "cpu_op" { [HOST, HOST_THREAD + stream] } else { [DEVICE, stream] };
        self.slice(category, &name, home, time, &args)
    }

    /// The kernel of NCCL and the collective in PyTorch's words.
    fn collective(&self, op: OpId) -> (&'static str, &'static str) {
        let info = self.info(op);
        let known = COLLECTIVES.iter().find(|(ours, ..)| info.name.starts_with(ours));
        match (known, direction(self.kind_of(op), &info.name)) {
            (Some((_, kernel, name)), _) => (kernel, name),
            (None, Some(super::places::TransferEnd::Send)) => ("SendRecv", "send"),
            (None, Some(super::places::TransferEnd::Receive)) => ("SendRecv", "recv"),
            (None, None) => ("SendRecv", "all_to_allv"),
        }
    }

    /// Bytes of the device's own memory that come and go.
    fn memory(&mut self, shift: u64) -> io::Result<()> {
        let (from, until) = self.timeline.window_ns();
        let mut level = self.program.resident.iter().filter(|e| e.tier == 0).map(|e| e.bytes).sum::<u64>();
        let here = |effect: &&stepsim_core::program::MemoryEffect| effect.tier == 0;
        for change in counters::changes(self.timeline, self.traced, &counters::holding(self.program), here) {
            let ns = change.time.round_ns();
            level = if change.allocates { level + change.bytes } else { level.saturating_sub(change.bytes) };
            if ns < from || ns >= until {
                continue;
            }
            let text = &mut self.text;
            let start = b",\n{\"ph\":\"i\",\"s\":\"t\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\"";
            push_head(text, start, HOST, Some(HOST_THREAD));
            text.extend_from_slice(b",\"ts\":");
            push_milli(text, shift + ns - from);
            text.extend_from_slice(b",\"args\":{\"Device Type\":1,\"Device Id\":0,\"Bytes\":");
            if !change.allocates {
                text.push(b'-');
            }
            push_value(text, Value::Uint(change.bytes));
            text.extend_from_slice(b",\"Total Allocated\":");
            push_value(text, Value::Uint(level));
            text.extend_from_slice(b",\"Total Reserved\":");
            push_value(text, Value::Uint(level));
            text.extend_from_slice(b"}}");
            self.summary.counter_values += 1;
            self.hand_on()?;
        }
        Ok(())
    }
}

/// The name of a kernel: its class, by which readers tell kernels apart, and the op.
fn kernel(row: StreamKind, info: &OpInfo) -> String {
    let name = names::op(row, info);
    match (info.phase, info.class) {
        (Phase::Optimizer, Some(_)) => format!("stepsim::optimizer::{name}"),
        (_, Some(class)) => format!("stepsim::{class}::{name}"),
        (_, None) => name,
    }
}
