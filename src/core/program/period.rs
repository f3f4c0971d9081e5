//! Where a program repeats itself: in steady state a schedule does the same for each few micro-batches.

use std::ops::Range;

use super::{NO_MICRO_BATCH, Op, Program};

/// A stretch of a program in which every op is alike to the one a turn before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Period {
    /// Ops of one turn.
    pub ops: u32,
    /// Micro-batches that a turn goes on by.
    pub micro_batches: u32,
    /// The ops of the stretch.
    pub stretch: Range<u32>,
}

/// A period is looked for about the first op of a micro-batch behind this part of a program.
const ABOUT: [usize; 2] = [2, 5];

impl Period {
    /// Turns that a program of `all` ops could do without, and its period still be found.
    pub fn spare(&self, all: usize) -> u32 {
        let [part, whole] = ABOUT;
        let (start, end, turn) = (self.stretch.start as usize, self.stretch.end as usize, self.ops as usize);
        let behind = (end * whole).saturating_sub(2 * turn * whole + part * all) / ((whole - part) * turn);
        let before = (part * all).saturating_sub(start * whole) / (part * turn);
        let of_stretch = (self.stretch.len() / turn).saturating_sub(3);
        of_stretch.min(behind).min(before) as u32
    }
}

/// So many ops are tried as the one a turn later than a given one.
const TRIES: usize = 256;

impl Program {
    /// The longest stretch about an op before the middle of the program that repeats itself, if there is one of two
    /// turns.
    ///
    /// Two ops are alike if they do the same on the same stream with the same effects on memory, wait for ops that are
    /// as far before them (or for the very same one), and their micro-batches differ by one turn.
    pub fn period(&self) -> Option<Period> {
        self.facts.copy_of(|| self.find_period())
    }

    fn find_period(&self) -> Option<Period> {
        let all = self.ops.len();
        // Of a stretch of few turns about the middle, this op lies in the first.
        let within = (all * ABOUT[0] / ABOUT[1]..all).find(|&i| self.ops[i].micro_batch != NO_MICRO_BATCH)?;
        let of = self.ops[within];
        let later = (within + 1..all).filter(|&i| {
            let op = &self.ops[i];
            op.info == of.info
                && op.work == of.work
                && op.stream == of.stream
                && op.micro_batch != NO_MICRO_BATCH
        });
        let mut longest: Option<Period> = None;
        for next in later.take(TRIES) {
            let Some(micro_batches) = self.ops[next].micro_batch.checked_sub(of.micro_batch) else {
                continue;
            };
            let turn = next - within;
            let alike = |i: usize| micro_batches > 0 && self.alike(i, i + turn, micro_batches);
            let first = within - (0..within).rev().take_while(|&i| alike(i)).count();
            let last = within + (within..all - turn).take_while(|&i| alike(i)).count();
            let stretch = first as u32..(last + turn) as u32;
            if last - first >= turn && longest.as_ref().is_none_or(|l| l.stretch.len() < stretch.len()) {
                longest = Some(Period { ops: turn as u32, micro_batches, stretch });
            }
            // A few passes through one chunk repeat themselves too; what fills the most of a program is its period.
            if longest.as_ref().is_some_and(|l| 2 * l.stretch.len() > all) {
                break;
            }
        }
        longest
    }

    /// True if op `b`, a turn behind op `a`, is alike to it.
    fn alike(&self, a: usize, b: usize, micro_batches: u32) -> bool {
        let (x, y) = (&self.ops[a], &self.ops[b]);
        let goes_on = match (x.micro_batch, y.micro_batch) {
            (NO_MICRO_BATCH, after) => after == NO_MICRO_BATCH,
            (before, after) => after.checked_sub(before) == Some(micro_batches) && after != NO_MICRO_BATCH,
        };
        goes_on
            && x.work == y.work
            && (x.stream, x.info, x.slowdown) == (y.stream, y.info, y.slowdown)
            && x.memory_rate.to_bits() == y.memory_rate.to_bits()
            && (x.waits.len, x.memory.len) == (y.waits.len, y.memory.len)
            && (x.waits.len == 0 || self.wait_alike(x, y, (b - a) as u32))
            && (x.memory.len == 0 || self.memory[x.memory.range()] == self.memory[y.memory.range()])
    }

    /// True if op `y`, `turn` ops behind op `x`, waits for ops that are as far before it, or for the very same ones.
    fn wait_alike(&self, x: &Op, y: &Op, turn: u32) -> bool {
        let pairs = self.waits[x.waits.range()].iter().zip(&self.waits[y.waits.range()]);
        pairs.into_iter().all(|(v, w)| v.0 + turn == w.0 || v == w)
    }
}
