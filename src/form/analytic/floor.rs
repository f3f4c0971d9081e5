//! The least time of a step: no run of it can be below, so searches may leave out steps that cannot be best.
//!
//! The walk of its passes is one where all groups and devices are alike and no host launches them: whatever else a
//! run has (transfers between stages, reductions, copies, contention, interference) makes some op start later, and in
//! a system of queues nothing then ends earlier. Elsewhere less is certain:
//!
//! The compute stream of a rank takes one kernel after the other, and between two kernels of one pass it waits for
//! the communication that nothing may hide; all that once for each micro-batch and chunk. Before its first kernel the
//! first micro-batch has passed the stages before it, behind its last one the last gradient has those to pass.
//! Everything else (exposed reductions, transfers between stages, copies, the optimizer, launches, contention) only
//! comes on top.
//!
//! Behind both the smallest update of a rank is still to come. Communication in front of the first kernel of a pass
//! and behind its last one may run beside other passes and does not count; paired passes hide each other's. An idle
//! machine is the fastest: times of communication count where all groups are alike and collectives are no faster than
//! their closed form (played step by step, or on links with one limit for both ways, they may be).

use super::form::StepForm;
use super::least::Least;
use stepsim_core::declare::defaults;
use stepsim_schedule::{Pass, Seat, Slot, SlotPass};

/// Passes of one chunk, in seconds.
#[derive(Clone, Copy, Default)]
struct ChunkSeconds {
    forward: f64,
    /// The gradient that the stage before waits for.
    gradient: f64,
    /// Gradients of weights that it does not wait for.
    rest: f64,
}

impl StepForm<'_> {
    /// The least time of the step, for any number of micro-batches.
    pub(super) fn floor(&self) -> Floor {
        let order = &self.parts.order;
        let passes = || order.ranks.iter().flatten().flat_map(Slot::parts).map(|SlotPass { pass, .. }| pass);
        let cut = passes().any(|pass| pass == Pass::InputGrad);
        let workload = self.workload();
        let differ = workload.documents.is_some() || workload.has_uneven_images();
        if workload.noise.is_random() || differ || cut != self.splits {
            return Floor::default();
        }
        let paired = order.ranks.iter().flatten().any(|slot| matches!(slot, Slot::Overlapped { .. }));
        // The slowest of different pipeline ranks need not be in one replica.
        let alike = self.parts.alike && self.parts.least;
        let waits = !paired && alike;
        let of_chunk = |seat: &Seat| {
            let mut least = [Least::default(); 3];
            for unit in &self.ranks[seat.rank as usize].chunks[usize::from(seat.chunk)] {
                let unit = &unit.time;
                least[0] += unit.forward.least;
                least[1] += unit.recompute.least;
                least[1] += if cut { unit.input_grad.least } else { unit.backward.least };
                least[2] += if cut { unit.weight_grad.least } else { Least::default() };
            }
            let [forward, gradient, rest] = least.map(|least| least.pass(waits));
            ChunkSeconds { forward, gradient, rest }
        };
        let mut ranks = vec![RankFloor::default(); order.ranks.len()];
        for direction in 0..order.placement.directions() {
            let (mut before, mut behind) = (0.0, 0.0);
            for seat in order.placement.path(direction) {
                let (rank, own) = (&mut ranks[seat.rank as usize], of_chunk(seat));
                rank.before = rank.before.min(before);
                rank.behind = rank.behind.min(behind);
                rank.needed += own.forward + own.gradient;
                rank.rest += own.rest;
                if self.parts.alike {
                    (before, behind) = (before + own.forward, behind + own.gradient);
                }
            }
        }
        let walks = !order.placement.has_sides();
        Floor { ranks, walked: walks && alike && workload.host().is_none() }
    }
}

/// The least time of a step, by pipeline rank; empty where nothing is known.
#[derive(Default)]
pub(super) struct Floor {
    ranks: Vec<RankFloor>,
    /// True if passes take as long as they are walked.
    walked: bool,
}

/// Rounding of what is summed in another order.
const ROUNDING: f64 = 1e-9;

impl Floor {
    /// True if the walk of the passes is certain too.
    pub fn walks(&self) -> bool {
        self.walked
    }

    /// Seconds of the passes of a rank with `micro_batches` of each direction.
    pub fn of_rank(&self, rank: usize, micro_batches: f64) -> f64 {
        self.ranks.get(rank).map_or(0.0, |rank| rank.seconds(micro_batches))
    }

    /// Seconds with `micro_batches` of each direction, whose passes are walked in `walk` seconds, and a smallest
    /// update.
    pub fn seconds(&self, micro_batches: f64, walk: f64, update: f64) -> f64 {
        let walk = if self.walked { walk } else { 0.0 };
        let passes = self.ranks.iter().map(|rank| rank.seconds(micro_batches)).fold(walk, f64::max);
        if self.ranks.is_empty() { 0.0 } else { (passes + update) * (1.0 - ROUNDING) }
    }
}

defaults! {
    /// The work of a rank in a step.
    #[derive(Clone, Copy)]
    struct RankFloor {
        /// Passes of stages before its first one, forward and backward.
        before: f64 = f64::INFINITY,
        behind: f64 = f64::INFINITY,
        /// Its own passes of one micro-batch, and those that nobody waits for.
        needed: f64,
        rest: f64,
    }
}

impl RankFloor {
    fn seconds(self, micro_batches: f64) -> f64 {
        self.before + micro_batches * self.needed + self.behind.max(micro_batches * self.rest)
    }
}
