//! From the peak to MFU in a profile whose model is known.
//!
//! ```text
//! window = model FLOPs of its steps / peak + Σ bars
//! ```
//! A profile gives no FLOPs by kernel, so the model's are set against kernels by their work: products with weights
//! against GEMMs, products of tokens with one another against attention. Both are means of a device of the job: a
//! rank that holds more layers than others shows less efficient kernels than it has. Kernels of no known work are a
//! bar of their own.

use std::collections::BTreeMap;

use super::classes::Family;
use super::report::RankProfile;

pub use super::bars::{MeasuredBar, MeasuredWaterfall};

/// Seconds that a step of the model would take on one device at its peak.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AtPeak {
    /// Products with weights.
    pub matrices_s: f64,
    /// Products of tokens with one another, as MFU counts them.
    pub mixing_s: f64,
}

/// The waterfall of a rank.
pub fn waterfall(p: &RankProfile, at_peak: AtPeak) -> MeasuredWaterfall {
    let steps = p.steps.len().max(1) as f64;
    let mut bars: BTreeMap<String, f64> = BTreeMap::new();
    let mut put = |what: String, s: f64| *bars.entry(what).or_default() += s;
    let mut of_kernels = 0.0;
    for k in p.kernels.values().filter(|k| k.family == Family::Compute) {
        of_kernels += k.total_s;
        put(
            match k.work.as_str() {
                "gemm" | "attention" => format!("{} below the peak", k.work),
                "" => "other kernels".into(),
                work => format!("{work} kernels"),
            },
            k.total_s,
        );
    }
    put("gemm below the peak".into(), -at_peak.matrices_s * steps);
    put("attention below the peak".into(), -at_peak.mixing_s * steps);
    put("kernels side by side".into(), p.compute_s - of_kernels);
    put("exposed communication".into(), p.exposed_communication_s);
    let idle: f64 = p.idle_s.values().sum();
    put("copies and fills alone".into(), p.window_s - p.compute_s - p.exposed_communication_s - idle);
    p.idle_s.iter().for_each(|(cause, s)| put(format!("idle: {cause}"), *s));
    let window = p.window_s.max(f64::MIN_POSITIVE);
    let bar = |(what, time_s): (String, f64)| MeasuredBar { what, time_s, share: time_s / window };
    // Less than a nanosecond is rounding.
    let mut bars: Vec<MeasuredBar> = bars.into_iter().filter(|b| b.1.abs() >= 1e-9).map(bar).collect();
    bars.sort_by(|a, b| b.time_s.total_cmp(&a.time_s));
    MeasuredWaterfall { mfu: (at_peak.matrices_s + at_peak.mixing_s) * steps / window, bars }
}
