//! A fault in a document, and its place.

use std::fmt;

/// A fault in a document, and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct ReadFault {
    /// Keys and indices from the root, as `a.b[2].c`; empty at the root. A key that cannot be read is `?`.
    pub path: String,
    /// The fault, in serde's words.
    pub problem: String,
}

impl fmt::Display for ReadFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = if self.path.is_empty() { "" } else { ": " };
        write!(f, "{}{place}{}", self.path, self.problem)
    }
}

/// An error at the place that failed.
pub(crate) fn fault(path: Option<String>, error: &serde_json::Error) -> ReadFault {
    ReadFault { path: path.unwrap_or_default(), problem: error.to_string() }
}
