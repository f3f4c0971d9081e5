//! How step times spread over samples that differ in their seed, and who was on the critical path how often.
//!
//! Percentiles are taken from the sample, by nearest rank: the p-th of n is the ⌈p·n/100⌉-th in order of size. The
//! coefficient of variation is the sample's standard deviation (divisor n − 1) over its mean.
//!
//! Hazard: of ranks that are alike in a sample, one stands on the critical path for all: the lowest.

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use reading::Samples;
use stepsim_core::units::Time;

/// Ranks listed, those with the largest share of the critical path first.
pub const LISTED_RANKS: usize = 16;
/// Bars of the histogram, at most.
const BARS: usize = 20;

/// One played sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time of the step.
    pub step: Time,
    /// Time of the critical path on each rank that it visits.
    pub on_path: Vec<(u32, Time)>,
}

/// Step times over all samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplesReport {
    /// How many.
    pub count: u64,
    /// Seed of the first; the others follow it.
    pub seed: u64,
    /// Mean step time.
    pub mean_s: f64,
    /// Standard deviation over mean.
    pub cv: f64,
    /// Shortest.
    pub min_s: f64,
    /// 5 % are no longer.
    pub p5_s: f64,
    /// Half are no longer.
    pub p50_s: f64,
    /// 95 % are no longer.
    pub p95_s: f64,
    /// 99 % are no longer.
    pub p99_s: f64,
    /// Longest.
    pub max_s: f64,
    /// Numbers of samples in ranges of equal width from the shortest to the longest.
    pub histogram: Vec<HistogramBin>,
    /// Pipeline stages on the critical path.
    pub critical_stages: Vec<OnPath>,
    /// The ranks with the largest shares of it.
    pub critical_ranks: Vec<OnPath>,
}

/// A range of step times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistogramBin {
    /// From.
    pub from_s: f64,
    /// Up to.
    pub to_s: f64,
    /// Samples in it.
    pub samples: u64,
}

/// How often and for how long a rank or a stage was on the critical path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OnPath {
    /// Its name.
    pub name: String,
    /// Part of the samples whose critical path visits it, 0 to 1.
    pub samples: f64,
    /// Its share of the critical path, mean over all samples.
    pub share: f64,
}

impl SamplesReport {
    /// Reads samples, at least one. `stage_of` and `name_of` speak of ranks of the job.
    ///
    /// # Panics
    /// If there is no sample.
    pub fn of(
        samples: &[Sample],
        seed: u64,
        stage_of: impl Fn(u32) -> u32,
        name_of: impl Fn(u32) -> String,
    ) -> SamplesReport {
        let mut times: Vec<f64> = samples.iter().map(|s| s.step.s()).collect();
        times.sort_by(f64::total_cmp);
        let n = times.len();
        let mean = times.iter().sum::<f64>() / n as f64;
        let variance =
            times.iter().map(|t| (t - mean).powi(2)).sum::<f64>() / n.saturating_sub(1).max(1) as f64;
        let percentile = |p: usize| times[(p * n).div_ceil(100).max(1) - 1];
        let (stages, ranks) = (shares(samples, stage_of), shares(samples, |rank| rank));
        let named = |list: Vec<(u32, f64, f64)>, name: &dyn Fn(u32) -> String| -> Vec<OnPath> {
            list.into_iter().map(|(id, samples, share)| OnPath { name: name(id), samples, share }).collect()
        };
        let mut busiest = ranks;
        busiest.sort_by(|a, b| b.2.total_cmp(&a.2).then(a.0.cmp(&b.0)));
        busiest.truncate(LISTED_RANKS);
        SamplesReport {
            count: n as u64,
            seed,
            mean_s: mean,
            cv: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
            min_s: times[0],
            p5_s: percentile(5),
            p50_s: percentile(50),
            p95_s: percentile(95),
            p99_s: percentile(99),
            max_s: times[n - 1],
            histogram: histogram(&times),
            critical_stages: named(stages, &|stage| format!("stage {stage}")),
            critical_ranks: named(busiest, &name_of),
        }
    }
}

/// (number, part of the samples, mean share) of each group of ranks on the critical paths, by number.
fn shares(samples: &[Sample], group_of: impl Fn(u32) -> u32) -> Vec<(u32, f64, f64)> {
    let mut groups: BTreeMap<u32, (usize, usize, f64)> = BTreeMap::new();
    for (i, sample) in (1..).zip(samples) {
        let step = sample.step.s().max(f64::MIN_POSITIVE);
        for (rank, time) in &sample.on_path {
            let (last, visits, share) = groups.entry(group_of(*rank)).or_default();
            if std::mem::replace(last, i) != i {
                *visits += 1;
            }
            *share += time.s() / step;
        }
    }
    let n = samples.len() as f64;
    groups.into_iter().map(|(id, (_, visits, share))| (id, visits as f64 / n, share / n)).collect()
}

/// Counts of sorted times in ranges of equal width; a single range if all are equal.
fn histogram(times: &[f64]) -> Vec<HistogramBin> {
    let (low, high) = (times[0], times[times.len() - 1]);
    // The square root of the number of samples is a usual choice.
    let bars =
        if high > low { (times.len() as f64).sqrt().ceil().clamp(1.0, BARS as f64) as usize } else { 1 };
    let width = (high - low) / bars as f64;
    let edge = |i: usize| if i == bars { high } else { low + width * i as f64 };
    let mut histogram: Vec<HistogramBin> =
        (0..bars).map(|i| HistogramBin { from_s: edge(i), to_s: edge(i + 1), samples: 0 }).collect();
    for &time in times {
        let at = histogram.partition_point(|bar| bar.to_s < time).min(bars - 1);
        histogram[at].samples += 1;
    }
    histogram
}
