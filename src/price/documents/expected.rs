//! The expected time of the slowest of n ranks over the mean.
//!
//! Laws of order statistics: of n values drawn from a known set, of n normals, of n exponentials. The bound of the mean
//! is no bound of the maximum, and the tail of real lengths is heavier than a normal's: the simulation draws them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Expected largest of `n` values drawn from `values`, over their mean: Σ v₍ᵢ₎·((i/q)ⁿ − ((i−1)/q)ⁿ).
pub fn of_values(values: &[f64], n: u64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let q = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / q;
    let at_most = |i: usize| (i as f64 / q).powf(n as f64);
    let largest: f64 = (1..).zip(&sorted).map(|(i, v)| v * (at_most(i) - at_most(i - 1))).sum();
    if mean > 0.0 { largest / mean } else { 1.0 }
}

/// Expected largest sum of `each` values over the mean sum, for `n` sums of independent values: sums are taken to be
/// normal.
pub fn of_sums(values: &[f64], n: u64, each: u64) -> f64 {
    let q = values.len() as f64;
    let mean = values.iter().sum::<f64>() / q;
    let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (q - 1.0).max(1.0);
    if mean > 0.0 { 1.0 + mean_maximum(n) * (variance / each.max(1) as f64).sqrt() / mean } else { 1.0 }
}

/// Mean of the largest of `n` independent standard normals. Each is found once: layouts of a study ask for a few.
pub fn mean_maximum(n: u64) -> f64 {
    static KNOWN: Mutex<BTreeMap<u64, f64>> = Mutex::new(BTreeMap::new());
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    *known.entry(n).or_insert_with(|| integrated(n))
}

/// ∫ (1 − Φⁿ − Φⁿ(−x)) over x > 0, by Simpson's rule.
fn integrated(n: u64) -> f64 {
    const STEPS: usize = 4000;
    const END: f64 = 10.0;
    let h = END / STEPS as f64;
    let density = |x: f64| (-0.5 * x * x).exp() / (2.0 * std::f64::consts::PI).sqrt();
    let power = |p: f64| (n as f64 * p.ln()).exp();
    let mut tail = 0.5;
    let mut sum = 0.0;
    for i in 0..=STEPS {
        let x = i as f64 * h;
        let integrand = -(n as f64 * f64::ln_1p(-tail)).exp_m1() - power(tail);
        sum += integrand
            * if i == 0 || i == STEPS {
                1.0
            } else if i % 2 == 1 {
                4.0
            } else {
                2.0
            };
        // The tail of the next point, by Simpson's rule over the step.
        tail -= h / 6.0 * (density(x) + 4.0 * density(x + h / 2.0) + density(x + h));
        tail = tail.max(f64::MIN_POSITIVE);
    }
    sum * h / 3.0
}
