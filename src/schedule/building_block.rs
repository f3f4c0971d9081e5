//! Building blocks: schedules that do the same for every micro-batch, a fixed time further on.
//!
//! A block says when a rank runs the four passes of one micro-batch through a V of two chunks: forward down and up,
//! its gradient down and up. Time is counted in units of one pass. Every six units the next micro-batch does the same
//! (four passes and two weight gradients keep a rank busy), and weight gradients fill what is left free, the oldest
//! first. How long activations live in the block is what a rank holds, so the block sets the memory:
//!
//! 1. blocks are laid one behind the other; no rank may ever hold more than it does now;
//! 2. while the pipeline fills, and again while it drains, passes move to the earliest free unit behind their inputs
//!    that keeps to that;
//! 3. the order is all that is kept of the units: passes of other lengths run as soon as they can.
//!
//! Sources: Qi et al. 2024 (arXiv 2405.15362), sections 3 and 4; what is squeezed when:
//! sail-sg/zero-bubble-pipeline-parallelism, scheduler/zbv_greedy.py.

use std::collections::VecDeque;
use std::ops::Range;

use super::{
    BackwardSplit, ChunkCount, Order, Pass, Schedule, ScheduleError, ScheduleFacts, Shape, Slot, SlotPass,
    StagePlacement, Turns,
};

/// Units from one micro-batch to the next.
const EVERY: u32 = 6;
/// The passes of a micro-batch on its way, each with its chunk.
const WAY: [(Pass, u16); 4] =
    [(Pass::Forward, 0), (Pass::Forward, 1), (Pass::InputGrad, 1), (Pass::InputGrad, 0)];

/// Chunks of a rank.
const CHUNKS: usize = 2;

/// A schedule that repeats a block.
pub(super) struct BuildingBlock {
    /// Its name in kebab case.
    pub name: &'static str,
    /// Other names in use.
    pub aliases: &'static [&'static str],
    /// Its distinction, in one line.
    pub about: &'static str,
    /// Of p ranks, in which units one of them runs the four passes of the first micro-batch.
    pub block: fn(p: u32, rank: u32) -> [u32; 4],
}

impl Schedule for BuildingBlock {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            aliases: self.aliases,
            chunks: ChunkCount::Exactly(2),
            backward: BackwardSplit::Split,
            batched: false,
            prompt: false,
            ..ScheduleFacts::new(self.name, self.about)
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        let ranks = order(p, m, |rank| (self.block)(p, rank));
        Ok(Order { placement: StagePlacement::v_shape(p), micro_batches: m, ranks })
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        Some(Turns { from: 3 * shape.ranks + 1, every: 1 })
    }
}

/// The order of p ranks for m micro-batches; `block` says in which unit a rank runs the four passes of the first one.
fn order(p: u32, m: u32, block: impl Fn(u32) -> [u32; 4]) -> Vec<Vec<Slot>> {
    let mut grid =
        Grid { rows: (0..p).map(|rank| filled(&laid(block(rank), m))).collect(), micro_batches: m };
    let limit = grid.rows.iter().map(most_held).max().unwrap_or(0);
    let (first_back, last_in) = grid.steady();
    grid.squeeze(
        |unit| unit < first_back || unit > last_in,
        |row, part, units| within(row, part, units, limit),
    );
    grid = grid.as_soon_as_can_be();
    grid.rows.iter_mut().flatten().for_each(|unit| *unit = unit.filter(|part| part.pass != Pass::WeightGrad));
    let (_, last_in) = grid.steady();
    grid.squeeze(|unit| unit > last_in, |row, part, units| beside_weights(row, part, units, limit));
    grid.rows.iter().map(|row| filled(row).into_iter().flatten().map(Slot::Single).collect()).collect()
}

/// The work of a rank in each unit of time.
type RankSlots = Vec<Option<SlotPass>>;

/// Block behind block.
fn laid(block: [u32; 4], m: u32) -> RankSlots {
    let units = block.iter().max().map_or(0, |last| last + EVERY * m) as usize;
    let mut row = vec![None; units];
    for (start, (pass, chunk)) in block.into_iter().zip(WAY) {
        for micro_batch in 0..m {
            row[(start + EVERY * micro_batch) as usize] = Some(SlotPass { pass, chunk, micro_batch });
        }
    }
    row
}

/// A row with its weight gradients in the free units, the oldest first; what does not fit follows behind.
fn filled(row: &RankSlots) -> RankSlots {
    let mut waiting = VecDeque::new();
    let mut full: RankSlots = Vec::with_capacity(row.len() * 3 / 2);
    for unit in row {
        match unit {
            Some(part) => {
                full.push(Some(*part));
                if part.pass == Pass::InputGrad {
                    waiting.push_back(SlotPass { pass: Pass::WeightGrad, ..*part });
                }
            }
            None => full.push(waiting.pop_front()),
        }
    }
    full.extend(waiting.into_iter().map(Some));
    full
}

/// Chunks' activations held in each unit.
fn held(row: &[Option<SlotPass>]) -> Vec<i64> {
    let held = row.iter().scan(0, |held: &mut i64, unit| {
        match unit.map(|part| part.pass) {
            Some(Pass::Forward) => *held += 1,
            Some(Pass::WeightGrad) => *held -= 1,
            _ => {}
        }
        Some(*held)
    });
    held.collect()
}

fn most_held(row: &RankSlots) -> i64 {
    held(row).into_iter().max().unwrap_or(0)
}

/// The earliest free unit in which a pass keeps the row, whose weight gradients stand where they are, within the limit.
fn within(row: &RankSlots, part: SlotPass, units: Range<usize>, limit: i64) -> Option<usize> {
    let from = match part.pass {
        Pass::Forward => {
            let full = held(&row[..units.end])[units.start..].iter().rposition(|held| *held >= limit);
            full.map_or(units.start, |full| units.start + full + 1)
        }
        _ => units.start,
    };
    (from..units.end).find(|unit| row[*unit].is_none())
}

/// The same where weight gradients will fill what is free.
fn beside_weights(row: &RankSlots, part: SlotPass, mut units: Range<usize>, limit: i64) -> Option<usize> {
    let mut tried = row.clone();
    units.find(|unit| {
        if row[*unit].is_some() {
            return false;
        }
        tried[*unit] = Some(part);
        let fits = most_held(&filled(&tried)) <= limit;
        tried[*unit] = None;
        fits
    })
}

/// The work of all ranks.
struct Grid {
    rows: Vec<RankSlots>,
    micro_batches: u32,
}

impl Grid {
    /// All passes with their units and ranks, by time.
    fn by_time(&self) -> Vec<(usize, usize, SlotPass)> {
        let units = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let of = |unit: usize| {
            let rows = self.rows.iter().enumerate();
            rows.filter_map(move |(rank, row)| Some((unit, rank, (*row.get(unit)?)?)))
        };
        (0..units).flat_map(of).collect()
    }

    /// On the first rank: the unit of the first gradient at the end of its way, and of the last micro-batch to enter.
    /// Between them the blocks repeat.
    fn steady(&self) -> (usize, usize) {
        let is =
            |unit: &Option<SlotPass>, pass| unit.is_some_and(|part| (part.pass, part.chunk) == (pass, 0));
        let first_back = self.rows[0].iter().position(|unit| is(unit, Pass::InputGrad));
        let last_in = self.rows[0].iter().rposition(|unit| is(unit, Pass::Forward));
        (first_back.unwrap_or(0), last_in.unwrap_or(0))
    }

    /// Moves passes of some units to where `place` finds an earlier one behind their inputs.
    fn squeeze(
        &mut self,
        moves: impl Fn(usize) -> bool,
        place: impl Fn(&RankSlots, SlotPass, Range<usize>) -> Option<usize>,
    ) {
        let mut starts = Starts::of(self);
        for (unit, rank, part) in self.by_time() {
            let from = starts.behind_inputs(rank, part);
            let row = &mut self.rows[rank];
            row[unit] = None;
            let to = if moves(unit) { place(row, part, from..unit) } else { None }.unwrap_or(unit);
            row[to] = Some(part);
            starts.put(rank, part, to);
        }
    }

    /// The same orders, every pass in the first unit in which it can run.
    fn as_soon_as_can_be(&self) -> Grid {
        let mut rows = vec![RankSlots::new(); self.rows.len()];
        let mut starts = Starts::of(self);
        for (_, rank, part) in self.by_time() {
            let row = &mut rows[rank];
            let unit = starts.behind_inputs(rank, part).max(row.len());
            row.resize(unit, None);
            row.push(Some(part));
            starts.put(rank, part, unit);
        }
        Grid { rows, ..*self }
    }
}

/// By rank, pass, chunk and micro-batch: the unit behind the one in which it runs; 0 where it is not placed.
struct Starts(Vec<usize>, usize);

impl Starts {
    fn of(grid: &Grid) -> Starts {
        let micro_batches = grid.micro_batches as usize;
        Starts(vec![0; (grid.rows.len() + 1) * Pass::COUNT * CHUNKS * micro_batches], micro_batches)
    }

    fn place(&self, rank: usize, part: SlotPass) -> usize {
        let of_pass = (rank * Pass::COUNT + part.pass as usize) * CHUNKS + usize::from(part.chunk);
        of_pass * self.1 + part.micro_batch as usize
    }

    fn put(&mut self, rank: usize, part: SlotPass, unit: usize) {
        let place = self.place(rank, part);
        self.0[place] = unit + 1;
    }

    /// The first unit behind all that a pass needs, and behind the same pass of the micro-batch before.
    fn behind_inputs(&self, rank: usize, part: SlotPass) -> usize {
        let before =
            part.micro_batch.checked_sub(1).map(|micro_batch| (rank, SlotPass { micro_batch, ..part }));
        let step = WAY.iter().position(|way| *way == (part.pass, part.chunk));
        let own = match step {
            Some(step) => step.checked_sub(1).map(|before| WAY[before]),
            None => Some((Pass::InputGrad, part.chunk)),
        };
        let own = own.map(|(pass, chunk)| (rank, SlotPass { pass, chunk, ..part }));
        // Chunk 0 takes activations from the rank before and gradients from the one behind; chunk 1 the other way
        // round.
        let neighbour = match (part.pass, part.chunk) {
            (Pass::WeightGrad, _) => None,
            (Pass::Forward, 0) | (Pass::InputGrad, 1) => rank.checked_sub(1),
            _ => Some(rank + 1),
        };
        let behind = [before, own, neighbour.map(|rank| (rank, part))].into_iter().flatten();
        behind.map(|(rank, part)| self.0[self.place(rank, part)]).max().unwrap_or(0)
    }
}
