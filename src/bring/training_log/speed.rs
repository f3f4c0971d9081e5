//! The speed of a step, in any of the units in which people tell it.

use serde::{Deserialize, Serialize};

use super::line::LogPoint;
use stepsim_price::model::flops::StepFlops;
use stepsim_simulate::Inputs;

/// The unit of a speed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SpeedUnit {
    /// Seconds of a step.
    Seconds,
    /// Milliseconds of a step.
    Milliseconds,
    /// Seconds since the run began: a step is what lies between two lines.
    Elapsed,
    /// Steps, a second.
    Steps,
    /// Sequences of all devices, a second.
    Sequences,
    /// Tokens of a device, a second.
    Tokens,
    /// Tokens of all devices, a second.
    TokensOfAll,
    /// Tokens, a second, where nobody says of how many devices.
    TokensOfAny,
    /// Model TFLOP/s of a device.
    Tflops,
    /// Percent of the device's peak.
    Percent,
}

/// A speed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSpeed {
    /// Its unit.
    pub unit: SpeedUnit,
    /// The number.
    pub value: f64,
}

/// The work of a step.
#[derive(Clone, Copy, Debug)]
pub struct StepWork {
    /// Sequences of all devices.
    pub sequences: f64,
    /// Tokens of all devices.
    pub tokens: f64,
    /// Devices.
    pub devices: f64,
    /// Model FLOPs of a device, attention in full.
    pub flops: f64,
    /// Dense peak of a device in the format of its products, FLOP/s.
    pub peak: f64,
}

impl StepWork {
    /// The work of a described step.
    pub fn of(inputs: &Inputs) -> StepWork {
        let (workload, devices) = (&inputs.workload.value, f64::from(inputs.machine.devices()));
        let sequences = workload.batch.global;
        StepWork {
            sequences: sequences as f64,
            tokens: sequences as f64 * workload.sequence(&inputs.model) as f64,
            devices,
            flops: StepFlops::of_step(workload, &inputs.model, sequences, None).model / devices,
            peak: inputs.peak().0,
        }
    }
}

impl SpeedUnit {
    /// True if more is faster.
    pub fn is_rate(self) -> bool {
        !matches!(self, SpeedUnit::Seconds | SpeedUnit::Milliseconds | SpeedUnit::Elapsed)
    }

    /// The steps of points in this unit: for each its number and a time, or the inverse of a rate.
    pub(super) fn steps(self, points: Vec<LogPoint>) -> Vec<LogPoint> {
        let time = |value: f64| if self.is_rate() { 1.0 / value } else { value };
        if self != SpeedUnit::Elapsed {
            return points.into_iter().map(|p| LogPoint { value: time(p.value), ..p }).collect();
        }
        between(&points)
    }

    /// A rate in words.
    pub(super) fn of_rate(self, value: f64) -> String {
        let unit = match self {
            SpeedUnit::Seconds | SpeedUnit::Elapsed => "s",
            SpeedUnit::Milliseconds => "ms",
            SpeedUnit::Steps => "steps/s",
            SpeedUnit::Sequences => "sequences/s",
            SpeedUnit::Tokens => "tokens/s a device",
            SpeedUnit::TokensOfAll | SpeedUnit::TokensOfAny => "tokens/s",
            SpeedUnit::Tflops => "TFLOP/s a device",
            SpeedUnit::Percent => "% of the peak",
        };
        format!("{value:.1} {unit}")
    }
}

/// Steps between times since the run began. Where these are whole seconds, lines are taken together until the rounding
/// of their two ends is a small part of what lies between them.
fn between(points: &[LogPoint]) -> Vec<LogPoint> {
    let is_whole = points.iter().all(|point| point.value.fract() == 0.0);
    let least = if is_whole { WHOLE_SECONDS } else { f64::MIN_POSITIVE };
    let step = |from: &LogPoint, to: &LogPoint| {
        let steps = to.step?.checked_sub(from.step?).filter(|n| *n > 0)?;
        let value = (to.value - from.value) / steps as f64;
        (value > 0.0).then_some(LogPoint { value, ..*to })
    };
    let mut found = Vec::new();
    let Some(mut from) = points.first() else { return found };
    let mut last = None;
    for to in points {
        if to.step < from.step || to.value < from.value {
            found.extend(last.take());
            from = to;
        }
        last = step(from, to);
        if last.is_some() && to.value - from.value >= least {
            found.extend(last.take());
            from = to;
        }
    }
    // The rest counts where a run has no more.
    if found.is_empty() {
        found.extend(last);
    }
    found
}

/// Whole seconds that are taken together at least: their ends are rounded by one in forty.
const WHOLE_SECONDS: f64 = 40.0;

impl RunSpeed {
    /// Seconds of a step of so much work.
    pub fn seconds(self, work: &StepWork) -> f64 {
        let value = self.value;
        match self.unit {
            SpeedUnit::Seconds | SpeedUnit::Elapsed => value,
            SpeedUnit::Milliseconds => value / 1e3,
            SpeedUnit::Steps => 1.0 / value,
            SpeedUnit::Sequences => work.sequences / value,
            SpeedUnit::Tokens => work.tokens / work.devices / value,
            SpeedUnit::TokensOfAll | SpeedUnit::TokensOfAny => work.tokens / value,
            SpeedUnit::Tflops => work.flops / (value * 1e12),
            SpeedUnit::Percent => work.flops / (work.peak * value / 100.0),
        }
    }

    /// Seconds of a step, where the unit needs no work to tell them.
    pub(super) fn plain_seconds(self) -> Option<f64> {
        match self.unit {
            SpeedUnit::Seconds | SpeedUnit::Elapsed => Some(self.value),
            SpeedUnit::Milliseconds => Some(self.value / 1e3),
            SpeedUnit::Steps => Some(1.0 / self.value),
            _ => None,
        }
    }
}

/// The units of speeds as one types them, with their factor.
const WORDS: [(SpeedUnit, &str, f64); 16] = [
    (SpeedUnit::Seconds, "s sec s/it s/step s/iter", 1.0),
    (SpeedUnit::Milliseconds, "ms ms/it ms/step", 1.0),
    (SpeedUnit::Seconds, "min", 60.0),
    (SpeedUnit::Steps, "it/s steps/s step/s", 1.0),
    (SpeedUnit::Sequences, "samples/s seq/s sequences/s samples/sec", 1.0),
    (SpeedUnit::Tokens, "tok/s/gpu tokens/s/gpu tok/s/device tokens/s/device tgs", 1.0),
    (SpeedUnit::Tokens, "ktok/s/gpu ktokens/s/gpu", 1e3),
    (SpeedUnit::TokensOfAll, "tok/s/all tokens/s/all", 1.0),
    (SpeedUnit::TokensOfAll, "ktok/s/all ktokens/s/all", 1e3),
    (SpeedUnit::TokensOfAll, "mtok/s/all mtokens/s/all", 1e6),
    (SpeedUnit::TokensOfAny, "tok/s tokens/s tok/sec tokens/sec tps", 1.0),
    (SpeedUnit::TokensOfAny, "ktok/s ktokens/s", 1e3),
    (SpeedUnit::TokensOfAny, "mtok/s mtokens/s", 1e6),
    (SpeedUnit::Tflops, "pflops pflop/s", 1e3),
    (SpeedUnit::Tflops, "tflops tflop/s tflops/gpu tflop/s/gpu tflop/s/device tflops/s", 1.0),
    (SpeedUnit::Percent, "% %mfu", 1.0),
];

impl std::str::FromStr for RunSpeed {
    type Err = String;

    /// Reads a number with its unit: `13.1s`, `640 ms`, `31%`, `2100tok/s/gpu`.
    fn from_str(text: &str) -> Result<RunSpeed, String> {
        let lower = text.trim().to_ascii_lowercase().replace(' ', "");
        let reads =
            |end: &usize| lower.get(..*end).is_some_and(|n| n.replace(',', "").parse::<f64>().is_ok());
        let digits = (1..=lower.len()).rev().find(reads).unwrap_or(0);
        let (number, unit) = lower.split_at(digits);
        let number = number.replace(',', "").parse::<f64>().ok().filter(|n| *n > 0.0 && n.is_finite());
        let found = WORDS.iter().find(|(_, words, _)| words.split(' ').any(|word| word == unit));
        match (number, found) {
            (Some(number), Some((unit, _, times))) => Ok(RunSpeed { unit: *unit, value: number * times }),
            _ => {
                Err("a number with its unit: 13.1s, 640ms, 31%, 2100tok/s/gpu, 134ktok/s (of all devices), \
                      420TFLOPs, 1.2it/s or 64samples/s"
                    .into())
            }
        }
    }
}
