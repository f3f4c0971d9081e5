//! ZB-H1 (ZB-1P): 1F1B with split backward passes; weight gradients fill the drain, at 1F1B's memory.
//!
//! Rank r warms up with min(m, p−1−r) forwards, then runs (F, I) in turn; once more than r input gradients are done, a
//! weight gradient follows each. Bubble (p−1)(tF + tI − tW) while tW ≤ min(tF, tI); peak p on every rank (m ≥ p).
//! Sources: Qi et al. 2023 (arXiv 2401.10241) section 2; torch `ScheduleInterleavedZeroBubble` with one chunk.

use super::order::Lister;
use super::{
    BackwardSplit, Bubble, Order, Pass, PassTimes, Schedule, ScheduleError, ScheduleFacts, Shape,
    StagePlacement, Turns,
};

/// See the module.
pub(super) struct ZbH1;

impl Schedule for ZbH1 {
    fn facts(&self) -> ScheduleFacts {
        ScheduleFacts {
            aliases: &["zb-1p", "zb1p"],
            backward: BackwardSplit::Split,
            ..ScheduleFacts::new("zb-h1", "zero-bubble with the memory of 1F1B")
        }
    }
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(self)?;
        let ranks = (0..p).map(|r| split(m, p - 1 - r, r, true)).collect();
        Ok(Order { placement: StagePlacement::looped(p, 1), micro_batches: m, ranks })
    }
    fn turns(&self, shape: &Shape) -> Option<Turns> {
        Some(Turns { from: shape.ranks, every: 1 })
    }
    fn bubble(&self, shape: &Shape, t: &PassTimes) -> Option<Bubble> {
        let holds = t.weight_grad <= t.forward.min(t.input_grad) && shape.micro_batches >= shape.ranks;
        let slope = (t.forward + t.input_grad).saturating_sub(t.weight_grad);
        Bubble::both(slope * u64::from(shape.ranks - 1)).filter(|_| holds)
    }
    fn peak(&self, shape: &Shape) -> Option<Vec<u32>> {
        (shape.micro_batches >= shape.ranks).then(|| vec![shape.ranks; shape.ranks as usize])
    }
}

/// Forward passes and input gradients in turn behind a warm-up, forward passes first or last in a turn; weight
/// gradients are put off by `put_off` turns.
pub(super) fn split(m: u32, warm_up: u32, put_off: u32, forward_first: bool) -> Vec<super::Slot> {
    let mut list = Lister::default();
    let w = warm_up.min(m);
    (0..w).for_each(|i| list.push(Pass::Forward, 0, i));
    for k in 0..m {
        let forward = |list: &mut Lister| (w + k..m).take(1).for_each(|i| list.push(Pass::Forward, 0, i));
        if forward_first {
            forward(&mut list);
        }
        list.push(Pass::InputGrad, 0, k);
        if k >= put_off {
            list.push(Pass::WeightGrad, 0, k - put_off);
        }
        if !forward_first {
            forward(&mut list);
        }
    }
    (m.saturating_sub(put_off)..m).for_each(|i| list.push(Pass::WeightGrad, 0, i));
    list.slots
}
