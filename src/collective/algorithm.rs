//! What an algorithm says of itself.

use thiserror::Error;

use super::geometry::Geometry;
use super::registry::{ALGORITHMS, algorithm};
use super::schedule::{Adjust, Phase, Routes};
use super::{Op, Transfer};
use crate::program::Action;

/// A way to carry out a collective.
pub trait Algorithm: Sync + std::fmt::Debug {
    /// Short name, as users write it.
    fn name(&self) -> &'static str;
    /// Other names in use.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }
    /// Whether it can do `op` on such a group.
    ///
    /// # Errors
    /// Why not, in words.
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String>;
    /// Time in seconds on an idle network of this geometry, by the textbook formula, with `chunks` pipeline chunks.
    fn closed_form(&self, t: &Transfer, g: &Geometry, chunks: u32) -> f64;
    /// The transfers, as lock-step rounds.
    fn phases(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Vec<Phase>;
    /// The number of pipeline chunks that suits best; 1 for an algorithm without a pipeline.
    fn chunks(&self, _t: &Transfer, _g: &Geometry) -> u32 {
        1
    }
    /// Every transfer as a flow, for an algorithm whose rounds are not lock-step; `None` to unroll the phases.
    fn steps(
        &self,
        _t: &Transfer,
        _g: &Geometry,
        _chunks: u32,
        _r: &Routes<'_>,
        _a: Adjust,
    ) -> Option<Action> {
        None
    }
}

/// An algorithm that a group's size or fabric cannot run.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{algorithm} cannot run {op} on {group}: {why}; what can: {can}")]
pub struct Unsupported {
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

impl Unsupported {
    /// Where no algorithm at all fits.
    pub fn none(op: Op, g: &Geometry) -> Unsupported {
        // An op that only one algorithm does has its name; that one knows what is missing.
        let why = algorithm(op.name()).and_then(|a| a.supports(op, g).err());
        Unsupported::new("any algorithm", why.unwrap_or_else(|| "none fits".into()), op, g)
    }
    /// For a named algorithm, listing what the group can run instead.
    pub fn new(algorithm: &str, why: String, op: Op, g: &Geometry) -> Unsupported {
        let can: Vec<&str> =
            ALGORITHMS.iter().filter(|a| a.supports(op, g).is_ok()).map(|a| a.name()).collect();
        let can = if can.is_empty() { "nothing".into() } else { can.join(", ") };
        Unsupported { algorithm: algorithm.into(), op: op.name(), group: g.describe(), why, can }
    }
}
