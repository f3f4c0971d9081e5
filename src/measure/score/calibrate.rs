//! Fitting the few constants that a device and a stack leave open to measured steps.
//!
//! Coordinate descent on the mean absolute logarithm of predicted over measured: robust against single rows, and each
//! constant stays within its bounds. The same fit without each source in turn says how far it carries over. Rows are
//! played once for each constant ([`Response`]); the fits go by their response to first order in logarithms.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use stepsim_simulate::Inputs;
use stepsim_step::spec::catalog;

/// A constant that may be fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FittedConstant {
    /// Its name on the command line.
    pub name: String,
    /// The field that it sets: of the machine behind `topology.`, else of the workload.
    pub path: String,
    /// Its value where the files say nothing.
    pub usual: f64,
    /// Least value.
    pub low: f64,
    /// Greatest value.
    pub high: f64,
    /// Its meaning.
    pub about: String,
}

/// The outcome of a fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// Path and fitted value of each constant.
    pub constants: Vec<(String, f64)>,
    /// Mean absolute error before.
    pub before: f64,
    /// Mean absolute error of the rows that it was fitted to.
    pub in_sample: f64,
    /// Mean absolute error of each group when it is left out of the fit.
    pub left_out: Vec<(String, f64)>,
    /// Mean over all rows of the errors when their group is left out; `None` with one group.
    pub leave_one_out: Option<f64>,
}

/// The constants that are shipped (`workloads/score/constants.json`).
pub fn constants() -> Vec<FittedConstant> {
    let text = catalog::file("workloads/score/constants.json").unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

impl FittedConstant {
    /// The setting that gives it a value.
    pub fn setting(&self, value: f64) -> String {
        format!("{}={value:.4}", self.path)
    }

    /// Its value in a workload and machine as they are read.
    pub fn value_in(&self, inputs: &Inputs) -> f64 {
        let (of, path) = match self.path.strip_prefix("topology.") {
            Some(path) => (serde_json::to_value(&inputs.topology.value), path),
            None => (serde_json::to_value(&inputs.workload.value), self.path.as_str()),
        };
        let pointer = format!("/{}", path.replace('.', "/"));
        of.ok().and_then(|v| v.pointer(&pointer).and_then(Value::as_f64)).unwrap_or(self.usual)
    }
}

/// How rows respond to constants: predicted over measured at some values, and the slopes of its logarithm over those
/// of the constants.
#[derive(Clone, Debug, PartialEq)]
pub struct Response {
    start: Vec<f64>,
    ratios: Vec<Option<f64>>,
    slopes: Vec<Vec<f64>>,
}

impl Response {
    /// Plays the rows at `start`, and once more for each constant, a tenth off.
    pub fn measure(
        constants: &[FittedConstant],
        start: &[f64],
        play: &mut dyn FnMut(&[f64]) -> Vec<Option<f64>>,
    ) -> Response {
        let ratios = play(start);
        let slope = |(i, constant): (usize, &FittedConstant)| {
            let mut at = start.to_vec();
            let lower = start[i] / 1.1;
            at[i] = if lower >= constant.low { lower } else { start[i] * 1.1 };
            let step = (at[i] / start[i]).ln();
            let moved = play(&at);
            let of = |(was, is): (&Option<f64>, &Option<f64>)| match (was, is) {
                (Some(was), Some(is)) if *was > 0.0 && *is > 0.0 => (is / was).ln() / step,
                _ => 0.0,
            };
            ratios.iter().zip(&moved).map(of).collect()
        };
        let slopes = constants.iter().enumerate().map(slope).collect();
        Response { start: start.to_vec(), ratios, slopes }
    }

    /// Leaves out rows that could not be played, here and in a list that goes with them.
    pub fn keep_played<T>(&mut self, beside: &mut Vec<T>) {
        let played: Vec<bool> = self.ratios.iter().map(Option::is_some).collect();
        for slopes in &mut self.slopes {
            let mut played = played.iter();
            slopes.retain(|_| played.next() == Some(&true));
        }
        let mut played = played.iter();
        beside.retain(|_| played.next() == Some(&true));
        self.ratios.retain(Option::is_some);
    }

    /// Predicted over measured of each row at other values, to first order.
    pub fn at(&self, values: &[f64]) -> Vec<Option<f64>> {
        let steps: Vec<f64> = values.iter().zip(&self.start).map(|(v, s)| (v / s).ln()).collect();
        let moved =
            |i: usize| steps.iter().zip(&self.slopes).map(|(step, slope)| step * slope[i]).sum::<f64>();
        self.ratios.iter().enumerate().map(|(i, ratio)| Some((*ratio)? * moved(i).exp())).collect()
    }
}

/// Mean of predicted over measured, each less one, without sign; `None` where a row could not be played.
pub fn mean_abs_error(ratios: &[Option<f64>]) -> Option<f64> {
    Some(mean(ratios, |_| true, |r| (r - 1.0).abs())).filter(|e| e.is_finite())
}

/// Fits constants from `start`. `ratios` plays the rows with the given values and tells predicted over measured of each
/// (in the order of `groups`, which names the group that each row is left out with).
pub fn calibrate(
    constants: &[FittedConstant],
    start: &[f64],
    groups: &[String],
    ratios: &mut dyn FnMut(&[f64]) -> Vec<Option<f64>>,
) -> Calibration {
    let mut played: Vec<(Vec<f64>, Vec<Option<f64>>)> = Vec::new();
    let mut all = |values: &[f64]| -> Vec<Option<f64>> {
        if let Some((_, known)) = played.iter().find(|(at, _)| at == values) {
            return known.clone();
        }
        let new = ratios(values);
        played.push((values.to_vec(), new.clone()));
        new
    };
    let before = mean(&all(start), |_| true, |r| (r - 1.0).abs());
    let best = descend(constants, start, &mut |values| mean(&all(values), |_| true, |r| r.ln().abs()));
    let in_sample = mean(&all(&best), |_| true, |r| (r - 1.0).abs());
    let names: BTreeSet<&String> = groups.iter().collect();
    let mut left_out = Vec::new();
    if names.len() > 1 {
        for name in names {
            let others = |i: usize| groups[i] != *name;
            let fit = descend(constants, start, &mut |values| mean(&all(values), others, |r| r.ln().abs()));
            left_out.push((name.clone(), mean(&all(&fit), |i| groups[i] == *name, |r| (r - 1.0).abs())));
        }
    }
    let rows = |name: &str| groups.iter().filter(|g| *g == name).count() as f64;
    let sum: f64 = left_out.iter().map(|(name, error)| rows(name) * error).sum();
    Calibration {
        constants: constants.iter().zip(&best).map(|(c, v)| (c.path.clone(), *v)).collect(),
        before,
        in_sample,
        leave_one_out: (!left_out.is_empty()).then(|| sum / groups.len() as f64),
        left_out,
    }
}

/// Mean of something over the ratios of some rows; infinite where a row could not be played, or there is none.
fn mean(ratios: &[Option<f64>], counts: impl Fn(usize) -> bool, of: impl Fn(f64) -> f64) -> f64 {
    let picked: Vec<f64> = (0..ratios.len())
        .filter(|i| counts(*i))
        .map(|i| ratios[i].filter(|r| *r > 0.0).map_or(f64::INFINITY, &of))
        .collect();
    if picked.is_empty() { f64::INFINITY } else { picked.iter().sum::<f64>() / picked.len() as f64 }
}

/// One constant after the other, by steps that shrink from a fifth to two hundredths.
fn descend(constants: &[FittedConstant], start: &[f64], loss: &mut dyn FnMut(&[f64]) -> f64) -> Vec<f64> {
    let mut at = start.to_vec();
    let mut best = loss(&at);
    for step in [0.2, 0.06, 0.02] {
        for _ in 0..6 {
            let before = best;
            for (i, constant) in constants.iter().enumerate() {
                for factor in [1.0 + step, 1.0 / (1.0 + step)] {
                    loop {
                        let mut next = at.clone();
                        next[i] = (at[i] * factor).clamp(constant.low, constant.high);
                        if next[i] == at[i] {
                            break;
                        }
                        let new = loss(&next);
                        if new >= best - 1e-6 {
                            break;
                        }
                        (at, best) = (next, new);
                    }
                }
            }
            if best >= before - 1e-6 {
                break;
            }
        }
    }
    at
}
