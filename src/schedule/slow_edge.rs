//! 1F1B whose ranks 0..=q and q+1..p are joined by a slow link, as two sites are: what its delay c costs.
//!
//! In the steady state each forward over the slow edge waits for the backward that came over it, so the delay is paid
//! again every other micro-batch: with w = p−1−q warm-up forwards on rank q,
//!
//! `T = (m+p−1)(tF+tB) + 2c·(1 + ⌊(m−w)/2⌋)`
//!
//! Ranks 0..=q that warm up with k ≥ 2c/(tF+tB) forwards more have them in flight meanwhile, for as many activations
//! more: `T = (m+p−1)(tF+tB) + 2c`. Both hold from m ≥ p+k on; between them is no law.

use super::one_f_one_b::in_turn;
use super::{OneFOneB, Order, PassTimes, ScheduleError, Shape};
use stepsim_core::units::Time;

/// A slow link of a pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowEdge {
    /// The rank behind which it lies.
    pub after: u32,
    /// The delay that it adds to each transfer.
    pub delay: Time,
    /// Forwards that the ranks up to it do more before their first backward.
    pub more_warm_up: u32,
}

impl SlowEdge {
    /// 1F1B with these forwards more.
    ///
    /// # Errors
    /// As of 1F1B.
    pub fn order(&self, shape: &Shape) -> Result<Order, ScheduleError> {
        let (p, m, _) = shape.checked(&OneFOneB)?;
        let more = |r: u32| if r <= self.after { self.more_warm_up } else { 0 };
        Ok(in_turn(p, m, |r| (p - 1 - r).saturating_add(more(r))))
    }

    /// The makespan by the laws above, where they hold and all other transfers are free.
    pub fn makespan(&self, shape: &Shape, times: &PassTimes) -> Option<Time> {
        let (p, m, k) =
            (u64::from(shape.ranks), u64::from(shape.micro_batches), u64::from(self.more_warm_up));
        let pass = times.forward + times.backward();
        let warm_up = p.checked_sub(1 + u64::from(self.after))?;
        if m < p + k || warm_up == 0 {
            return None;
        }
        let twice = Time(2 * self.delay.0);
        let times_paid = match k {
            0 => 1 + (m - warm_up) / 2,
            _ if pass.0.saturating_mul(k) >= twice.0 => 1,
            _ => return None,
        };
        Some(Time((m + p - 1) * pass.0 + times_paid * twice.0))
    }
}
