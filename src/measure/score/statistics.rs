//! How far predictions are off, in a few numbers.

use serde::Serialize;

/// Errors of some rows. An error is predicted over measured, less one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Statistics {
    /// Rows.
    pub rows: usize,
    /// Rows with a prediction.
    pub simulated: usize,
    /// Mean of the absolute errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_abs_error: Option<f64>,
    /// Median of the absolute errors.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_abs_error: Option<f64>,
    /// Nine in ten absolute errors are at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p90_abs_error: Option<f64>,
    /// The largest absolute error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_abs_error: Option<f64>,
    /// Mean error: above zero, predictions are too slow.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bias: Option<f64>,
}

impl Statistics {
    /// Of `rows` rows, those with a prediction having these errors.
    pub fn of(rows: usize, errors: &[f64]) -> Statistics {
        let mut sizes: Vec<f64> = errors.iter().map(|e| e.abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let mean = |list: &[f64]| (!list.is_empty()).then(|| list.iter().sum::<f64>() / list.len() as f64);
        Statistics {
            rows,
            simulated: errors.len(),
            mean_abs_error: mean(&sizes),
            median_abs_error: quantile(&sizes, 0.5),
            p90_abs_error: quantile(&sizes, 0.9),
            max_abs_error: sizes.last().copied(),
            bias: mean(errors),
        }
    }
}

/// Rows in which simulation and closed form are far apart, and which of the two is nearer to what was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Disagreement {
    /// Rows.
    pub rows: usize,
    /// Those of them in which the simulation is nearer.
    pub simulation_nearer: usize,
    /// Mean absolute error of the simulation in these rows.
    pub simulation_error: f64,
    /// The same of the closed form.
    pub closed_form_error: f64,
}

impl Disagreement {
    /// Simulation and closed form are far apart where they differ by more than this, as a share of the latter.
    pub const FAR: f64 = 0.05;

    /// Of the errors of simulation and closed form, row by row; `None` where no row is far apart.
    pub fn of(errors: impl IntoIterator<Item = (f64, f64)>) -> Option<Disagreement> {
        let far = |(s, f): &(f64, f64)| ((1.0 + s) / (1.0 + f) - 1.0).abs() > Disagreement::FAR;
        let list: Vec<(f64, f64)> = errors.into_iter().filter(far).collect();
        let rows = list.len();
        let mean = |of: fn(&(f64, f64)) -> f64| list.iter().map(|e| of(e).abs()).sum::<f64>() / rows as f64;
        (rows > 0).then(|| Disagreement {
            rows,
            simulation_nearer: list.iter().filter(|(s, f)| s.abs() < f.abs()).count(),
            simulation_error: mean(|e| e.0),
            closed_form_error: mean(|e| e.1),
        })
    }
}

/// The quantile of sorted numbers, between neighbours as their distance says.
pub fn quantile(sorted: &[f64], part: f64) -> Option<f64> {
    let place = part * (sorted.len().checked_sub(1)?) as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

/// Kendall's τ over pairs within a block: pairs in the same order less pairs in the opposite, over all. Pairs whose
/// measured values differ by less than rounding (0.5 %) count nothing. `None` without a pair.
pub fn kendall<'a>(entries: impl IntoIterator<Item = (&'a str, f64, f64)>) -> Option<f64> {
    let mut entries: Vec<(&str, f64, f64)> = entries.into_iter().collect();
    entries.sort_by(|a, b| a.0.cmp(b.0));
    let (mut agree, mut pairs) = (0i64, 0i64);
    for block in entries.chunk_by(|a, b| a.0 == b.0) {
        for (i, a) in block.iter().enumerate() {
            for b in &block[i + 1..] {
                if (a.1 / b.1 - 1.0).abs() >= 0.005 {
                    pairs += 1;
                    agree += if (a.1 - b.1) * (a.2 - b.2) > 0.0 { 1 } else { -1 };
                }
            }
        }
    }
    (pairs > 0).then(|| agree as f64 / pairs as f64)
}
