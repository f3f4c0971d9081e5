//! Puts a timeline into a sink, process by process.

use std::io;
use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::arrows::{self, ArrowEnd, Arrows};
use super::beside::SideOps;
use super::critical::{self, PathPiece, PathSlice};
use super::keys::{Keys, SliceKinds};
use super::rows::{Pairs, RankRows, SlicePiece};
use super::shown::{Detail, StallSlice, Timeline, TimelineSummary, TracedRank};
use super::{counters, names, shares, stalls};
use crate::analysis::memory;
use crate::trace::writer::{ArgumentName, Counter, CounterUnit, Sink, Slice, SliceKind, Thread, Value};
use stepsim_core::ids::OpId;
use stepsim_core::program::{NO_MICRO_BATCH, Op, Program, StreamKind};
use stepsim_core::units::Time;

/// Places of the processes for stalls and for the critical path after the step's.
const STALLS: u64 = 2;
const CRITICAL: u64 = 3;
/// Place of the process for shared tiers after the step's.
const POOLS: u64 = 4;

/// A span of this part of the window is seen in a row across the screen.
const PARTS_SEEN: u64 = 1000;
/// And this part of it is worth a row.
const WORTH_A_ROW: u64 = 100;

/// A timeline on its way into a sink.
pub struct TimelineLayout<'a> {
    pub(super) timeline: &'a Timeline<'a>,
    pub sink: &'a mut dyn Sink,
    pub(super) keys: Keys,
    pub(super) kinds: SliceKinds,
    next_tid: u64,
    /// Number of the next arrow.
    pub next_arrow: u64,
    /// The summary so far.
    pub summary: TimelineSummary,
    /// The ops of the rank at hand that lie on the critical path.
    pub(super) on_path: FxHashSet<OpId>,
    /// Transfers of the rank at hand that run beside its kernels.
    pub(super) beside: SideOps,
    /// By tier of the world, whether several ranks use it.
    shared: Vec<bool>,
    pub(super) args: Vec<(ArgumentName, Value<'static>)>,
    ids: [Vec<u64>; 2],
}

impl<'a> TimelineLayout<'a> {
    /// Nothing written yet but the names of arguments.
    pub fn new(timeline: &'a Timeline<'a>, sink: &'a mut dyn Sink) -> io::Result<TimelineLayout<'a>> {
        let keys = Keys::new(sink)?;
        // Threads are numbered in the order on screen, from a round number above all process numbers.
        let mut next_tid = 1000;
        while next_tid < timeline.world.ranks.len() as u64 + 6 {
            next_tid *= 10;
        }
        Ok(TimelineLayout {
            timeline,
            sink,
            keys,
            kinds: SliceKinds::default(),
            next_tid,
            next_arrow: 1,
            summary: TimelineSummary::default(),
            on_path: FxHashSet::default(),
            beside: SideOps::default(),
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
        self.plain(thread, kind, (start, end))?;
        self.steps(thread)?;
        self.whole_path(pid)?;
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

    /// For a run of several steps, a slice for each in the run's.
    fn steps(&mut self, thread: Thread) -> io::Result<()> {
        let (times, (from, until)) = (self.timeline.steps, self.timeline.window_ns());
        let mut ended = Time::ZERO;
        for (number, time) in (1..).zip(times).filter(|_| times.len() > 1) {
            let [start, end] = [ended, ended + *time].map(|at| at.round_ns().clamp(from, until));
            ended += *time;
            if start < end {
                let kind =
                    self.sink.kind(&format!("step {number}"), "round", &[("step", Value::Uint(number))])?;
                self.plain(thread, kind, (start, end))?;
            }
        }
        Ok(())
    }

    /// The critical path from its start to its end as one row: the ranks that it stays on, and in them the passes.
    fn whole_path(&mut self, pid: u64) -> io::Result<()> {
        let stretches = critical::stretches(self.timeline);
        if stretches.is_empty() {
            return Ok(());
        }
        if let Some(summary) = self.sink.summary(pid) {
            self.path_at_a_glance(summary, &stretches)?;
        }
        let thread = self.thread(pid, "critical path")?;
        for stay in stretches.chunk_by(|a, b| a.rank == b.rank) {
            let (start, end) = (stay[0].start, stay[stay.len() - 1].end);
            let kind = self.named(&self.timeline.name_of(stay[0].rank), "path")?;
            let args = [(self.keys.rank, Value::Uint(u64::from(stay[0].rank.0)))];
            self.put(thread, kind, &Slice { start, end, args: &args, ..Slice::default() })?;
            for pass in stay {
                let kind = self.named(&names::pass([(pass.phase, pass.micro_batch)]), "path pass")?;
                self.plain(thread, kind, (pass.start, pass.end))?;
            }
        }
        Ok(())
    }

    /// The critical path on the step's own row, which shows while all else is folded away: what the step hangs on in one
    /// line, or where nobody asked what the path is of, and below that the ranks that it stays on long enough to be
    /// seen.
    fn path_at_a_glance(&mut self, thread: Thread, stretches: &[PathSlice]) -> io::Result<()> {
        let (start, end) = (stretches[0].start, stretches[stretches.len() - 1].end);
        let answer = self.timeline.meta.hangs_on().map(str::to_owned);
        let words = answer.unwrap_or_else(|| critical::in_words(self.timeline, stretches));
        let kind = self.named(&words, "summary")?;
        self.plain(thread, kind, (start, end))?;
        let seen = (end - start) / PARTS_SEEN;
        for stay in stretches.chunk_by(|a, b| a.rank == b.rank) {
            let (start, end) = (stay[0].start, stay[stay.len() - 1].end);
            // The only rank needs no name.
            if end - start >= seen && stay.len() < stretches.len() {
                let kind = self.named(&self.timeline.name_of(stay[0].rank), "summary")?;
                self.plain(thread, kind, (start, end))?;
            }
        }
        Ok(())
    }

    /// A row of a rank for spans that are no activity of it: below its kernels, or in its own process, which stands
    /// `after` the step's where viewers count all slices.
    fn aside(&mut self, traced: &TracedRank, name: &str, after: u64) -> io::Result<Thread> {
        if self.sink.counts_all_slices() {
            return self.thread(self.timeline.world.ranks.len() as u64 + 1 + after, &traced.name);
        }
        self.row(traced, name)
    }

    /// A row of a rank's own process. Its name begins with the rank: a row that is pinned loses its process.
    fn row(&mut self, traced: &TracedRank, name: &str) -> io::Result<Thread> {
        self.thread(u64::from(traced.rank.0) + 1, &format!("{} {name}", traced.short_name()))
    }

    /// The process of a rank; `ends` are its ops' ends of arrows between ranks, `held_up` those at its stalls, `path`
    /// what of the critical path it has, in steps and op by op.
    pub fn rank(
        &mut self,
        traced: &TracedRank,
        ends: &[ArrowEnd],
        held_up: &[(u32, u64)],
        (path, on_path): (&[PathPiece], &[OpId]),
    ) -> io::Result<()> {
        let timeline = self.timeline;
        let rows = RankRows::new(timeline, traced, Pairs::Apart);
        self.summary.too_short += rows.too_short;
        let pid = u64::from(traced.rank.0) + 1;
        self.sink.process(pid, &traced.name, pid)?;

        let held = timeline.stalls.map_or_else(|| Rc::from([]), |stalls| stalls(traced.rank));
        let mut threads = Vec::with_capacity(rows.rows.len());
        let kernels = rows.rows.iter().filter(|row| row.kind == StreamKind::Compute).count();
        for row in &rows.rows[..kernels] {
            threads.push(self.row(traced, &row.name())?);
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
            threads.push(self.row(traced, &row.name())?);
        }

        let mut arrows = arrows::within_rank(timeline, traced, &rows, self.next_arrow, ends);
        let stall_ends =
            stalls::within_rank(timeline, traced, (&held, held_up), &rows, self.next_arrow, &mut arrows);
        self.next_arrow += arrows.count;
        self.summary.arrows += arrows.count;
        self.beside = SideOps::new(timeline, traced);
        self.on_path = on_path.iter().copied().collect();
        self.pieces(traced, &rows, &threads, &arrows)?;
        if let Some(thread) = self.sink.summary(pid) {
            self.overview(traced, &rows, &held, thread)?;
        }
        if let Some(thread) = path_thread {
            self.path(traced, thread, path)?;
        }
        if let Some(thread) = stall_thread {
            self.stalls(traced, thread, &held, &stall_ends)?;
        }
        self.summary.counter_values += counters::memory(timeline, traced, pid, &self.shared, self.sink)?;
        self.summary.counter_values += shares::write(timeline, traced, pid, &self.shared, self.sink)?;
        for count in timeline.counts.iter().filter(|count| count.rank == traced.rank) {
            let name = format!("{} {}", traced.short_name(), count.name);
            let track = self.sink.counter_track(pid, &name, "number", CounterUnit::Number)?;
            self.levels(track, &count.points)?;
        }
        Ok(())
    }

    fn pieces(
        &mut self,
        traced: &TracedRank,
        rows: &RankRows,
        threads: &[Thread],
        arrows: &Arrows,
    ) -> io::Result<()> {
        let timeline = self.timeline;
        let (mut out, mut into) = (arrows.out.as_slice(), arrows.into.as_slice());
        for (i, piece) in rows.pieces.iter().enumerate() {
            let kind = self.kind(traced, rows, piece)?;
            self.arguments(traced, rows, piece);
            take_ids(&mut out, i as u32, &mut self.ids[0]);
            take_ids(&mut into, i as u32, &mut self.ids[1]);
            let (start, end, alike) = (piece.start, piece.end, transferred(timeline, traced, rows, piece));
            let slice = Slice { start, end, alike, args: &self.args, out: &self.ids[0], into: &self.ids[1] };
            self.sink.slice(threads[piece.row as usize], kind, &slice)?;
        }
        self.summary.slices += rows.pieces.len() as u64;
        Ok(())
    }

    /// The passes of a rank once more, on the rank itself, between them why it stood still, and below a pass why it was
    /// held up in it, where that is long enough to be seen.
    fn overview(
        &mut self,
        traced: &TracedRank,
        rows: &RankRows,
        held: &[StallSlice],
        thread: Thread,
    ) -> io::Result<()> {
        let stalls = held.iter().filter_map(|s| Some((stalls::shown(self.timeline, s)?, s.cause)));
        let stalls: Vec<_> = stalls.collect();
        let seen = self.seen_inside(&stalls, &rows.turns);
        let (mut stalls, mut covered) = (stalls.into_iter().peekable(), 0);
        for piece in rows.turns.iter().map(Some).chain([None]) {
            let until = piece.map_or(u64::MAX, |piece| piece.start);
            while let Some(((start, end), cause)) = stalls.next_if(|((start, _), _)| *start < until) {
                let (start, end) = (start.max(covered), end.min(until));
                if start < end {
                    let kind = self.stall(cause, "summary")?;
                    self.plain(thread, kind, (start, end))?;
                }
            }
            let Some(piece) = piece else { break };
            let kind = self.pass(traced, rows, piece, "summary")?;
            self.plain(thread, kind, (piece.start, piece.end))?;
            covered = piece.end;
            while let Some(((start, end), cause)) = stalls.next_if(|((_, end), _)| *end <= piece.end) {
                if end - start >= seen {
                    let kind = self.stall(cause, "summary")?;
                    self.plain(thread, kind, (start, end))?;
                }
            }
        }
        Ok(())
    }

    /// A slice that its kind says all of.
    fn plain(&mut self, thread: Thread, kind: SliceKind, (start, end): (u64, u64)) -> io::Result<()> {
        self.put(thread, kind, &Slice { start, end, ..Slice::default() })
    }

    fn put(&mut self, thread: Thread, kind: SliceKind, slice: &Slice) -> io::Result<()> {
        self.summary.slices += 1;
        self.sink.slice(thread, kind, slice)
    }

    /// The points of a counter, the first at time zero.
    fn levels(&mut self, track: Counter, points: &[(Time, u64)]) -> io::Result<()> {
        let start = points.first().map_or(0, |point| point.1);
        let points = points.iter().skip(1).map(|(time, n)| (time.round_ns(), *n));
        let put = |ns, n| self.sink.counter(track, ns, Value::Uint(n));
        self.summary.counter_values += counters::write_steps(points, start, self.timeline.window_ns(), put)?;
        Ok(())
    }

    /// From how many nanoseconds on stalls inside passes are shown: what can be seen, where all that together is worth
    /// a row.
    fn seen_inside(&self, stalls: &[((u64, u64), &str)], passes: &[SlicePiece]) -> u64 {
        let (from, until) = self.timeline.window_ns();
        let shown = until.min(self.timeline.record.step_end.round_ns()) - from;
        let seen = shown / PARTS_SEEN;
        let inside = |(start, end): (u64, u64)| {
            let pass = passes.partition_point(|pass| pass.start <= start).checked_sub(1).map(|i| &passes[i]);
            end - start >= seen && pass.is_some_and(|pass| end <= pass.end)
        };
        let together: u64 = stalls.iter().filter(|stall| inside(stall.0)).map(|((a, b), _)| b - a).sum();
        if together >= shown / WORTH_A_ROW { seen } else { u64::MAX }
    }

    /// The part of the critical path on a rank.
    fn path(&mut self, traced: &TracedRank, thread: Thread, path: &[PathPiece]) -> io::Result<()> {
        let program = self.timeline.world.program_of(traced.rank);
        let number = self.timeline.world.ranks[traced.rank.index()].program.index();
        for step in path {
            if let Some(wait) = step.wait {
                self.path_wait(traced, thread, step, wait)?;
                continue;
            }
            let op = &program.ops[step.link.op.index()];
            let key = (number, op.info, step.ops > 1);
            let kind = match self.kinds.critical.get(&key) {
                Some(kind) => *kind,
                None => {
                    let kind = self.critical(program, op, key.2)?;
                    self.kinds.critical.insert(key, kind);
                    kind
                }
            };
            let (start, end) = (step.link.start.round_ns(), step.link.end.round_ns());
            self.args.clear();
            let micro_batch = names::micro_batch(op.micro_batch);
            self.args.extend(micro_batch.map(|m| (self.keys.micro_batch, m)));
            self.args.push((self.keys.rank, Value::Uint(u64::from(traced.rank.0))));
            self.args.extend((step.ops > 1).then_some((self.keys.ops, Value::Uint(step.ops))));
            let (out, into) = (step.out.as_slice(), step.into.as_slice());
            self.sink.slice(thread, kind, &Slice { start, end, args: &self.args, out, into, alike: None })?;
            self.summary.slices += 1;
        }
        Ok(())
    }

    /// A wait on the path: of a launch on its way, of an op for room.
    fn path_wait(
        &mut self,
        traced: &TracedRank,
        thread: Thread,
        step: &PathPiece,
        wait: &str,
    ) -> io::Result<()> {
        let kind = self.named(wait, "critical")?;
        let (start, end) = (step.link.start.round_ns(), step.link.end.round_ns());
        let args = [(self.keys.rank, Value::Uint(u64::from(traced.rank.0)))];
        self.put(thread, kind, &Slice { start, end, args: &args, ..Slice::default() })
    }

    /// The kind of a step of the critical path that is one op, or `several`.
    fn critical(&mut self, program: &Program, op: &Op, several: bool) -> io::Result<SliceKind> {
        let row = program.streams[usize::from(op.stream)].kind;
        let info = &program.infos[op.info as usize];
        if !several {
            return self.sink.kind(&names::op(row, info), "critical", &names::arguments(info));
        }
        let layer = info.layer.filter(|_| self.timeline.detail == Detail::Layer);
        let phase = [("phase", Value::Text(info.phase.name()))];
        let args: Vec<_> = phase.into_iter().chain(names::place_arguments(layer, NO_MICRO_BATCH)).collect();
        self.sink.kind(&names::stretch(row, layer, info.phase), "critical", &args)
    }

    /// The kind of a stall by its cause, or of a stretch of them by its name.
    fn stall(&mut self, name: &str, category: &'static str) -> io::Result<SliceKind> {
        self.kind_of(name, category, &[("cause", Value::Text(name))])
    }

    /// A kind that its name says all of.
    fn named(&mut self, name: &str, category: &'static str) -> io::Result<SliceKind> {
        self.kind_of(name, category, &[])
    }

    fn kind_of(
        &mut self,
        name: &str,
        category: &'static str,
        args: &[(&str, Value)],
    ) -> io::Result<SliceKind> {
        let known = self.kinds.named.entry(category).or_default();
        if let Some(kind) = known.get(name) {
            return Ok(*kind);
        }
        let kind = self.sink.kind(name, category, args)?;
        known.insert(name.to_owned(), kind);
        Ok(kind)
    }

    /// The stalls of a rank, and around those that follow each other one slice; `ends` are the arrows that leave and
    /// that arrive, by the stall's number.
    fn stalls(
        &mut self,
        traced: &TracedRank,
        thread: Thread,
        held: &[StallSlice],
        ends: &[Vec<(u32, u64)>; 2],
    ) -> io::Result<()> {
        let (mut out, mut into) = (ends[0].as_slice(), ends[1].as_slice());
        let mut stretches = stalls::stretches(self.timeline, held).into_iter().peekable();
        for (i, stall) in (0..).zip(held) {
            let Some((start, end)) = stalls::shown(self.timeline, stall) else { continue };
            let kind = self.stall(stall.cause, "stall")?;
            if let Some(stretch) = stretches.next_if(|stretch| stretch.first == i) {
                let kind = self.stall(&stretch.name, "stalls")?;
                let (start, end) = stretch.span;
                let args = [(self.keys.stalls, Value::Uint(stretch.stalls))];
                self.put(thread, kind, &Slice { start, end, args: &args, ..Slice::default() })?;
            }
            let mut args = vec![(self.keys.rank, Value::Uint(u64::from(traced.rank.0)))];
            if !stall.waited_for.is_empty() {
                args.push((self.keys.waited_for, Value::Text(&stall.waited_for)));
            }
            let keys = [self.keys.waited_rank, self.keys.waited_layer, self.keys.waited_micro_batch];
            let waited = keys.into_iter().zip(stalls::waited(self.timeline, stall));
            args.extend(waited.filter_map(|(key, value)| Some((key, Value::Uint(value?)))));
            if let Some((link, sharers)) = &stall.shared {
                args.push((self.keys.link, Value::Text(link)));
                args.push((self.keys.sharers, Value::Uint(u64::from(*sharers))));
            }
            take_ids(&mut out, i, &mut self.ids[0]);
            take_ids(&mut into, i, &mut self.ids[1]);
            let (out, into) = (self.ids[0].as_slice(), self.ids[1].as_slice());
            self.sink.slice(thread, kind, &Slice { start, end, args: &args, out, into, alike: None })?;
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
            let track = self.sink.counter_track(pid, &name, "%", CounterUnit::Percent)?;
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

impl TimelineLayout<'_> {
    /// The process with the tiers that ranks share: the total beside what there is, then who holds how much.
    pub fn pools(&mut self) -> io::Result<()> {
        let timeline = self.timeline;
        if timeline.pools.is_empty() {
            return Ok(());
        }
        let pid = timeline.world.ranks.len() as u64 + 1 + POOLS;
        self.sink.process(pid, "pools", pid)?;
        for pool in timeline.pools {
            let capacity = ("capacity".to_owned(), vec![(Time::ZERO, pool.capacity)]);
            let (total, others) = pool.levels.split_at(pool.levels.len().min(1));
            for (series, points) in total.iter().chain([&capacity]).chain(others) {
                let name = format!("{} bytes", pool.name);
                let track = self.sink.counter_track(pid, &name, series, CounterUnit::Bytes)?;
                self.levels(track, points)?;
            }
        }
        Ok(())
    }
}

/// The micro-batch that an end of a transfer between stages carries: one colour for it on all ranks.
fn transferred(timeline: &Timeline, traced: &TracedRank, rows: &RankRows, piece: &SlicePiece) -> Option<u32> {
    let row = rows.rows[piece.row as usize].kind;
    let [op] = rows.ops_of(piece) else { return None };
    let carries = matches!(row, StreamKind::PipelineSend | StreamKind::PipelineRecv);
    let micro_batch = timeline.world.program_of(traced.rank).ops[op.index()].micro_batch;
    (carries && micro_batch != NO_MICRO_BATCH).then_some(micro_batch)
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
