//! The part of days of training that is progress: interruptions, restarts, checkpoints, slow devices.
//!
//! A job works τ seconds, stands still d for a checkpoint, and can restart from it l seconds later (0: synchronous).
//! Interruptions come at the rate λ = devices / (device-hours between two); each costs a restart R and all work since
//! the last checkpoint that was safe. The expected wall time of such a segment, work lost included, is exactly
//!
//! X = (1/λ + R)·e^{λl}·(e^{λ(τ+d)} − 1),  for l ≤ τ + d,
//!
//! with e^{λR}/λ instead of 1/λ + R where a restart can be interrupted too; goodput is τ/X. Without l this is Daly's
//! model (J. T. Daly, FGCS 22, 2006); with l a renewal argument adds the factor: the first segment after a restart must
//! survive τ + d + l. The best τ solves λτ = 1 − e^{−λ(τ+d)}, whatever R and l are; Young's √(2d/λ) and Daly's series
//! approximate it.
//!
//! Hazard: first-order formulas (1 − d/(τ+d) − λ(R + (τ+d)/2)) go negative on large machines; none is used here.

mod checkpoint;
mod monte_carlo;

pub use checkpoint::CheckpointTimes;
pub use monte_carlo::{Days, GoodputSpread, GoodputSummary, simulate};

use stepsim_spec::reliability::{Reliability, Restart};

/// Seconds of an hour.
const HOUR: f64 = 3600.0;

/// A job as interruptions see it. Times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct GoodputJob {
    /// Devices that work.
    pub devices: u32,
    /// Interruptions a second, λ.
    pub rate: f64,
    /// Work between two checkpoints, τ.
    pub interval: f64,
    /// Stall of a checkpoint, d.
    pub stall: f64,
    /// From its end until the checkpoint is safe, l.
    pub safe_after: f64,
    /// A restart, R.
    pub restart: Restart,
}

impl GoodputJob {
    /// A job whose steps take `step_s`; the interval is rounded to whole steps, at least one.
    pub fn new(of: &Reliability, devices: u32, step_s: f64, times: CheckpointTimes) -> GoodputJob {
        let rate = f64::from(devices) / (of.failures.device_hours_between * HOUR);
        let steps = |seconds: f64| (seconds / step_s).round().max(1.0);
        let interval = match (of.checkpoint.every_steps, of.checkpoint.every_s) {
            (Some(n), _) => f64::from(n),
            (_, Some(seconds)) => steps(seconds),
            _ => steps(best_interval(rate, times.stall)),
        } * step_s;
        GoodputJob {
            devices,
            rate,
            interval,
            stall: times.stall,
            safe_after: times.safe_after,
            restart: of.restart.clone(),
        }
    }

    /// The wait of one checkpoint for the one before it: storage takes one at a time.
    fn backlog(&self) -> f64 {
        (self.safe_after - self.interval - self.stall).max(0.0)
    }

    /// Expected wall time of a segment, X. `None` where storage takes longer than a segment.
    pub fn expected_segment(&self) -> Option<f64> {
        if self.backlog() > 0.0 {
            return None;
        }
        Some(segment(self.rate, self.interval, self.stall, self.safe_after, &self.restart))
    }

    /// Expected goodput, τ/X.
    pub fn expected_goodput(&self) -> Option<f64> {
        self.expected_segment().map(|x| self.interval / x)
    }

    /// The intervals that are known to be good, each with its exact goodput.
    pub fn intervals(&self) -> Vec<Interval> {
        let (rate, d) = (self.rate, self.stall);
        let known = [
            ("chosen", self.interval),
            ("best", best_interval(rate, d)),
            ("Daly", daly_interval(rate, d)),
            ("Young", young_interval(rate, d)),
        ];
        let of = |(name, seconds): (&'static str, f64)| {
            let job = GoodputJob { interval: seconds, ..self.clone() };
            Interval { name, seconds, goodput: job.expected_goodput() }
        };
        known.into_iter().filter(|(_, seconds)| *seconds > 0.0).map(of).collect()
    }
}

/// An interval between checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Interval {
    /// Whose.
    pub name: &'static str,
    /// Work between two checkpoints in seconds.
    #[serde(rename = "interval_s")]
    pub seconds: f64,
    /// Exact goodput, where there is a closed form.
    pub goodput: Option<f64>,
}

/// X of the module's page.
fn segment(rate: f64, interval: f64, stall: f64, safe_after: f64, restart: &Restart) -> f64 {
    let r = restart.time_s;
    let lost = if restart.can_fail { (rate * r).exp() / rate } else { 1.0 / rate + r };
    lost * (rate * safe_after).exp() * (rate * (interval + stall)).exp_m1()
}

/// The interval with the largest goodput: λτ = 1 − e^{−λ(τ+d)}, by Newton's method.
pub fn best_interval(rate: f64, stall: f64) -> f64 {
    let a = rate * stall;
    if a == 0.0 {
        return 0.0;
    }
    // f(x) = x − 1 + e^{−x−a} is convex and increasing for x > 0: from 1, where it is positive, Newton's steps descend.
    let mut x: f64 = 1.0;
    for _ in 0..100 {
        let e = (-x - a).exp_m1();
        let step = (x + e) / -e;
        x -= step;
        if step.abs() <= 1e-15 * x {
            break;
        }
    }
    x / rate
}

/// Young's first order (CACM 17, 1974): √(2d/λ).
pub fn young_interval(rate: f64, stall: f64) -> f64 {
    (2.0 * stall / rate).sqrt()
}

/// Daly's series (2006): √(2dM)·(1 + √(d/2M)/3 + d/(18M)) − d with M = 1/λ; M itself where d > 2M.
pub fn daly_interval(rate: f64, stall: f64) -> f64 {
    let ratio = stall * rate / 2.0;
    if ratio > 1.0 {
        return 1.0 / rate;
    }
    young_interval(rate, stall) * (1.0 + ratio.sqrt() / 3.0 + ratio / 9.0) - stall
}
