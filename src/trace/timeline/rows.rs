//! Which op stands on which row, alone or in a slice with its neighbours.

use super::layout::{direction, span};
use super::{Detail, Timeline, TracedRank, names};
use crate::ids::OpId;
use crate::program::{Program, StreamKind};

/// A row of slices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// What its streams are for.
    pub kind: StreamKind,
    /// Its place among the rows of that kind.
    pub lane: u32,
}

impl Row {
    /// The name on screen: `compute`, `pp send`, `pp send 2`.
    pub fn name(self) -> String {
        match self.lane {
            0 => self.kind.name().to_owned(),
            lane => format!("{} {}", self.kind.name(), lane + 1),
        }
    }
}

/// What becomes one slice: an op, or ops that follow each other on one stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Start in nanoseconds.
    pub start: u64,
    /// End in nanoseconds, later than the start.
    pub end: u64,
    /// Index into `Rows::rows`.
    pub row: u32,
    first: u32,
    count: u32,
}

/// All rows of a rank.
#[derive(Debug, Default)]
pub struct Rows {
    /// In the order on screen.
    pub rows: Vec<Row>,
    /// Row by row, in order of time.
    pub pieces: Vec<Piece>,
    /// Ops that are empty when rounded.
    pub too_short: u64,
    order: Vec<OpId>,
}

impl Rows {
    /// The rows of a rank, with what touches the window.
    pub fn new(timeline: &Timeline, traced: &TracedRank) -> Rows {
        let program = timeline.world.program_of(traced.rank);
        let mut kinds: Vec<StreamKind> = program.streams.iter().map(|stream| stream.kind).collect();
        kinds.sort();
        kinds.dedup();
        let mut rows = Rows::default();
        for kind in kinds {
            let mut pieces = Vec::new();
            for stream in program.streams.iter().filter(|stream| stream.kind == kind) {
                rows.stream(timeline, traced, program, kind, &stream.ops, &mut pieces);
            }
            pieces.sort_by_key(|piece| (piece.start, piece.end));
            rows.lanes(kind, pieces);
        }
        rows
    }

    /// The ops of a piece, in order.
    pub fn ops_of(&self, piece: &Piece) -> &[OpId] {
        &self.order[piece.first as usize..(piece.first + piece.count) as usize]
    }

    /// Cuts a stream into pieces.
    fn stream(
        &mut self,
        timeline: &Timeline,
        traced: &TracedRank,
        program: &Program,
        kind: StreamKind,
        ops: &[OpId],
        pieces: &mut Vec<Piece>,
    ) {
        let window = timeline.window_ns();
        let together = |a: &OpId, b: &OpId| together(timeline.detail, program, kind, *a, *b);
        for group in ops.chunk_by(together) {
            let start = span(timeline, traced, group[0]).0.round_ns();
            let end = span(timeline, traced, group[group.len() - 1]).1.round_ns();
            if start >= end {
                self.too_short += group.len() as u64;
            } else if end > window.0 && start < window.1 {
                let first = self.order.len() as u32;
                self.order.extend_from_slice(group);
                pieces.push(Piece { start, end, row: 0, first, count: group.len() as u32 });
            }
        }
    }

    /// Gives each piece the first row of its kind that is free.
    fn lanes(&mut self, kind: StreamKind, mut pieces: Vec<Piece>) {
        let first_row = self.rows.len() as u32;
        let mut free_from: Vec<u64> = Vec::new();
        for piece in &mut pieces {
            let lane = free_from.iter().position(|free| *free <= piece.start).unwrap_or_else(|| {
                self.rows.push(Row { kind, lane: free_from.len() as u32 });
                free_from.push(0);
                free_from.len() - 1
            });
            free_from[lane] = piece.end;
            piece.row = first_row + lane as u32;
        }
        pieces.sort_by_key(|piece| piece.row);
        self.pieces.append(&mut pieces);
    }
}

/// Whether two ops that follow each other on a stream stand in one slice. Ends of transfers stand alone: they have
/// arrows between ranks.
fn together(detail: Detail, program: &Program, kind: StreamKind, a: OpId, b: OpId) -> bool {
    let (a, b) = (&program.ops[a.index()], &program.ops[b.index()]);
    let (x, y) = (&program.infos[a.info as usize], &program.infos[b.info as usize]);
    detail != Detail::Op
        && a.micro_batch == b.micro_batch
        && (detail == Detail::Phase || x.layer == y.layer)
        && names::same_pass(x.phase, y.phase)
        && direction(kind, &x.name).is_none()
        && direction(kind, &y.name).is_none()
}
