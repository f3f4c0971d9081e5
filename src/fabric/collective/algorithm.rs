//! The interface of an algorithm.

use super::geometry::Geometry;
use super::schedule::{Adjust, PatternRoutes, RoundGroup};
use super::{Op, Transfer};
use stepsim_core::program::Action;

/// A way to carry out a collective.
pub trait Algorithm: Sync + std::fmt::Debug {
    /// Short name, as users write it.
    fn name(&self) -> &'static str;
    /// Other names in use.
    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }
    /// True if it can run `op` on such a group.
    ///
    /// # Errors
    /// The reason, in words.
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String>;
    /// Time in seconds on an idle network of this geometry, by the textbook formula, with `chunks` pipeline chunks.
    fn closed_form(&self, t: &Transfer, g: &Geometry, chunks: u32) -> f64;
    /// The part of its time that its bytes do not explain when they flow over the links of its phases one phase after
    /// the other: latency, and the filling and draining of pipelines. `None` where each round waits for the one
    /// before: then each takes its longest latency.
    fn lag(&self, _t: &Transfer, _g: &Geometry, _chunks: u32) -> Option<f64> {
        None
    }
    /// The transfers, in rounds.
    fn phases(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Vec<RoundGroup>;
    /// The phases that one flow stands for at `fluid`, where they are not the transfers themselves.
    fn fluid_phases(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Vec<RoundGroup> {
        self.phases(t, g, chunks)
    }
    /// The number of pipeline chunks that suits best; 1 for an algorithm without a pipeline.
    fn chunks(&self, _t: &Transfer, _g: &Geometry) -> u32 {
        1
    }
    /// Every transfer as a flow, for an algorithm that has no rounds; `None` to unroll the phases.
    fn steps(
        &self,
        _t: &Transfer,
        _g: &Geometry,
        _chunks: u32,
        _r: &PatternRoutes<'_>,
        _a: Adjust,
    ) -> Option<Action> {
        None
    }
}

/// [`Algorithm::lag`] of an algorithm whose closed form without latency is the time of its bytes.
pub(super) fn lag_over_bytes(a: &dyn Algorithm, t: &Transfer, g: &Geometry, chunks: u32) -> f64 {
    a.closed_form(t, g, chunks) - a.closed_form(t, &g.instant(), chunks)
}
