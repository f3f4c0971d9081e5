//! Problems in a file: the place, the value, the allowed values, and the remedy.

use std::fmt;

/// One thing wrong in a file that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Where in the file, as a JSON path: `parallelism.tensor`.
    pub path: String,
    /// The value found there, as JSON.
    pub value: String,
    /// The allowed values.
    pub allowed: String,
    /// The remedy.
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} is not allowed; allowed: {}", self.path, self.value, self.allowed)?;
        if !self.hint.is_empty() {
            write!(f, " ({})", self.hint)?;
        }
        Ok(())
    }
}

/// A number as one writes it: 1e-300 has three hundred zeros otherwise.
fn shown(value: String) -> String {
    match value.parse::<f64>() {
        Ok(number) if value.len() > 20 => format!("{number:e}"),
        _ => value,
    }
}

/// Collects the problems of one part of a file.
pub(crate) struct Problems {
    at: String,
    list: Vec<Problem>,
}

impl Problems {
    /// A collector for the part at JSON path `at` (empty: the whole file).
    pub(crate) fn new(at: &str) -> Self {
        Problems { at: at.to_string(), list: Vec::new() }
    }
    /// Notes a value that is not allowed.
    pub(crate) fn add(
        &mut self,
        path: impl AsRef<str>,
        value: impl fmt::Display,
        allowed: impl Into<String>,
        hint: impl Into<String>,
    ) {
        let path = path.as_ref();
        let path = if self.at.is_empty() { path.to_string() } else { format!("{}.{path}", self.at) };
        self.list.push(Problem {
            path,
            value: shown(value.to_string()),
            allowed: allowed.into(),
            hint: hint.into(),
        });
    }
    /// Takes a problem whose path is complete but for this part's own.
    pub(crate) fn push(&mut self, mut problem: Problem) {
        if !self.at.is_empty() {
            problem.path = format!("{}.{}", self.at, problem.path);
        }
        self.list.push(problem);
    }
    /// Checks a count, where it is given, that must be at least 1 and at most `max`.
    pub(crate) fn size(&mut self, path: impl AsRef<str>, value: impl Into<Option<u64>>, max: u64) {
        if let Some(value) = value.into().filter(|value| *value == 0 || *value > max) {
            self.add(path, value, format!("a whole number from 1 to {max}"), "");
        }
    }
    /// Checks a number, where it is given, that must lie in a closed range.
    pub(crate) fn range(
        &mut self,
        path: impl AsRef<str>,
        value: impl Into<Option<f64>>,
        low: f64,
        high: f64,
    ) {
        if let Some(value) = value.into().filter(|value| !(low..=high).contains(value)) {
            self.add(path, value, format!("a number from {low} to {high}"), "");
        }
    }
    /// Takes over problems that were found elsewhere.
    pub(crate) fn extend(&mut self, more: Vec<Problem>) {
        self.list.extend(more);
    }
    /// How many were found so far.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
    /// The problems, in the order found.
    pub(crate) fn into_list(self) -> Vec<Problem> {
        self.list
    }
}
