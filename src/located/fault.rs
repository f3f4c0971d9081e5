//! What is wrong in a document.

use std::fmt;

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Keys and indices from the root, as `a.b[2].c`; empty at the root. A key that cannot be read is `?`.
    pub path: String,
    /// What is wrong there, in serde's words.
    pub problem: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{place}{}", self.path, self.problem)
    }
}

/// An error at the place that failed.
pub(crate) fn fault(path: Option<String>, error: &serde_json::Error) -> Fault {
    Fault { path: path.unwrap_or_default(), problem: error.to_string() }
}
