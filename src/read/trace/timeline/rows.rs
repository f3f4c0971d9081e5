//! The row and the slices of each op.
//!
//! Rows of kernels nest: a pass, in it its layers, in them the ops. Where ops are not shown one by one, what stands
//! in a pass are stretches of its ops, or of one layer's, that nothing interrupts: a slice of kernels never lies over
//! a stall, so that their sum is the busy time at every detail. Other rows have one level.
//!
//! Two passes that are taken in turn stand on a row each, the forward pass on the first, kernels with their pass.

use super::passes;
use super::places::{direction, span};
use super::shown::{Detail, Timeline, TracedRank};
use stepsim_core::ids::OpId;
use stepsim_core::program::{Program, StreamKind};

/// A row of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SliceRow {
    /// The purpose of its streams.
    pub kind: StreamKind,
    /// Its place among the rows of that kind.
    pub lane: u32,
}

impl SliceRow {
    /// The name on screen: `compute`, `pp send`, `pp send 2`.
    pub fn name(self) -> String {
        match self.lane {
            0 => self.kind.name().to_owned(),
            lane => format!("{} {}", self.kind.name(), lane + 1),
        }
    }
}

/// The meaning of a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SliceLevel {
    /// A pass of a micro-batch.
    Pass,
    /// The part of a pass in one layer.
    Layer,
    /// One op, or ops in a row that are not shown one by one.
    Op,
}

/// One slice: an op, or ops that follow each other on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlicePiece {
    /// Start in nanoseconds.
    pub start: u64,
    /// End in nanoseconds, later than the start.
    pub end: u64,
    /// Index into `RankRows::rows`; before rows are given out, the first row of its kind that it may stand on.
    pub row: u32,
    /// Its meaning.
    pub level: SliceLevel,
    first: u32,
    count: u32,
}

/// All rows of a rank.
#[derive(Debug, Default)]
pub struct RankRows {
    /// In the order on screen.
    pub rows: Vec<SliceRow>,
    /// Row by row, in order of time, outer slices before what lies in them.
    pub pieces: Vec<SlicePiece>,
    /// Passes in order of time; two that are taken in turn are one. None begins before the last one ended.
    pub turns: Vec<SlicePiece>,
    /// Ops that are empty when rounded.
    pub too_short: u64,
    order: Vec<OpId>,
}

/// The facts that streams are cut into pieces by.
struct Cutter<'t> {
    timeline: &'t Timeline<'t>,
    traced: &'t TracedRank,
    program: &'t Program,
    window: (u64, u64),
    pairs: Pairs,
}

impl Cutter<'_> {
    /// Start and end of ops in a row, in nanoseconds. Of a run that was cut short, ops that never ran count for
    /// nothing.
    fn span(&self, ops: &[OpId]) -> (u64, u64) {
        let start = span(self.timeline, self.traced, ops[0]).0.round_ns();
        let ends = ops.iter().rev().map(|op| span(self.timeline, self.traced, *op).1.round_ns());
        (start, ends.into_iter().find(|end| *end > start).unwrap_or(start))
    }

    /// True if the second op begins where the first ended.
    fn touch(&self, a: OpId, b: OpId) -> bool {
        let (end, start) = (span(self.timeline, self.traced, a).1, span(self.timeline, self.traced, b).0);
        end.round_ns() >= start.round_ns()
    }
}

/// Where two passes stand that are taken in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// In one slice, as they run: on one stream.
    Together,
    /// On a row each.
    Apart,
}

impl RankRows {
    /// The rows of a rank, with what touches the window.
    pub fn new(timeline: &Timeline, traced: &TracedRank, pairs: Pairs) -> RankRows {
        let mut rows = RankRows::default();
        rows.cut(timeline, traced, pairs, &mut RankRows::lanes);
        rows
    }

    /// How many slices they come to, passes in time once more.
    pub fn count(timeline: &Timeline, traced: &TracedRank, pairs: Pairs) -> usize {
        let (mut rows, mut count) = (RankRows::default(), 0);
        rows.cut(timeline, traced, pairs, &mut |rows, _, pieces| {
            count += pieces.len();
            rows.order.clear();
        });
        count + rows.turns.len()
    }

    /// At least as many as [`Self::count`] at any detail: all ops, and a layer or a pass, which stands there twice,
    /// where kernels may begin one.
    pub fn most(timeline: &Timeline, traced: &TracedRank) -> u64 {
        let program = timeline.world.program_of(traced.rank);
        let begins = |pair: &[OpId]| match (pair[0], pair[1]) {
            (a, b) if !passes::same(program, a, b) => 3,
            (a, b) => u64::from(!passes::same_layer(program, a, b)),
        };
        let kernels = program.streams.iter().filter(|stream| stream.kind == StreamKind::Compute);
        let outer = kernels.map(|stream| 3 + stream.ops.windows(2).map(begins).sum::<u64>());
        program.ops.len() as u64 + outer.sum::<u64>()
    }

    /// Cuts all streams, kind by kind, and hands their pieces over.
    fn cut(
        &mut self,
        timeline: &Timeline,
        traced: &TracedRank,
        pairs: Pairs,
        take: &mut dyn FnMut(&mut RankRows, StreamKind, Vec<SlicePiece>),
    ) {
        let program = timeline.world.program_of(traced.rank);
        let cutter = Cutter { timeline, traced, program, window: timeline.window_ns(), pairs };
        let mut kinds: Vec<StreamKind> = program.streams.iter().map(|stream| stream.kind).collect();
        kinds.sort();
        kinds.dedup();
        for kind in kinds {
            let mut pieces = Vec::new();
            for stream in program.streams.iter().filter(|stream| stream.kind == kind) {
                if kind == StreamKind::Compute {
                    self.passes(&cutter, &stream.ops, &mut pieces);
                } else {
                    self.stream(&cutter, kind, &stream.ops, &mut pieces);
                }
            }
            take(self, kind, pieces);
        }
        self.turns.sort_by_key(|turn| (turn.start, turn.end));
        let mut ended = 0;
        self.turns.retain(|turn| {
            let after = turn.start >= ended;
            ended = if after { turn.end } else { ended };
            after
        });
    }

    /// The ops of a piece, in order.
    pub fn ops_of(&self, piece: &SlicePiece) -> &[OpId] {
        &self.order[piece.first as usize..(piece.first + piece.count) as usize]
    }

    /// True if a piece stands for several ops and is not over at `ns`: an arrow from it to there would say little.
    pub fn goes_on(&self, piece: &SlicePiece, ns: u64) -> bool {
        piece.count > 1 && piece.end > ns
    }

    /// Adds a piece if anything of it is shown.
    fn put(
        &mut self,
        cutter: &Cutter,
        level: SliceLevel,
        ops: &[OpId],
        first: u32,
        pieces: &mut Vec<SlicePiece>,
    ) {
        let (start, end) = cutter.span(ops);
        if start >= end {
            self.too_short += if level == SliceLevel::Op { ops.len() as u64 } else { 0 };
        } else if end > cutter.window.0 && start < cutter.window.1 {
            pieces.push(SlicePiece { start, end, row: 0, level, first, count: ops.len() as u32 });
        }
    }

    /// Cuts a stream that is not of kernels.
    fn stream(&mut self, cutter: &Cutter, kind: StreamKind, ops: &[OpId], pieces: &mut Vec<SlicePiece>) {
        let together = |a: &OpId, b: &OpId| together(cutter.timeline.detail, cutter.program, kind, *a, *b);
        for group in ops.chunk_by(together) {
            let first = self.order.len() as u32;
            self.order.extend_from_slice(group);
            self.put(cutter, SliceLevel::Op, group, first, pieces);
        }
    }

    /// Cuts a stream of kernels into passes.
    fn passes(&mut self, cutter: &Cutter, ops: &[OpId], pieces: &mut Vec<SlicePiece>) {
        for turn in passes::cut(cutter.program, ops) {
            let (first, from) = (self.order.len() as u32, pieces.len());
            match cutter.pairs {
                Pairs::Together => self.pass(cutter, turn, pieces),
                Pairs::Apart => {
                    for (row, pass) in (0..).zip(passes::apart(cutter.program, turn)) {
                        let before = pieces.len();
                        self.pass(cutter, &pass, pieces);
                        pieces[before..].iter_mut().for_each(|piece| piece.row = row);
                    }
                }
            }
            let shown = pieces[from..].iter().filter(|piece| piece.level == SliceLevel::Pass);
            let span = shown.map(|pass| (pass.start, pass.end)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
            let (level, count) = (SliceLevel::Pass, turn.len() as u32);
            self.turns.extend(span.map(|(start, end)| SlicePiece {
                start,
                end,
                row: 0,
                level,
                first,
                count,
            }));
        }
    }

    /// Cuts a pass into layers and ops.
    fn pass(&mut self, cutter: &Cutter, pass: &[OpId], pieces: &mut Vec<SlicePiece>) {
        let (program, detail) = (cutter.program, cutter.timeline.detail);
        let mut first = self.order.len() as u32;
        self.order.extend_from_slice(pass);
        self.put(cutter, SliceLevel::Pass, pass, first, pieces);
        let by_layer = |a: &OpId, b: &OpId| passes::same_layer(program, *a, *b);
        if detail != Detail::Op {
            let stretch = |a: &OpId, b: &OpId| {
                passes::same(program, *a, *b)
                    && (detail >= Detail::Phase || by_layer(a, b))
                    && cutter.touch(*a, *b)
            };
            for group in pass.chunk_by(stretch) {
                self.put(cutter, SliceLevel::Op, group, first, pieces);
                first += group.len() as u32;
            }
            return;
        }
        for layer in pass.chunk_by(by_layer) {
            let of_layer = program.infos[program.ops[layer[0].index()].info as usize].layer;
            if of_layer.is_some() {
                self.put(cutter, SliceLevel::Layer, layer, first, pieces);
            }
            for op in layer {
                self.put(cutter, SliceLevel::Op, &[*op], first, pieces);
                first += 1;
            }
        }
    }

    /// Gives each outermost piece the first row of its kind that is free, and what lies in it the same.
    fn lanes(&mut self, kind: StreamKind, pieces: Vec<SlicePiece>) {
        let first_row = self.rows.len() as u32;
        let nested =
            |_: &SlicePiece, next: &SlicePiece| kind == StreamKind::Compute && next.level != SliceLevel::Pass;
        let mut families: Vec<&[SlicePiece]> = pieces.chunk_by(nested).collect();
        families.sort_by_key(|family| (family[0].start, family[0].end));
        // By lane, when it is free again and what stands on it.
        let mut lanes: Vec<(u64, Vec<SlicePiece>)> = Vec::new();
        for family in families {
            let outer = family[0];
            let is_free = |(i, lane): (usize, &(u64, Vec<SlicePiece>))| {
                i >= outer.row as usize && lane.0 <= outer.start
            };
            let free = lanes.iter().enumerate().position(is_free);
            let lane = free.unwrap_or(lanes.len().max(outer.row as usize));
            while lanes.len() <= lane {
                self.rows.push(SliceRow { kind, lane: lanes.len() as u32 });
                lanes.push((0, Vec::new()));
            }
            let row = first_row + lane as u32;
            lanes[lane].0 = outer.end;
            lanes[lane].1.extend(family.iter().map(|piece| SlicePiece { row, ..*piece }));
        }
        self.pieces.extend(lanes.into_iter().flat_map(|lane| lane.1));
    }
}

/// True if two ops that follow each other on a stream that is not of kernels stand in one slice. Ends of transfers
/// stand alone: they have arrows between ranks.
fn together(detail: Detail, program: &Program, kind: StreamKind, a: OpId, b: OpId) -> bool {
    let [x, y] = [a, b].map(|id| &program.infos[program.ops[id.index()].info as usize]);
    detail != Detail::Op
        && passes::same(program, a, b)
        && (detail >= Detail::Phase || x.layer == y.layer)
        && direction(kind, &x.name).is_none()
        && direction(kind, &y.name).is_none()
}
