//! Operations that an algorithm cannot do, and the algorithms that can.

use thiserror::Error;

use super::Op;
use super::geometry::Geometry;
use super::registry::{ALGORITHMS, algorithm};

/// An algorithm that a group's size or fabric cannot run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{algorithm} cannot run {op} on {group}: {why}; what can: {can}")]
pub struct UnsupportedAlgorithm {
    /// Its name.
    pub algorithm: String,
    /// The op's name.
    pub op: &'static str,
    /// The group in words.
    pub group: String,
    /// The reason.
    pub why: String,
    /// Names of the algorithms that can.
    pub can: String,
}

impl UnsupportedAlgorithm {
    /// Where no algorithm at all fits.
    pub fn none(op: Op, g: &Geometry) -> UnsupportedAlgorithm {
        // An op that only one algorithm does has its name; that one knows what is missing.
        let why = algorithm(op.name()).and_then(|a| a.supports(op, g).err());
        UnsupportedAlgorithm::new("any algorithm", why.unwrap_or_else(|| "none fits".into()), op, g)
    }
    /// For a named algorithm, listing what the group can run instead.
    pub fn new(algorithm: &str, why: String, op: Op, g: &Geometry) -> UnsupportedAlgorithm {
        let can: Vec<&str> =
            ALGORITHMS.iter().filter(|a| a.supports(op, g).is_ok()).map(|a| a.name()).collect();
        let can = if can.is_empty() { "nothing".into() } else { can.join(", ") };
        UnsupportedAlgorithm { algorithm: algorithm.into(), op: op.name(), group: g.describe(), why, can }
    }
}
