//! Arrows: from a cause to what it set off.
//!
//! Between ranks: from a send to its receive, when both ranks are shown. The n-th op of one member of a two-member
//! communicator belongs to the n-th of the other.
//!
//! Within a rank: to each op from the one that it waited for last on another stream, if nothing held the op up after
//! that: a kernel starts when its wait and its predecessor have ended, communication perhaps later because of its
//! other members. Copies towards the device and receives have an arrow to their user in any case: whether a prefetch
//! came early is what one looks for.

use super::places::{TransferEnd, direction, places, span};
use super::rows::{RankRows, SliceLevel};
use super::shown::{Detail, Timeline, TracedRank};
use crate::trace::writer::arrow_head;
use stepsim_core::ids::{CommId, OpId};
use stepsim_core::program::{Op, Program, StreamKind, Work};

/// An op's end of an arrow between ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArrowEnd {
    /// The op.
    pub op: OpId,
    /// The arrow.
    pub id: u64,
    /// At which end of the arrow it stands.
    pub direction: TransferEnd,
}

/// Arrows between ranks, numbered from 1.
#[derive(Debug)]
pub struct Between {
    /// How many.
    pub count: u64,
    /// For each traced rank, its ends.
    pub ends: Vec<Vec<ArrowEnd>>,
}

/// One op of a two-member communicator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TransferHalf {
    comm: CommId,
    ordinal: u32,
    direction: TransferEnd,
    place: usize,
    op: OpId,
}

/// Pairs the sends and receives of the traced ranks.
pub fn between_ranks(timeline: &Timeline) -> Between {
    let places = places(timeline);
    let mut halves = Vec::new();
    let shown = if timeline.detail < Detail::Pass { timeline.ranks } else { &[] };
    for (place, traced) in shown.iter().enumerate() {
        halves_of(timeline, traced, place, &places, &mut halves);
    }
    halves.sort();
    let mut between = Between { count: 0, ends: vec![Vec::new(); timeline.ranks.len()] };
    for pair in halves.chunk_by(|a, b| (a.comm, a.ordinal) == (b.comm, b.ordinal)) {
        let [send, receive] = pair else { continue };
        let seen = |half: &TransferHalf| timeline.seen(span(timeline, &timeline.ranks[half.place], half.op));
        let (Some(from), Some(to)) = (seen(send), seen(receive)) else { continue };
        let directions = (send.direction, receive.direction);
        if directions != (TransferEnd::Send, TransferEnd::Receive) || from.0 >= arrow_head(to.1) {
            continue;
        }
        between.count += 1;
        for half in pair {
            let end = ArrowEnd { op: half.op, id: between.count, direction: half.direction };
            between.ends[half.place].push(end);
        }
    }
    between
}

/// The sends and receives of a rank whose other end is traced too.
fn halves_of(
    timeline: &Timeline,
    traced: &TracedRank,
    place: usize,
    places: &rustc_hash::FxHashMap<stepsim_core::ids::RankId, usize>,
    halves: &mut Vec<TransferHalf>,
) {
    let world = timeline.world;
    let program = world.program_of(traced.rank);
    let slots = world.slots_of(traced.rank);
    let mut ordinals = vec![0u32; slots.len()];
    for stream in &program.streams {
        for id in &stream.ops {
            let op = &program.ops[id.index()];
            let Work::Comm { slot, .. } = op.work else {
                continue;
            };
            let comm = slots[slot as usize];
            let ordinal = ordinals[slot as usize];
            ordinals[slot as usize] += 1;
            let members = world.members_of(comm);
            let pair = members.len() == 2 && members.iter().all(|member| places.contains_key(member));
            let direction = direction(stream.kind, &program.infos[op.info as usize].name);
            if let (true, Some(direction)) = (pair, direction) {
                halves.push(TransferHalf { comm, ordinal, direction, place, op: *id });
            }
        }
    }
}

/// The ends of arrows at the slices of one rank: pairs of piece and arrow, in order of pieces.
#[derive(Debug, Default)]
pub struct Arrows {
    /// Arrows that leave.
    pub out: Vec<(u32, u64)>,
    /// Arrows that arrive.
    pub into: Vec<(u32, u64)>,
    /// Arrows within the rank.
    pub count: u64,
    /// By op, its innermost slice.
    pub piece_of: Vec<Option<u32>>,
}

impl Arrows {
    /// The number of one more arrow within the rank, whose first one is `first`.
    pub fn next(&mut self, first: u64) -> u64 {
        self.count += 1;
        first + self.count - 1
    }
}

/// Arrows within a rank, numbered from `first_id`, and its ends of those between ranks.
pub fn within_rank(
    timeline: &Timeline,
    traced: &TracedRank,
    rows: &RankRows,
    first_id: u64,
    ends: &[ArrowEnd],
) -> Arrows {
    let program = timeline.world.program_of(traced.rank);
    let mut piece_of = vec![None; program.ops.len()];
    for (i, piece) in rows.pieces.iter().enumerate().filter(|(_, piece)| piece.level == SliceLevel::Op) {
        for op in rows.ops_of(piece) {
            piece_of[op.index()] = Some(i as u32);
        }
    }
    let mut arrows = Arrows::default();
    for (op, cause) in causes(timeline, traced, program) {
        let (Some(to), Some(from)) = (piece_of[op.index()], piece_of[cause.index()]) else {
            continue;
        };
        let (source, target) = (&rows.pieces[from as usize], &rows.pieces[to as usize]);
        // Of merged ops only the first has an arrow: the slice starts because of it.
        let first = rows.ops_of(target)[0] == op && source.start < arrow_head(target.end);
        if first && !rows.goes_on(source, target.start) {
            let id = arrows.next(first_id);
            arrows.out.push((from, id));
            arrows.into.push((to, id));
        }
    }
    for end in ends {
        let list = match end.direction {
            TransferEnd::Send => &mut arrows.out,
            TransferEnd::Receive => &mut arrows.into,
        };
        list.extend(piece_of[end.op.index()].map(|piece| (piece, end.id)));
    }
    arrows.out.sort_unstable();
    arrows.into.sort_unstable();
    arrows.piece_of = piece_of;
    arrows
}

/// Each op with the op of another stream that set it off.
fn causes(timeline: &Timeline, traced: &TracedRank, program: &Program) -> Vec<(OpId, OpId)> {
    let mut causes = Vec::new();
    let end_of = |op: OpId| span(timeline, traced, op).1;
    for stream in &program.streams {
        let mut free = stepsim_core::units::Time::ZERO;
        for id in &stream.ops {
            let op = &program.ops[id.index()];
            let start = span(timeline, traced, *id).0;
            let others =
                program.waits[op.waits.range()].iter().filter(|w| stream_of(program, **w) != op.stream);
            if let Some(cause) = others.copied().max_by_key(|wait| end_of(*wait)) {
                let binding = end_of(cause) >= free && (is_kernel(op) || end_of(cause) == start);
                let kind = program.streams[stream_of(program, cause) as usize].kind;
                let brings_data = matches!(kind, StreamKind::CopyIn | StreamKind::PipelineRecv);
                if binding || is_kernel(op) && brings_data {
                    causes.push((*id, cause));
                }
            }
            free = end_of(*id);
        }
    }
    causes
}

fn stream_of(program: &Program, op: OpId) -> u16 {
    program.ops[op.index()].stream
}

fn is_kernel(op: &Op) -> bool {
    matches!(op.work, Work::Compute { .. })
}
