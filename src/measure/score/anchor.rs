//! The lesson of a measured step for the steps beside it: a factor on each part of the simulated one.
//!
//! A step is the sum of a few parts ([`StepPart`]). Measured steps give each part a factor: of all factors those that
//! are most likely, where a factor is about 1 before anything is known (its logarithm is normal, as far spread as
//! [`StepPart::spread`] says) and a step is off by `ROW` besides. The error that a measured step has of its own, and
//! does not share with the predicted one, is in all rows alike ([`Reach::own`]), however many there are. So
//! one row moves mostly the part that the step consists of, a part that no row shows stays as it is, and a hundred rows
//! of one run are not a hundred runs.
//!
//! Hazard: a factor is bounded ([`BOUND`]), and times that no likely factors explain are not explained by unlikely
//! ones: [`Anchor::z`] says how unlikely the rows were, and who asks must refuse.

use std::collections::BTreeMap;

use serde::Serialize;

use stepsim_core::declare::named;
use stepsim_core::kernel_class::KernelClass;

use stepsim_read::analysis::stall_cause::{StallCause, WaitKind};

named! {
    /// A part of a step that goes faster or slower as one.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum StepPart {
        /// Kernels that multiply matrices.
        Products = "products",
        /// Kernels that memory bounds.
        Memory = "memory-bound kernels",
        /// Waiting for launches.
        Host = "host",
        /// Communication and copies that were waited for.
        Exchange = "exposed exchange",
    }
}

impl StepPart {
    /// How far the logarithm of its factor is spread before anything is measured: prices of products are off by a
    /// fifth, prices of memory-bound kernels by a third (`stepsim kernels --score`), the exposed time of host or
    /// network by a factor of two.
    pub const fn spread(self) -> f64 {
        match self {
            StepPart::Products => 0.2,
            StepPart::Memory => 0.3,
            StepPart::Host | StepPart::Exchange => 0.7,
        }
    }

    /// The part to which kernels of a class belong.
    pub const fn of_kernels(class: KernelClass) -> StepPart {
        if class.is_matrix() { StepPart::Products } else { StepPart::Memory }
    }
}

/// Seconds of each part of a step.
pub type PartSeconds = [f64; 4];

named! {
    /// How far a prediction is from the rows that are given.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Reach {
        /// Up to twice the devices.
        Twice = "more devices, up to 2 times",
        /// More, and up to 8 times.
        Eight = "2 to 8 times",
        /// More, and up to 32 times.
        ThirtyTwo = "8 to 32 times",
        /// More than that.
        Farther = "more than 32 times",
        /// As many devices, another layout.
        Layout = "as many devices, another layout",
        /// Another model on the same device with the same software.
        Model = "another model",
    }
}

impl Reach {
    /// The reach to `times` times the devices.
    pub fn of_devices(times: f64) -> Reach {
        match times {
            t if t <= 2.0 => Reach::Twice,
            t if t <= 8.0 => Reach::Eight,
            t if t <= 32.0 => Reach::ThirtyTwo,
            _ => Reach::Farther,
        }
    }

    /// The row's own share in the error of a measured step, of a model with experts or without. It leaves the part of
    /// the error with which predictions came nearest, over development rows: for another model a fifth, with experts
    /// 0.45; for another layout a tenth and 0.85; for more devices 0.7 and all.
    pub const fn own(self, experts: bool) -> f64 {
        match (self, experts) {
            (Reach::Twice | Reach::Eight | Reach::ThirtyTwo | Reach::Farther, false) => 0.11,
            (Reach::Twice | Reach::Eight | Reach::ThirtyTwo | Reach::Farther, true) => 0.03,
            (Reach::Layout, false) => 0.6,
            (Reach::Layout, true) => 0.07,
            (Reach::Model, false) => 0.4,
            (Reach::Model, true) => 0.22,
        }
    }
}

/// The error of one row where all factors are right, as a share.
const ROW: f64 = 0.05;
/// Rows farther from the others than this many times [`ROW`] count less, as in Huber's estimate.
const APART: f64 = 1.5;
/// No factor goes beyond it, or below one over it.
pub const BOUND: f64 = 4.0;

/// The seconds of a step by part. The mean rank's stalls are of the host, for exchanges, or for other ranks; these
/// and its kernels are shared out as the kernels are.
pub fn parts(
    step_s: f64,
    kernels: &BTreeMap<KernelClass, f64>,
    stalls: &BTreeMap<StallCause, f64>,
    busy_s: f64,
) -> PartSeconds {
    let all: f64 = busy_s + stalls.values().sum::<f64>();
    if all <= 0.0 {
        return [step_s, 0.0, 0.0, 0.0];
    }
    let waiting = |fits: fn(WaitKind) -> bool| -> f64 {
        stalls.iter().filter(|(cause, _)| fits(cause.waiting())).map(|(_, s)| s).sum::<f64>() / all
    };
    let host = waiting(|w| w == WaitKind::Host);
    let exchange = waiting(|w| matches!(w, WaitKind::Running | WaitKind::Shared | WaitKind::Queued));
    let of_part =
        |part| kernels.iter().filter(|(c, _)| StepPart::of_kernels(**c) == part).map(|(_, s)| s).sum();
    let (products, memory): (f64, f64) = (of_part(StepPart::Products), of_part(StepPart::Memory));
    let products = if products + memory > 0.0 { products / (products + memory) } else { 1.0 };
    let device = (1.0 - host - exchange).max(0.0);
    [device * products, device * (1.0 - products), host, exchange].map(|share| share * step_s)
}

/// A row that is given: the simulated step by part, and the measured one.
#[derive(Clone, Copy, Debug)]
pub struct AnchorRow {
    /// Simulated seconds.
    pub parts: PartSeconds,
    /// Measured seconds.
    pub measured_s: f64,
}

/// Factors of the parts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Anchor {
    /// Of each part, in the order of [`StepPart::ALL`].
    pub factors: [f64; 4],
    /// How far the measured times are from the simulated ones, in standard deviations of what was to be expected.
    pub z: f64,
}

impl Anchor {
    /// Farther than this many standard deviations, the rows are not of the simulated step.
    pub const IMPLAUSIBLE: f64 = 3.0;

    /// The most likely factors; all 1 without a row. `own` is what the rows share and the prediction does not.
    pub fn fit(given: &[AnchorRow], own: f64) -> Anchor {
        let n = given.len() as f64;
        let variance = ROW * ROW + n * own * own;
        let mut x = [0.0; 4];
        for _ in 0..100 {
            let before = x;
            for part in 0..4 {
                let (slope, curve) = Anchor::slopes(given, x, part, variance);
                let most = BOUND.ln();
                x[part] = (x[part] + slope / curve).clamp(-most, most);
            }
            if (0..4).all(|k| (x[k] - before[k]).abs() < 1e-6) {
                break;
            }
        }
        Anchor { factors: x.map(f64::exp), z: surprise(given, variance) }
    }

    /// Slope and curvature of the likelihood along the logarithm of one factor.
    fn slopes(given: &[AnchorRow], x: [f64; 4], part: usize, variance: f64) -> (f64, f64) {
        let prior = StepPart::ALL[part].spread().powi(-2);
        let here = Anchor { factors: x.map(f64::exp), z: 0.0 };
        let off: Vec<f64> =
            given.iter().map(|row| (row.measured_s / here.seconds(&row.parts)).ln()).collect();
        let middle = median(&off);
        let (mut slope, mut curve) = (-x[part] * prior, prior);
        for (row, off) in given.iter().zip(&off) {
            let share = here.factors[part] * row.parts[part] / here.seconds(&row.parts);
            let weight = (APART * ROW / (off - middle).abs().max(1e-12)).min(1.0) / variance;
            slope += weight * share * off;
            curve += weight * share * share;
        }
        (slope, curve)
    }

    /// Seconds of a step of such parts.
    pub fn seconds(&self, parts: &PartSeconds) -> f64 {
        self.factors.iter().zip(parts).map(|(factor, part)| factor * part).sum()
    }

    /// The least and the most seconds that a step of such parts plausibly takes before anything is measured.
    pub fn plausible(parts: &PartSeconds) -> [f64; 2] {
        let all: f64 = parts.iter().sum();
        let spread = Anchor::IMPLAUSIBLE * expected(parts, ROW * ROW).sqrt();
        [all * (-spread).exp(), all * spread.exp()]
    }
}

/// Variance of the logarithm of a step before anything is measured.
fn expected(parts: &PartSeconds, variance: f64) -> f64 {
    let all: f64 = parts.iter().sum();
    let of = |(part, s): (&StepPart, &f64)| (part.spread() * s / all).powi(2);
    variance + StepPart::ALL.iter().zip(parts).map(of).sum::<f64>()
}

/// The row in the middle against what was to be expected.
fn surprise(given: &[AnchorRow], variance: f64) -> f64 {
    let z = |row: &AnchorRow| {
        let off = (row.measured_s / row.parts.iter().sum::<f64>()).ln();
        off / expected(&row.parts, variance / given.len() as f64).sqrt()
    };
    median(&given.iter().map(z).collect::<Vec<f64>>())
}

fn median(list: &[f64]) -> f64 {
    let mut sorted = list.to_vec();
    sorted.sort_by(f64::total_cmp);
    super::statistics::quantile(&sorted, 0.5).unwrap_or_default()
}
