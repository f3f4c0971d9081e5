//! ZB-H2 (ZB-2P): twice the warm-up of ZB-H1, so that no rank idles between its first and its last op.
//!
//! Rank r warms up with min(m, 2(p−r)−1) forwards, then runs I, F in turn; once more than 2r input gradients are
//! done, a weight gradient follows each. Own bubble (p−1)(tF + tI − 2tW) where that is not negative, for tW ≤ min(tF,
//! tI) and m ≥ 2p; peak 2p−1 on every rank. Source: Qi et al. 2023 (arXiv 2401.10241) figure 3, from which the order
//! is reconstructed.
//!
//! Hazard: the bubble is zero only by the rank's own clock: ranks start and end (p−1)tF apart, so that an optimizer
//! step that waits for all of them gives the gain back.

use super::zb_h1::split;
use super::{
    BackwardSplit, Bubble, Order, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape, StagePlacement,
    Turns,
};
use stepsim_core::units::Time;

/// See the module.
pub(super) struct ZbH2;

impl Schedule for ZbH2 {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            aliases: &["zb-2p", "zb2p"],
            backward: BackwardSplit::Split,
            batched: false,
            ..ScheduleFacts::new("zb-h2", "zero-bubble with twice the memory of 1F1B")
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        let ranks = (0..p).map(|r| split(m, 2 * (p - r) - 1, 2 * r, false)).collect();
        Ok(Order { placement: StagePlacement::looped(p, 1), micro_batches: m, ranks })
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        Some(Turns { from: 2 * shape.ranks, every: 1 })
    }
    fn bubble(&self, shape: &Shape, t: &PassTimes) -> Option<Bubble> {
        let holds = t.weight_grad <= t.forward.min(t.input_grad) && shape.micro_batches >= 2 * shape.ranks;
        let steps = u64::from(shape.ranks - 1);
        let own = (t.forward + t.input_grad).saturating_sub(t.weight_grad * 2) * steps;
        let idle = (own == Time::ZERO).then(|| t.forward * steps);
        holds.then_some(Bubble { own: Some(own), idle })
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        let peak = 2 * shape.ranks - 1;
        (shape.micro_batches >= peak).then(|| vec![peak; shape.ranks as usize])
    }
}
