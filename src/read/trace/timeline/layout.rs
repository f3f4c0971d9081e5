//! Puts a timeline into a sink, process by process.

use std::io;
use std::rc::Rc;

use rustc_hash::FxHashSet;

use super::arrows::{self, ArrowEnd, Arrows};
use super::beside::SideOps;
use super::critical::{self, PathPiece, PathSlice};
use super::keys::{Keys, SliceKinds};
use super::rows::{Pairs, RankRows, SlicePiece, SliceRow};
use super::shown::{Detail, StallSlice, Timeline, TimelineSummary, TracedRank};
use super::{counters, names, shares, stalls};
use crate::analysis::memory;
use crate::trace::writer::{ArgumentName, Counter, CounterUnit, Sink, Slice, SliceKind, Thread, Value};
use stepsim_core::ids::OpId;
use stepsim_core::program::{NO_MICRO_BATCH, Op, Program, StreamKind};
use stepsim_core::units::Time;

/// Place of the process for shared tiers after the step's.
const POOLS: u64 = 2;

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
        Ok(TimelineLayout {
            timeline,
            sink,
            keys,
            kinds: SliceKinds::default(),
            next_arrow: 1,
            summary: TimelineSummary::default(),
            on_path: FxHashSet::default(),
            beside: SideOps::default(),
            shared: memory::users(timeline.world).iter().map(|users| users.len() > 1).collect(),
            args: Vec::new(),
            ids: [Vec::new(), Vec::new()],
        })
    }

    /// The process with the slice that spans the step.
    pub fn step(&mut self) -> io::Result<()> {
        let pid = self.timeline.world.ranks.len() as u64 + 1;
        self.sink.process(pid, "step")?;
        let stretches = critical::stretches(self.timeline);
        let thread = self.sink.thread(pid, "step")?;
        let kind = self.sink.kind(&self.answer(&stretches), "step", &self.timeline.meta.values())?;
        let (start, stop) = self.timeline.window_ns();
        let end = self.timeline.record.step_end.round_ns().min(stop).max(start + 1);
        self.plain(thread, kind, (start, end))?;
        self.whole_path(pid, &stretches)
    }

    /// The one sentence on the step: what it hangs on, or where its critical path runs.
    fn answer(&self, stretches: &[PathSlice]) -> String {
        match self.timeline.meta.hangs_on() {
            Some(text) => text.to_owned(),
            None if stretches.is_empty() => "step".to_owned(),
            None => critical::in_words(self.timeline, stretches),
        }
    }

    /// The critical path from its start to its end as one row: the ranks that it stays on, in them the passes, in those
    /// the ops.
    fn whole_path(&mut self, pid: u64, stretches: &[PathSlice]) -> io::Result<()> {
        if stretches.is_empty() {
            return Ok(());
        }
        if let Some(summary) = self.sink.summary(pid) {
            self.path_at_a_glance(summary, stretches)?;
        }
        let thread = self.sink.thread(pid, "critical path")?;
        let pieces = critical::pieces(self.timeline);
        let mut pieces = pieces.iter().peekable();
        for stay in stretches.chunk_by(|a, b| a.rank == b.rank) {
            let (start, end) = (stay[0].start, stay[stay.len() - 1].end);
            let kind = self.named(&self.timeline.name_of(stay[0].rank), "path")?;
            let args = [(self.keys.rank, Value::Uint(u64::from(stay[0].rank.0)))];
            self.put(thread, kind, &Slice { start, end, args: &args, ..Slice::default() })?;
            for pass in stay {
                let kind = self.named(&names::pass([(pass.phase, pass.micro_batch)]), "path pass")?;
                self.plain(thread, kind, (pass.start, pass.end))?;
                while let Some(piece) = pieces.next_if(|piece| piece.link.start.round_ns() < pass.end) {
                    self.path_piece(thread, piece)?;
                }
            }
        }
        Ok(())
    }

    /// An op of the path, several, or a wait on it: of a launch on its way, of an op for room.
    fn path_piece(&mut self, thread: Thread, piece: &PathPiece) -> io::Result<()> {
        let (world, link) = (self.timeline.world, &piece.link);
        let program = world.program_of(link.rank);
        let op = &program.ops[link.op.index()];
        let (start, end) = (link.start.round_ns(), link.end.round_ns());
        let mut args = vec![(self.keys.rank, Value::Uint(u64::from(link.rank.0)))];
        let kind = match piece.wait {
            Some(wait) => self.named(wait, "critical")?,
            None => {
                let key = (world.ranks[link.rank.index()].program.index(), op.info, piece.ops > 1);
                args.extend(names::micro_batch(op.micro_batch).map(|m| (self.keys.micro_batch, m)));
                args.extend(key.2.then_some((self.keys.ops, Value::Uint(piece.ops))));
                match self.kinds.critical.get(&key) {
                    Some(kind) => *kind,
                    None => {
                        let kind = self.critical(program, op, key.2)?;
                        self.kinds.critical.insert(key, kind);
                        kind
                    }
                }
            }
        };
        self.put(thread, kind, &Slice { start, end, args: &args, ..Slice::default() })
    }

    /// The step's own row, which shows while all else is folded away: the one sentence on the step, and below that, of
    /// the critical path, the ranks that it stays on long enough to be seen.
    fn path_at_a_glance(&mut self, thread: Thread, stretches: &[PathSlice]) -> io::Result<()> {
        let (start, end) = (stretches[0].start, stretches[stretches.len() - 1].end);
        let kind = self.named(&self.answer(stretches), "summary")?;
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

    /// The process of a rank; `ends` are its ops' ends of arrows between ranks, `held_up` those at its stalls,
    /// `on_path` its ops on the critical path.
    pub fn rank(
        &mut self,
        traced: &TracedRank,
        ends: &[ArrowEnd],
        held_up: &[(u32, u64)],
        on_path: FxHashSet<OpId>,
    ) -> io::Result<()> {
        let timeline = self.timeline;
        let rows = RankRows::new(timeline, traced, Pairs::Apart);
        self.summary.too_short += rows.too_short;
        let pid = u64::from(traced.rank.0) + 1;
        self.sink.process(pid, &traced.name)?;
        self.on_path = on_path;
        let held = timeline.stalls.map_or_else(|| Rc::from([]), |stalls| stalls(traced.rank));
        if timeline.detail == Detail::Pass {
            let (first, _) = self.row_names(traced);
            let thread = match self.sink.summary(pid) {
                Some(thread) => thread,
                None => self.sink.thread(pid, first.as_deref().unwrap_or(&traced.name))?,
            };
            return self.overview(traced, &rows, &held, thread);
        }
        let (threads, stall_thread) = self.threads(traced, &rows, &held)?;

        let mut arrows = arrows::within_rank(timeline, traced, &rows, self.next_arrow, ends);
        let stall_ends =
            stalls::within_rank(timeline, traced, (&held, held_up), &rows, self.next_arrow, &mut arrows);
        self.next_arrow += arrows.count;
        self.summary.arrows += arrows.count;
        self.beside = SideOps::new(timeline, traced);
        self.pieces(traced, &rows, &threads, &arrows)?;
        if let Some(thread) = self.sink.summary(pid) {
            self.overview(traced, &rows, &held, thread)?;
        }
        if let Some(thread) = stall_thread {
            self.stalls(traced, thread, &held, &stall_ends)?;
        }
        let (_, number) = self.row_names(traced);
        self.summary.counter_values +=
            counters::memory(timeline, traced, (pid, &number), &self.shared, self.sink)?;
        self.summary.counter_values +=
            shares::write(timeline, traced, (pid, &number), &self.shared, self.sink)?;
        for count in timeline.counts.iter().filter(|count| count.rank == traced.rank) {
            let name = format!("{number} {}", count.name);
            let track = self.sink.counter_track(pid, &name, "number", CounterUnit::Number)?;
            self.levels(track, &count.points)?;
        }
        Ok(())
    }

    /// The name of a rank's first row, where it has one of its own, and what its other rows begin with: a row that is
    /// pinned loses its process.
    fn row_names(&self, traced: &TracedRank) -> (Option<String>, String) {
        match self.sink.is_one_process() {
            true => traced.row_names(),
            false => (None, traced.short_name().to_owned()),
        }
    }

    /// The rows of a rank, by their place in `rows`, and that of its stalls, if it has any. Kernels come first, then
    /// the stalls, then what somebody waits for.
    fn threads(
        &mut self,
        traced: &TracedRank,
        rows: &RankRows,
        held: &[StallSlice],
    ) -> io::Result<(Vec<Thread>, Option<Thread>)> {
        let pid = u64::from(traced.rank.0) + 1;
        let (mut first, number) = self.row_names(traced);
        let waited_for = self.waited_for(traced, held);
        let is_last = |row: &SliceRow| row.kind != StreamKind::Compute && !waited_for.contains(&row.kind);
        let mut threads = vec![None; rows.rows.len()];
        let mut stall_thread = None;
        let kernels = rows.rows.iter().filter(|row| row.kind == StreamKind::Compute).count();
        for (i, row) in rows.rows.iter().enumerate().filter(|(_, row)| !is_last(row)) {
            if i >= kernels && stall_thread.is_none() && !held.is_empty() {
                stall_thread = Some(self.sink.thread(pid, &format!("{number} stalls"))?);
            }
            let name = first.take().unwrap_or_else(|| format!("{number} {}", row.name()));
            threads[i] = Some(self.sink.thread(pid, &name)?);
        }
        if !held.is_empty() && stall_thread.is_none() {
            stall_thread = Some(self.sink.thread(pid, &format!("{number} stalls"))?);
        }
        for (thread, row) in threads.iter_mut().zip(&rows.rows).filter(|(thread, _)| thread.is_none()) {
            *thread = Some(self.sink.last_thread(pid, &format!("{number} {}", row.name()))?);
        }
        Ok((threads.into_iter().flatten().collect(), stall_thread))
    }

    /// The kinds of streams of a rank that it waits for, or that lie on the critical path.
    fn waited_for(&self, traced: &TracedRank, held: &[StallSlice]) -> Vec<StreamKind> {
        let program = self.timeline.world.program_of(traced.rank);
        let mine = held.iter().flat_map(|stall| [stall.op, stall.blocker]).flatten();
        let mine = mine.filter(|(rank, _)| *rank == traced.rank).map(|(_, op)| op);
        let kind = |op: OpId| program.streams[usize::from(program.ops[op.index()].stream)].kind;
        let mut kinds: Vec<StreamKind> = mine.chain(self.on_path.iter().copied()).map(kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        kinds
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

    /// The kind of a piece of the critical path that is one op, or `several`.
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

    /// The kind of a stall by its cause, or of a stretch of them by its causes.
    fn stall(&mut self, cause: &str, category: &'static str) -> io::Result<SliceKind> {
        self.kind_of(&names::waiting(cause), category, &[("cause", Value::Text(cause))])
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
            let exposes = stalls::exposes(self.timeline, traced, stall);
            args.extend(exposes.map(|kind| (self.keys.exposes, Value::Text(kind.name()))));
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
        self.sink.process(pid, "links")?;
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
    /// The process with the numbers of ranks that do each thing.
    pub fn all_ranks(&mut self) -> io::Result<()> {
        let timeline = self.timeline;
        if timeline.doing.is_empty() {
            return Ok(());
        }
        let pid = timeline.world.ranks.len() as u64 + 2 + POOLS;
        self.sink.process(pid, "all ranks")?;
        for (what, points) in timeline.doing {
            let track =
                self.sink.counter_track(pid, &format!("ranks: {what}"), "number", CounterUnit::Number)?;
            self.levels(track, points)?;
        }
        Ok(())
    }

    /// The process with the tiers that ranks share: the total beside what there is, then who holds how much.
    pub fn pools(&mut self) -> io::Result<()> {
        let timeline = self.timeline;
        if timeline.pools.is_empty() {
            return Ok(());
        }
        let pid = timeline.world.ranks.len() as u64 + 1 + POOLS;
        self.sink.process(pid, "pools")?;
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
