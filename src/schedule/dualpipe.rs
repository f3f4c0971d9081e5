//! DualPipe: micro-batches enter at both ends, and a forward pass of one direction overlaps a backward pass of the
//! other.
//!
//! Rank r holds stage r of direction 0 (chunk 0) and stage p−1−r of direction 1 (chunk 1): parameters are there
//! twice. m counts both directions; p and m even, m ≥ 2p. Bubble (p/2−1)(t(F&B) + tB − 3tW), exact for tF = tI = tW
//! and t(F&B) = tF + tB, an over-estimate otherwise; peak p+1. Sources: DeepSeek-V3 report (arXiv 2412.19437) section
//! 3.2.1; deepseek-ai/DualPipe `dualpipe.py`.

use super::{
    BackwardSplit, Bubble, ChunkCount, Order, Pass, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape,
    Slot, SlotPass, StagePlacement, Turns,
};
use std::collections::VecDeque;
use stepsim_core::units::Time;

/// See the module.
pub(super) struct DualPipe;

impl Schedule for DualPipe {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            chunks: ChunkCount::Exactly(2),
            directions: 2,
            backward: BackwardSplit::Both,
            batched: false,
            pairs: true,
            needs: "even stages and micro-batches, at least twice as many micro-batches as stages",
            ..ScheduleFacts::new("dualpipe", "two directions at once, forward overlaps backward")
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        if !p.is_multiple_of(2) || !m.is_multiple_of(2) || m < 2 * p {
            let even = p.next_multiple_of(2);
            let remedy = format!(
                "stages and micro-batches must be even, and the micro-batches of both directions at least twice the \
                 stages: {even} stages and {} micro-batches would run",
                m.next_multiple_of(2).max(2 * even)
            );
            let problem = format!("{p} stages with {m} micro-batches do not fit");
            return Err(ScheduleError::new(self, problem, remedy));
        }
        let rank = |r: u32| {
            let at = Ends { r: r.min(p - 1 - r), h: p / 2, overlapped: m / 2 - p + r.min(p - 1 - r) + 1 };
            // The direction that enters at this half has chunk 0 on the first half, chunk 1 on the second.
            let near = u16::from(r >= p / 2);
            eight_steps(&at, [near, 1 - near], [u32::from(near) * m / 2, u32::from(1 - near) * m / 2])
        };
        let ranks = (0..p).map(rank).collect();
        Ok(Order { placement: StagePlacement::two_directions(p), micro_batches: m, ranks })
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        // At the turn the first pair of passes runs apart.
        Some(Turns { from: 2 * shape.ranks + 2, every: 2 })
    }
    fn bubble(&self, shape: &Shape, times: &PassTimes) -> Option<Bubble> {
        bubble(shape.ranks / 2, 1, times)
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        Some(vec![shape.ranks + 1; shape.ranks as usize])
    }
}

/// (h−1)(t(F&B) + tB − 3tW) with the times of one of `v` parts, where exact.
pub(super) fn bubble(h: u32, v: u64, t: &PassTimes) -> Option<Bubble> {
    let equal = t.forward == t.input_grad && t.input_grad == t.weight_grad;
    let no_gain = t.overlapped == t.forward + t.backward();
    let slope = (t.overlapped + t.backward()).saturating_sub(t.weight_grad * 3);
    Bubble::both(Time(slope.0 * u64::from(h - 1) / v)).filter(|_| equal && no_gain)
}

/// Where a rank stands between the entry of micro-batches and the turn.
pub(super) struct Ends {
    /// Distance from the entry.
    pub r: u32,
    /// Ranks from the entry to the turn.
    pub h: u32,
    /// Pairs of overlapped slots in the steady state.
    pub overlapped: u32,
}

/// A list under construction. Phase 0 is the chunk near the entry, phase 1 the other.
struct SlotList {
    slots: Vec<Slot>,
    chunk: [u16; 2],
    forwards: [u32; 2],
    backwards: [u32; 2],
    /// Weight gradients put off, oldest first.
    weights: VecDeque<SlotPass>,
}

impl SlotList {
    fn next_forward(&mut self, phase: usize) -> SlotPass {
        self.forwards[phase] += 1;
        SlotPass { pass: Pass::Forward, chunk: self.chunk[phase], micro_batch: self.forwards[phase] - 1 }
    }
    fn next_backward(&mut self, phase: usize) -> SlotPass {
        self.backwards[phase] += 1;
        SlotPass { pass: Pass::Backward, chunk: self.chunk[phase], micro_batch: self.backwards[phase] - 1 }
    }
    fn forward(&mut self, phase: usize) {
        let part = self.next_forward(phase);
        self.slots.push(Slot::Single(part));
    }
    /// A full backward pass, or its first half with the second put off.
    fn backward(&mut self, phase: usize, split: bool) {
        let mut part = self.next_backward(phase);
        if split {
            self.weights.push_back(SlotPass { pass: Pass::WeightGrad, ..part });
            part.pass = Pass::InputGrad;
        }
        self.slots.push(Slot::Single(part));
    }
    fn weight(&mut self) {
        self.slots.extend(self.weights.pop_front().map(Slot::Single));
    }
    fn overlapped(&mut self, forward: usize, backward: usize) {
        let (forward, backward) = (self.next_forward(forward), self.next_backward(backward));
        self.slots.push(Slot::Overlapped { forward, backward });
    }
}

/// The eight steps of DualPipe's order; `first` is the first micro-batch of each phase.
pub(super) fn eight_steps(at: &Ends, chunk: [u16; 2], first: [u32; 2]) -> Vec<Slot> {
    let Ends { r, h, overlapped } = *at;
    let to_turn = h - r - 1;
    let mut s =
        SlotList { slots: Vec::new(), chunk, forwards: first, backwards: first, weights: VecDeque::new() };
    (0..2 * to_turn).for_each(|_| s.forward(0));
    for _ in 0..=r {
        s.forward(0);
        s.forward(1);
    }
    for _ in 0..to_turn {
        s.backward(1, true);
        s.weight();
        s.forward(1);
    }
    for i in 0..overlapped {
        if i == 0 && to_turn == 0 {
            // At the turn the first backward pass needs the forward pass next to it.
            s.forward(0);
            s.backward(1, false);
        } else {
            s.overlapped(0, 1);
        }
        s.overlapped(1, 0);
    }
    for _ in 0..to_turn {
        s.backward(1, false);
        s.overlapped(1, 0);
    }
    for i in 0..=r {
        // From half of this step on the weight gradients are put off, to fill the drain.
        let half = r.div_ceil(2);
        let odd = !r.is_multiple_of(2);
        s.backward(1, if odd { i >= half } else { i > half });
        s.backward(0, i >= half);
    }
    for _ in 0..to_turn {
        s.weight();
        s.backward(0, true);
    }
    (0..=r).for_each(|_| s.weight());
    s.slots
}
