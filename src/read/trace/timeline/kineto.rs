//! Kineto files, as PyTorch's profiler writes them: one a rank, for the tools that read those.
//!
//! Kernels and copies stand on streams of a device (`kernel`, `gpu_memcpy`), collectives under the names of NCCL with
//! the arguments that the profiler gives them. Each is launched by a call of the host (`cuda_runtime`) inside an
//! operator of its name (`cpu_op`); the correlation and an arrow (`ac2g`) lead from the call to what it launches. A
//! wait for another stream is an event recorded there, a call that waits for it and a `cuda_sync`. Passes and layers
//! are `gpu_user_annotation`s, memory is `[memory]` instants, and `ProfilerStep#0` spans all.
//!
//! The simulated device launches for nothing, and readers want the calls one after another and before what they
//! launch. So the calls stand a few nanoseconds apart at the beginning, and the device begins after them: all its
//! times are later by [`TimelineSummary::shifted_ns`](super::TimelineSummary), nothing else is changed.
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

/// Nanoseconds from one call of the host to the next, how long each lasts, and how far its operator reaches beyond it
/// on both sides.
const CALL: u64 = 4;
const CALL_LASTS: u64 = 1;
const WITHIN_OPERATOR: u64 = 1;
/// Numbers of the device's process, of the host's and of its thread, above all ranks and streams.
const DEVICE: u64 = 1_000_000;
const HOST: u64 = 2_000_000;
const HOST_THREAD: u64 = 3_000_000;
/// The first stream.
const FIRST_STREAM: u64 = 7;
/// Bytes gathered before they are handed on.
const BLOCK: usize = 1 << 18;

/// Names of NCCL's kernels and of the collectives in PyTorch's words, by our own.
const COLLECTIVES: [(&str, &str, &str); 5] = [
    ("all-gather", "AllGather", "_allgather_base"),
    ("reduce-scatter", "ReduceScatter", "_reduce_scatter_base"),
    ("all-reduce", "AllReduce", "allreduce"),
    ("broadcast", "Broadcast", "broadcast"),
    ("all-to-all", "SendRecv", "all_to_allv"),
];

/// A file on its way.
struct KinetoFile<'a, W: Write> {
    timeline: &'a Timeline<'a>,
    traced: &'a TracedRank,
    program: &'a Program,
    rows: RankRows,
    /// The row of each op that is shown.
    row_of: FxHashMap<OpId, u32>,
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
    let mut file = KinetoFile { timeline, traced, program, rows, row_of, out, text, calls: 0, summary };
    file.all()?;
    Ok(file.summary)
}

impl<W: Write> KinetoFile<'_, W> {
    fn all(&mut self) -> io::Result<()> {
        let mut pieces: Vec<SlicePiece> = self.rows.pieces.clone();
        pieces.sort_by_key(|piece| (piece.start, piece.row, std::cmp::Reverse(piece.end)));
        let waits: Vec<Option<u32>> = pieces.iter().map(|piece| self.waited(piece)).collect();
        // A launch for each op of the device, an event and a wait for each wait between streams.
        let ops = pieces.iter().filter(|piece| piece.level == SliceLevel::Op).count() as u64;
        let shift = (ops + 2 * waits.iter().flatten().count() as u64 + 1) * CALL;
        self.summary.shifted_ns = shift;
        self.head(shift)?;
        for (piece, wait) in pieces.iter().zip(waits) {
            if let Some(row) = wait {
                self.wait(piece, row, shift)?;
            }
            self.piece(piece, shift)?;
        }
        self.memory(shift)?;
        self.text.extend_from_slice(b"\n]}\n");
        self.out.write_all(&self.text)?;
        self.out.flush()
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
        let (from, until) = self.timeline.window_ns();
        let end = self.timeline.record.step_end.round_ns().min(until)
            - from.min(self.timeline.record.step_end.round_ns());
        self.slice("user_annotation", "ProfilerStep#0", [HOST, HOST_THREAD], [0, shift + end], &[])
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

    /// The row of the op of another stream that an op of the device waited for last, if it is shown and ends as the
    /// op starts.
    fn waited(&self, piece: &SlicePiece) -> Option<u32> {
        if piece.level != SliceLevel::Op {
            return None;
        }
        let id = self.op(piece);
        if self.kind_of(id) == StreamKind::Host {
            return None;
        }
        let op = &self.program.ops[id.index()];
        let start = span(self.timeline, self.traced, id).0;
        let waits = self.program.waits[op.waits.range()].iter().copied();
        let end = |op: &OpId| span(self.timeline, self.traced, *op).1;
        waits
            .filter(|wait| {
                self.program.ops[wait.index()].stream != op.stream && self.kind_of(*wait) != StreamKind::Host
            })
            .max_by_key(end)
            .filter(|wait| end(wait) == start)
            .and_then(|wait| self.row_of.get(&wait).copied())
            .filter(|row| *row != piece.row)
    }

    fn call(&mut self, name: &str) -> io::Result<u64> {
        self.calls += 1;
        let (number, start) = (self.calls, self.calls * CALL + WITHIN_OPERATOR);
        let args = [("correlation", Value::Uint(number)), ("External id", Value::Uint(number))];
        self.slice("cuda_runtime", name, [HOST, HOST_THREAD], [start, start + CALL_LASTS], &args)?;
        Ok(number)
    }

    /// Launches what has this name: the operator with the call in it, and where the arrow to the device begins.
    fn launch(&mut self, call: &str, name: &str) -> io::Result<u64> {
        let start = (self.calls + 1) * CALL;
        let args = [("External id", Value::Uint(self.calls + 1))];
        let ends = start + CALL_LASTS + 2 * WITHIN_OPERATOR;
        self.slice("cpu_op", name, [HOST, HOST_THREAD], [start, ends], &args)?;
        let number = self.call(call)?;
        self.arrow(b"{\"ph\":\"s\"", number, [HOST, HOST_THREAD], start + WITHIN_OPERATOR)?;
        Ok(number)
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

    /// Writes that a piece waited for what stands on `row`.
    fn wait(&mut self, piece: &SlicePiece, row: u32, shift: u64) -> io::Result<()> {
        let recorded = self.call("cudaEventRecord")?;
        let waited = self.call("cudaStreamWaitEvent")?;
        let stream = FIRST_STREAM + u64::from(piece.row);
        let args = [
            ("correlation", Value::Uint(waited)),
            ("device", Value::Uint(0)),
            ("context", Value::Uint(1)),
            ("stream", Value::Uint(stream)),
            ("wait_on_stream", Value::Uint(FIRST_STREAM + u64::from(row))),
            ("wait_on_cuda_event_record_corr_id", Value::Uint(recorded)),
            ("wait_on_cuda_event_id", Value::Uint(recorded)),
        ];
        let at = shift + piece.start - self.timeline.window_ns().0.min(piece.start);
        self.slice("cuda_sync", "Stream Wait Event", [DEVICE, stream], [at, at], &args)
    }

    fn piece(&mut self, piece: &SlicePiece, shift: u64) -> io::Result<()> {
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
        let row = self.rows.rows[piece.row as usize].kind;
        let (category, call, name) = match row {
            StreamKind::Host => ("cpu_op", None, names::op(row, self.info(id))),
            StreamKind::CopyIn => {
                ("gpu_memcpy", Some("cudaMemcpyAsync"), "Memcpy HtoD (Pinned -> Device)".to_owned())
            }
            StreamKind::CopyOut => {
                ("gpu_memcpy", Some("cudaMemcpyAsync"), "Memcpy DtoH (Device -> Pinned)".to_owned())
            }
            StreamKind::Compute if matches!(op.work, Work::Compute { .. }) => {
                ("kernel", Some("cudaLaunchKernel"), kernel(row, self.info(id)))
            }
            _ => ("kernel", Some("cudaLaunchKernel"), format!("ncclDevKernel_{}", self.collective(id).0)),
        };
        let number = match call {
            Some(call) => self.launch(call, &name)?,
            None => 0,
        };
        if call.is_some() {
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
        if call.is_none() {
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
