//! Steps in the log of a training run, whatever software wrote it.
//!
//! 1. [`Log::read`] finds the lines of steps. The words around each figure, and its unit, stand in
//!    `workloads/imports/logs.json`: a software is one entry of that table.
//! 2. [`Steady`] tells the steady step from warm-up, checkpoints, stalls, drift and sick periods.
//! 3. [`RunSpeed::seconds`] turns the figure into seconds of a step, by the work of the run ([`StepWork`]).
//!
//! Hazards: a last line without its end may be cut inside a number, and is left out. Of a run that began again the last
//! beginning counts, with the facts printed since. A log with lines of two softwares that contradict one another is
//! refused.

mod clock;
mod facts;
mod line;
mod speed;
mod steady;

use serde::Deserialize;

pub use facts::LogFacts;
pub use speed::{RunSpeed, SpeedUnit, StepWork};
pub use steady::{Steady, SteadyPeriod};

use clock::ClockedSteps;
use line::{FigurePattern, LogPoint, figures, plain_lines};
use stepsim_spec::{SpecError, catalog};

/// The table of logs.
const FILE: &str = "workloads/imports/logs.json";

/// Lines of two softwares are of one run if their steps differ by less than this factor.
const ONE_RUN: f64 = 1.3;

/// A step as a log has it.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// The software whose lines they are.
    pub software: String,
    /// Lines with a figure of a step.
    pub lines: usize,
    /// The line behind the last of a run before the one that counts.
    begins: usize,
    /// True if it had other global batches before.
    changed: bool,
    /// The unit of that figure.
    unit: SpeedUnit,
    /// The steps over time; their median is of that unit.
    pub steady: Steady,
    /// Facts that it prints of the run.
    pub facts: LogFacts,
}

/// The table of logs.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogTable {
    #[serde(rename = "description")]
    _description: String,
    #[serde(rename = "source")]
    _source: String,
    software: Vec<LogFormat>,
    /// Patterns of numbers that any software prints once, and the field that each is.
    facts: Vec<(FigurePattern, String)>,
}

/// The lines of one software.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LogFormat {
    name: String,
    /// In front of the number of a step.
    #[serde(default)]
    step: Vec<FigurePattern>,
    /// Figures of a step with their units, the best first.
    figures: Vec<(FigurePattern, SpeedUnit)>,
}

impl Log {
    /// Reads a log; `None` where no line has a figure of a step.
    ///
    /// # Errors
    /// The table of logs cannot be read, or the log has lines of two runs.
    pub fn read(text: &str) -> Result<Option<Log>, SpecError> {
        let table: LogTable = stepsim_located::shipped(catalog::file(FILE).unwrap_or_default())
            .map_err(|e| SpecError::file(FILE, e.to_string()))?;
        let lines = plain_lines(text);
        let from = LogFacts::last_batch(&table.facts, &lines);
        let own = &lines[from..];
        let mut all: Vec<Log> = table.software.iter().filter_map(|format| log(format, own)).collect();
        // Equal counts keep the order of the table.
        all.sort_by_key(|log| std::cmp::Reverse(log.lines));
        for other in all.iter().skip(1) {
            contradict(&all[0], other)?;
        }
        Ok(all.into_iter().next().map(|best| {
            let facts = LogFacts::read(&table.facts, &lines, from + best.begins);
            Log { facts, changed: from > 0, ..best }
        }))
    }

    /// Times of steps that something else than a log says, in seconds; `None` where there are none.
    pub fn of_times(software: &str, seconds: &[f64]) -> Option<Log> {
        let points: Vec<LogPoint> = seconds
            .iter()
            .map(|s| LogPoint { line: 0, step: None, of: None, steps: 1.0, value: *s })
            .collect();
        let steady = Steady::of(&points, false)?;
        let facts = LogFacts::default();
        let software = software.into();
        Some(Log {
            software,
            lines: points.len(),
            begins: 0,
            changed: false,
            unit: SpeedUnit::Seconds,
            steady,
            facts,
        })
    }

    /// The steady step, with its unit.
    pub fn speed(&self) -> RunSpeed {
        let value = if self.unit.is_rate() { 1.0 / self.steady.median } else { self.steady.median };
        RunSpeed { unit: self.unit, value }
    }

    /// Seconds of a step of so much work.
    pub fn seconds(&self, work: &StepWork) -> f64 {
        self.speed().seconds(work)
    }

    /// The step in terms of another log's; `None` where their units cannot be compared.
    pub fn times_of(&self, other: &Log) -> Option<f64> {
        match self.unit == other.unit {
            true => Some(self.steady.median / other.steady.median),
            false => Some(self.speed().plain_seconds()? / other.speed().plain_seconds()?),
        }
    }

    /// The log in words, in seconds where its unit says them, else in that unit.
    pub fn plain_words(&self) -> String {
        match self.speed().plain_seconds() {
            Some(seconds) => self.told(&self.steady.words(seconds / self.steady.median)),
            None => self.told(&self.steady.told(&|time| self.unit.of_rate(1.0 / time))),
        }
    }

    /// The log in words: the steady step, and what else happened.
    pub fn words(&self, work: &StepWork) -> String {
        self.told(&self.steady.words(self.seconds(work) / self.steady.median))
    }

    fn told(&self, steady: &str) -> String {
        let changed = if self.changed { "; the global batch changed, the last counts" } else { "" };
        format!("{}, {} lines: {steady}{changed}", self.software, self.lines)
    }
}

/// The best figures of a software in a log, without facts; `None` where it has none.
fn log(format: &LogFormat, lines: &[String]) -> Option<Log> {
    let found = |pattern: &FigurePattern| figures(lines, pattern, &format.step);
    let all: Vec<_> = format
        .figures
        .iter()
        .map(|(pattern, unit)| (*unit, found(pattern)))
        .filter(|(_, v)| !v.is_empty())
        .collect();
    let most = all.iter().map(|(_, values)| values.len()).max()?;
    // The best unit that most lines have: a summary at the end does not hide a figure of every line.
    let (unit, points) = all.into_iter().find(|(_, values)| 2 * values.len() >= most)?;
    let (software, lines, facts) = (format.name.clone(), points.len(), LogFacts::default());
    let ClockedSteps { points, restarts, begins, rounded } = unit.steps(points);
    let steady = Steady::of(&points, rounded)?;
    let steady = Steady { restarts: steady.restarts + restarts, ..steady };
    Some(Log { software, lines, begins, changed: false, unit, steady, facts })
}

/// Refuses a log in which as many lines of another software tell another step.
fn contradict(best: &Log, other: &Log) -> Result<(), SpecError> {
    let (Some(a), Some(b)) = (best.speed().plain_seconds(), other.speed().plain_seconds()) else {
        return Ok(());
    };
    let many = other.lines >= 3 && 4 * other.lines >= best.lines;
    if !many || (a / b).ln().abs() < ONE_RUN.ln() {
        return Ok(());
    }
    let told = |log: &Log, s: f64| format!("{} lines of {} ({s:.3} s a step)", log.lines, log.software);
    let problem = format!("has {} and {}", told(best, a), told(other, b));
    Err(SpecError::file("the log", problem).hint("give the lines of one run alone"))
}
