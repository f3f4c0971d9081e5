//! The speed of a step, in any of the units in which people tell it.

use serde::{Deserialize, Serialize};

use super::clock::{ClockedSteps, between};
use super::line::LogPoint;
use super::steady::last_run;
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
    pub(super) fn steps(self, points: Vec<LogPoint>) -> ClockedSteps {
        if self == SpeedUnit::Elapsed {
            return between(&points);
        }
        let time = |value: f64| if self.is_rate() { 1.0 / value } else { value };
        let before = points.len() - last_run(&points).0.len();
        let begins = before.checked_sub(1).map_or(0, |last| points[last].line + 1);
        let points = points.into_iter().map(|p| LogPoint { value: time(p.value), ..p }).collect();
        ClockedSteps { points, restarts: 0, begins, rounded: false }
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

/// A number whose commas stand before groups of three digits.
fn grouped(text: &str) -> Option<f64> {
    let mut groups = text.split('.').next()?.split(',');
    let first = groups.next()?;
    let is_group = |group: &str| group.len() == 3 && group.bytes().all(|b| b.is_ascii_digit());
    let is_grouped = groups.clone().next().is_none() || first.len() <= 3 && groups.all(is_group);
    let behind = text.split_once('.').is_none_or(|(_, behind)| !behind.contains(','));
    if is_grouped && behind { text.replace(',', "").parse().ok() } else { None }
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
        let read = |end: usize| lower.get(..end).and_then(grouped).map(|number| (number, &lower[end..]));
        let (number, unit) = (1..=lower.len()).rev().find_map(read).unwrap_or((0.0, &lower));
        let number = Some(number).filter(|n| *n > 0.0 && n.is_finite());
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
