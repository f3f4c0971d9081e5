//! ZB-V: two chunks per rank in a V, split backward passes: no bubble by a rank's own clock, at 1F1B's memory.
//!
//! Rank r holds stages r (chunk 0) and 2p−1−r (chunk 1). For tF = tI = tW and m ≥ 2p−1: own bubble 0, idle (p−1)tF/2,
//! peak 2p half-chunks = p stage units on every rank. With fewer micro-batches the order for 2p−1 is built and the
//! extra ones left out. Sources: Qi et al. 2024 (arXiv 2405.15362); torch `ScheduleZBVZeroBubble`.

use super::order::Lister;
use super::{
    BackwardSplit, Bubble, ChunkCount, Order, Pass, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape,
    StagePlacement, Turns,
};
use stepsim_core::units::Time;

/// See the module.
pub(super) struct ZbV;

impl Schedule for ZbV {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            aliases: &["zbv"],
            chunks: ChunkCount::Exactly(2),
            backward: BackwardSplit::Split,
            batched: false,
            ..ScheduleFacts::new("zb-v", "zero-bubble with two chunks per rank in a V")
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        let ranks = (0..p).map(|r| rank(p, m, r)).collect();
        Ok(Order { placement: StagePlacement::v_shape(p), micro_batches: m, ranks })
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        Some(Turns { from: 2 * shape.ranks, every: 1 })
    }
    fn bubble(&self, shape: &Shape, t: &PassTimes) -> Option<Bubble> {
        let equal = t.forward == t.input_grad && t.input_grad == t.weight_grad;
        let idle = Time(t.forward.0 * u64::from(shape.ranks - 1) / 2);
        (equal && filled(shape)).then_some(Bubble { own: Some(Time::ZERO), idle: Some(idle) })
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        filled(shape).then(|| vec![2 * shape.ranks; shape.ranks as usize])
    }
}

/// True if no micro-batch is left out of the order for 2p−1.
fn filled(shape: &Shape) -> bool {
    shape.micro_batches >= 2 * shape.ranks - 1
}

/// A list under construction: passes of each kind and chunk count up.
#[derive(Default)]
struct Counting {
    list: Lister,
    next: [[u32; 2]; 3],
    /// Micro-batches from this one on are left out.
    keep: u32,
}

impl Counting {
    fn push(&mut self, pass: Pass, chunk: u16) {
        let next = &mut self.next[kind(pass)][chunk as usize];
        let micro_batch = *next;
        *next += 1;
        if micro_batch < self.keep {
            self.list.push(pass, chunk, micro_batch);
        }
    }
    fn done(&self, pass: Pass, chunk: u16) -> u32 {
        self.next[kind(pass)][chunk as usize]
    }
}

fn kind(pass: Pass) -> usize {
    match pass {
        Pass::Forward => 0,
        Pass::Backward | Pass::InputGrad => 1,
        Pass::WeightGrad => 2,
    }
}

fn rank(p: u32, m: u32, r: u32) -> Vec<super::Slot> {
    use Pass::{Forward as F, InputGrad as I, WeightGrad as W};
    let (a, b) = (0, 1);
    let n = m.max(2 * p - 1);
    let mut c = Counting { keep: m, ..Counting::default() };
    (0..2 * (p - r) - 1).for_each(|_| c.push(F, a));
    for _ in 0..r {
        c.push(F, b);
        c.push(F, a);
    }
    for _ in 0..p - r {
        [F, I, W].into_iter().for_each(|pass| c.push(pass, b));
    }
    while c.done(F, a) < n || c.done(F, b) < n {
        if c.done(F, a) < n {
            c.push(F, a);
        }
        [I, W].into_iter().for_each(|pass| c.push(pass, a));
        [F, I, W].into_iter().for_each(|pass| c.push(pass, b));
    }
    for _ in 0..r {
        c.push(I, a);
        c.push(I, b);
    }
    for _ in 0..p - r {
        c.push(I, a);
        c.push(W, a);
    }
    for chunk in [b, a] {
        (c.done(W, chunk)..n).for_each(|_| c.push(W, chunk));
    }
    c.list.slots
}
