//! Times of steps in the log of a training run, whatever software wrote it.
//!
//! The words in front of a figure, and its meaning, stand in `workloads/imports/logs.json`. The first steps of a run
//! warm up: the median is of the others.

use std::collections::BTreeMap;

use serde::Deserialize;

use stepsim_step::spec::{SpecError, catalog};

/// The meaning of a figure of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Figure {
    Seconds,
    Milliseconds,
    /// Steps, a second.
    Steps,
    /// Sequences, a second, of all devices.
    Sequences,
    /// Tokens, a second and device.
    Tokens,
}

/// A step as a log has it, to be told by what the run is.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Whose line it is.
    pub software: String,
    /// Lines with a time.
    pub lines: usize,
    /// Of a step: seconds, sequences or tokens a second, of the line in the middle.
    figure: (Figure, f64),
    /// Sequences of a step, where lines say them.
    pub sequences: Option<u64>,
}

/// The described run's amounts of each step, where a log says a rate.
#[derive(Clone, Copy, Debug)]
pub struct StepWork {
    /// Sequences of all devices.
    pub sequences: f64,
    /// Tokens of all devices.
    pub tokens: f64,
    /// Devices.
    pub devices: f64,
}

/// Words of logs.
#[derive(Debug, Deserialize)]
struct LogWords {
    /// Software → what stands in front of a figure → what the figure is.
    software: BTreeMap<String, BTreeMap<String, Figure>>,
    /// Words in front of the sequences of a step.
    sequences: Vec<String>,
}

/// Part of the lines at the beginning that are left out.
const WARM_UP: usize = 5;

impl Log {
    /// Reads a log; `None` where no line has a time of a step.
    ///
    /// # Errors
    /// The words of logs cannot be read.
    pub fn read(text: &str) -> Result<Option<Log>, SpecError> {
        const FILE: &str = "workloads/imports/logs.json";
        let words: LogWords = serde_json::from_str(catalog::file(FILE).unwrap_or_default())
            .map_err(|e| SpecError::file(FILE, e.to_string()))?;
        let mut best: Option<Log> = None;
        for (software, marks) in &words.software {
            for (mark, figure) in marks {
                let values: Vec<f64> = text.lines().filter_map(|line| behind(line, mark)).collect();
                if values.is_empty() || best.as_ref().is_some_and(|best| best.lines >= values.len()) {
                    continue;
                }
                let mut sorted = values[values.len() / WARM_UP..].to_vec();
                sorted.sort_by(f64::total_cmp);
                let figure = (*figure, sorted[sorted.len() / 2]);
                let sequences = words.sequences.iter().find_map(|mark| {
                    text.lines().rev().find_map(|line| behind(line, mark)).map(|n| n as u64)
                });
                best = Some(Log { software: software.clone(), lines: values.len(), figure, sequences });
            }
        }
        Ok(best)
    }

    /// Seconds of a step of so much work.
    pub fn seconds(&self, work: StepWork) -> f64 {
        let (figure, value) = self.figure;
        match figure {
            Figure::Seconds => value,
            Figure::Milliseconds => value / 1e3,
            Figure::Steps => 1.0 / value,
            Figure::Sequences => work.sequences / value,
            Figure::Tokens => work.tokens / work.devices / value,
        }
    }
}

/// The number behind a mark, with `,` between its thousands or a `K` or `M` behind it.
fn behind(line: &str, mark: &str) -> Option<f64> {
    let (_, rest) = line.split_once(mark)?;
    let rest = rest.trim_start_matches([' ', ':', '=', '\'', '"', '\t']);
    // Colours of a terminal stand around the figures of torchtitan.
    let rest =
        rest.strip_prefix('\u{1b}').and_then(|r| r.split_once('m')).map_or(rest, |(_, r)| r.trim_start());
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".,eE-+".contains(c))).unwrap_or(rest.len());
    let number: f64 =
        rest[..end].trim_end_matches([',', '.', '-', '+', 'e', 'E']).replace(',', "").parse().ok()?;
    let times = match rest[end..].chars().next() {
        Some('K') => 1e3,
        Some('M') => 1e6,
        _ => 1.0,
    };
    (number > 0.0 && number.is_finite()).then_some(number * times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_many_kinds_of_logs_are_read() {
        let work = StepWork { sequences: 256.0, tokens: 256.0 * 4096.0, devices: 64.0 };
        for (software, line, seconds) in [
            (
                "Megatron",
                " iteration        7/     100 | consumed samples:   1792 | elapsed time per iteration (ms): 4321.5 | \
                 throughput per GPU (TFLOP/s/GPU): 401.2 | global batch size:   256 | lm loss: 9.1E+00 |",
                4.3215,
            ),
            (
                "NeMo",
                "iteration 5/99 | global_step: 5 | reduced_train_loss: 11.0 | train_step_timing in s: 8.212",
                8.212,
            ),
            (
                "torchtitan",
                "step: 10  loss:  7.1  memory: 41.22GiB(52.1%)  tps: 7,123  tflops: 350.1  mfu: 35.4%",
                16384.0 / 7123.0,
            ),
            ("torchtitan", "step: 10  \u{1b}[34mtps: \u{1b}[35m7,123  mfu: 35.4%", 16384.0 / 7123.0),
            ("DeepSpeed", "steps: 10 loss: 1.3214 iter time (s): 1.234 samples/sec: 51.8", 1.234),
            (
                "DeepSpeed",
                "epoch=0/micro_step=20/global_step=10, RunningAvgSamplesPerSec=64.0, CurrSamplesPerSec=62.1",
                4.0,
            ),
            (
                "MaxText",
                "completed step: 5, seconds: 3.215, TFLOP/s/device: 150.2, Tokens/s/device: 2548.1, loss: 10.1",
                3.215,
            ),
            (
                "HF Trainer",
                "{'train_samples_per_second': 12.3, 'train_steps_per_second': 0.4, 'epoch': 1.0}",
                2.5,
            ),
            (
                "nanotron",
                "iteration: 5 / 100 | elapsed_time_per_iteration_ms: 1.23K | tokens_per_sec: 105K",
                1.23,
            ),
        ] {
            let log = Log::read(line).unwrap().unwrap_or_else(|| panic!("{line}"));
            assert_eq!(log.software, software, "{line}");
            assert!((log.seconds(work) / seconds - 1.0).abs() < 1e-3, "{line}: {}", log.seconds(work));
        }
        assert_eq!(Log::read("loss: 3.1\nnothing of a step").unwrap(), None);
    }

    #[test]
    fn the_middle_of_the_steps_behind_the_warm_up_counts() {
        let times = [9000, 2000, 1010, 1000, 1000, 1000, 1020, 1000, 1000, 990];
        let lines: Vec<String> = times
            .iter()
            .map(|t| format!("elapsed time per iteration (ms): {t}.0 | global batch size: 64 |"))
            .collect();
        let log = Log::read(&lines.join("\n")).unwrap().unwrap();
        let work = StepWork { sequences: 64.0, tokens: 1.0, devices: 1.0 };
        assert_eq!((log.lines, log.sequences, log.seconds(work)), (10, Some(64), 1.0));
    }
}
