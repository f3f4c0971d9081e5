//! Errors in input files, as their authors see them.

use std::fmt;

use serde::Serialize;

use super::problem::Problem;

/// A wrong input: where it stands, what is wrong, what is allowed, what to do.
///
/// Its `Display` is the whole message, several lines, without a trailing newline.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, thiserror::Error)]
pub struct SpecError {
    /// The file (as the person named it), the embedded name, or the command-line argument.
    pub file: String,
    /// JSON path inside it, like `node.scale_up.switch`; empty for the file as a whole.
    pub path: String,
    /// The problem, with the offending value.
    pub problem: String,
    /// The offending value as JSON, where the problem is about one value; else empty.
    pub value: String,
    /// The allowed values; empty if the problem says them.
    pub allowed: String,
    /// The remedy; empty if it is plain.
    pub hint: String,
}

impl SpecError {
    /// A problem at a path of a file that is filled in later ([`SpecError::in_file`]).
    pub fn at(path: impl Into<String>, problem: impl Into<String>) -> SpecError {
        SpecError { path: path.into(), problem: problem.into(), ..SpecError::default() }
    }
    /// A problem with a file as a whole.
    pub fn file(file: impl Into<String>, problem: impl Into<String>) -> SpecError {
        SpecError { file: file.into(), ..SpecError::at("", problem) }
    }
    /// Keeps the value that is wrong.
    pub fn value(mut self, value: impl Into<String>) -> SpecError {
        self.value = value.into();
        self
    }
    /// Says what is allowed.
    pub fn allowed(mut self, allowed: impl Into<String>) -> SpecError {
        self.allowed = allowed.into();
        self
    }
    /// Says what to do.
    pub fn hint(mut self, hint: impl Into<String>) -> SpecError {
        self.hint = hint.into();
        self
    }
    /// Names the file, unless one is named already.
    pub fn in_file(mut self, file: &str) -> SpecError {
        if self.file.is_empty() {
            self.file = file.to_string();
        }
        self
    }
    /// Puts a path before the path.
    pub fn under(mut self, parent: &str) -> SpecError {
        self.path = match (parent.is_empty(), self.path.is_empty()) {
            (true, _) => self.path,
            (_, true) => parent.to_string(),
            _ if self.path.starts_with('[') => format!("{parent}{}", self.path),
            _ => format!("{parent}.{}", self.path),
        };
        self
    }
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}: ", self.file)?;
        }
        if !self.path.is_empty() {
            write!(f, "at `{}`: ", self.path)?;
        }
        write!(f, "{}", self.problem)?;
        if !self.allowed.is_empty() {
            write!(f, "\n  allowed: {}", self.allowed)?;
        }
        if !self.hint.is_empty() {
            write!(f, "\n  hint: {}", self.hint)?;
        }
        Ok(())
    }
}

/// The names of `among` nearest to `name`, best first, at most three: those that differ in at most two characters or a
/// quarter of them, then those that contain `name` or are contained in it, in their own order (the field that is meant
/// most often stands first: `GBps` is `bandwidth_GBps_per_direction` rather than `combined_GBps`).
pub fn nearest<'a>(name: &str, among: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let length = name.chars().count();
    let limit = (length / 4).max(2).min(length / 2);
    let plain = |name: &str| name.replace(['-', '_', '.', ' '], "").to_lowercase();
    let mut scored: Vec<((usize, usize), &str)> = among
        .into_iter()
        .filter_map(|candidate| {
            let contains = name.len() > 2 && (candidate.contains(name) || name.contains(candidate));
            match distance(name, candidate) {
                // A longer name that begins so, whatever its signs, is more likely than a similar spelling; the
                // shortest first.
                _ if name.len() > 2 && plain(candidate).starts_with(&plain(name)) => {
                    Some(((0, candidate.len()), candidate))
                }
                distance if distance <= limit => Some(((distance, 0), candidate)),
                _ if contains => Some(((usize::MAX, 0), candidate)),
                _ => None,
            }
        })
        .collect();
    scored.sort_by_key(|(score, _)| *score);
    scored.into_iter().take(3).map(|(_, candidate)| candidate).collect()
}

fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let next = (corner + usize::from(x != *y)).min(row[j] + 1).min(row[j + 1] + 1);
            corner = std::mem::replace(&mut row[j + 1], next);
        }
    }
    row[b.len()]
}

/// The first of several problems as an error.
pub(super) fn first(problems: Vec<Problem>) -> Result<(), SpecError> {
    problems.into_iter().next().map_or(Ok(()), |problem| Err(problem.into()))
}

impl From<Problem> for SpecError {
    fn from(problem: Problem) -> SpecError {
        SpecError::at(problem.path, format!("{} is not allowed", problem.value))
            .value(problem.value)
            .allowed(problem.allowed)
            .hint(problem.hint)
    }
}
