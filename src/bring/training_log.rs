//! Times of steps in the log of a training run, whatever software wrote it.
//!
//! The words in front of a figure, and its meaning, stand in `workloads/imports/logs.json`. The first steps of a run
//! warm up: the median is of the others.

use std::collections::BTreeMap;

use serde::Deserialize;

use stepsim_spec::{SpecError, catalog};

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
