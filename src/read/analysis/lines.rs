//! A comparison of two steps, line by line.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The unit of a comparison's line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Tokens per second.
    TokensPerSecond,
    /// A fraction of one.
    Fraction,
    /// A number.
    Count,
    /// US dollars.
    Dollars,
    /// Joules.
    Joules,
    /// Watts.
    Watts,
}

/// One quantity in both reports; zero where a report does not have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// Its section: `step`, `mean of a rank`, `from peak to MFU`, `communication`, `kernels`, `memory`, `stage 3`,
    /// `layers`.
    pub section: String,
    /// Its name.
    pub what: String,
    /// In which unit.
    pub unit: Measure,
    /// In the first report.
    pub a: f64,
    /// In the second.
    pub b: f64,
}

impl Line {
    /// Second less first.
    pub fn change(&self) -> f64 {
        self.b - self.a
    }
}

/// The lines of a comparison, section by section.
#[derive(Debug, Default)]
pub struct Lines {
    section: String,
    /// So far.
    pub lines: Vec<Line>,
}

impl Lines {
    /// Begins a section.
    pub fn section(&mut self, name: impl Into<String>) {
        self.section = name.into();
    }
    /// A quantity; left out where neither has it.
    pub fn add(&mut self, what: impl Into<String>, unit: Measure, a: f64, b: f64) {
        if a != 0.0 || b != 0.0 {
            self.lines.push(Line { section: self.section.clone(), what: what.into(), unit, a, b });
        }
    }
    /// Quantities by name.
    pub fn all(&mut self, unit: Measure, a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>) {
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for name in names {
            let of = |m: &BTreeMap<String, f64>| m.get(name).copied().unwrap_or(0.0);
            self.add(name, unit, of(a), of(b));
        }
    }
}
