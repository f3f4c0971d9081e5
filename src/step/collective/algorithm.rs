//! What an algorithm says of itself.

use super::geometry::Geometry;
use super::schedule::{Adjust, Phase, Routes};
use super::{Op, Transfer};
use crate::core::program::Action;

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
