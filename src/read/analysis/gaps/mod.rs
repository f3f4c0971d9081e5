//! Idle gaps by length: how long compute streams stand still at a stretch.
//!
//! A gap is the time between two kernels of a rank, before its first and behind its last, whatever it waits for. Many
//! short ones are launches and latencies that fusing or graphs remove; few long ones are bubbles, in which other work
//! has room. The time in gaps is the time of all stalls:
//! ```text
//! Σ over lengths  time in gaps = step time − busy
//! ```

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Causes;
use super::turns::Recurring;
pub use reading::Gaps;
use stepsim_core::declare::named;
use stepsim_core::ids::RankId;
use stepsim_core::units::{PS_PER_S, Time};

named! {
    /// How long a gap is.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    pub enum GapLength {
        /// Below 10 us.
        #[serde(rename = "below_10us")]
        Below10us = "below 10 us",
        /// 10 to 100 us.
        #[serde(rename = "below_100us")]
        Below100us = "10 to 100 us",
        /// 100 us to 1 ms.
        #[serde(rename = "below_1ms")]
        Below1ms = "100 us to 1 ms",
        /// 1 to 10 ms.
        #[serde(rename = "below_10ms")]
        Below10ms = "1 to 10 ms",
        /// 10 to 100 ms.
        #[serde(rename = "below_100ms")]
        Below100ms = "10 to 100 ms",
        /// 100 ms and longer.
        #[serde(rename = "longer")]
        Longer = "100 ms and longer",
    }
}

impl GapLength {
    /// The class of a length.
    pub fn of(gap: Time) -> GapLength {
        let above = |class: &GapLength| gap.0 >= 10_000_000 * 10u64.pow(*class as u32);
        GapLength::ALL.into_iter().find(|class| !above(class)).unwrap_or(GapLength::Longer)
    }
}

/// Gaps of one length, of a mean rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GapReport {
    /// How many.
    pub count: f64,
    /// Seconds in them.
    pub seconds: f64,
}

/// How many, and the picoseconds in them, by length.
pub type Sums = [(u128, u128); GapLength::ALL.len()];

/// The gaps of one rank, those that come again as often as they come.
pub fn of_rank(causes: &Causes, rank: RankId, recurring: &Recurring, weight: u64, sums: &mut Sums) {
    let times = recurring.of_rank(rank, causes.world().program_of(rank));
    let mut add = |gap: Time, times: u64| {
        let (count, time) = &mut sums[GapLength::of(gap) as usize];
        let times = u128::from(times) * u128::from(weight);
        *count += times;
        *time += times * u128::from(gap.0);
    };
    let mut covered = Time::ZERO;
    for kernel in causes.kernels(rank) {
        let (start, end) = causes.span(rank, kernel);
        if start > covered {
            add(start - covered, times(kernel));
        }
        covered = covered.max(end);
    }
    let end = causes.record().step_end;
    if end > covered {
        add(end - covered, 1);
    }
}

/// The gaps of a mean of the ranks, each with its weight; lengths without a gap are left out.
pub fn gaps(causes: &Causes, recurring: &Recurring, weights: &[u64]) -> BTreeMap<GapLength, GapReport> {
    let mut sums = Sums::default();
    for (rank, weight) in (0..).map(RankId).zip(weights) {
        of_rank(causes, rank, recurring, *weight, &mut sums);
    }
    let ranks = weights.iter().sum::<u64>().max(1) as f64;
    let there = GapLength::ALL.into_iter().zip(sums).filter(|(_, (count, _))| *count > 0);
    there
        .map(|(length, (count, time))| {
            (length, GapReport { count: count as f64 / ranks, seconds: time as f64 / ranks / PS_PER_S })
        })
        .collect()
}
