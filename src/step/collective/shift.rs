//! Ring shift: every rank sends `S` bytes to the next rank of the group, all at once: `α + S/B`.
//!
//! One step of ring attention (Liu, Zaharia and Abbeel 2023, arXiv 2310.01889): key–value blocks move on by one rank.

use super::algorithm::Algorithm;
use super::geometry::Geometry;
use super::pattern::Pattern;
use super::schedule::Phase;
use super::{Op, Transfer};

/// See the module's text.
#[derive(Debug)]
pub struct Shift;

impl Algorithm for Shift {
    fn name(&self) -> &'static str {
        "ring-shift"
    }
    fn supports(&self, op: Op, _g: &Geometry) -> Result<(), String> {
        if op == Op::RingShift { Ok(()) } else { Err("it only passes buffers on by one rank".into()) }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        if g.nodes <= 1 {
            return g.flat().time(1.0, t.bytes as f64);
        }
        let bytes = t.bytes as f64;
        let of_node = f64::from(g.per_node.max(1));
        let inside = if g.per_node == 1 { 0.0 } else { bytes / g.intra.bandwidth() };
        g.leaving(g.inter) + (bytes / of_node / g.inter.bandwidth()).max(inside)
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<Phase> {
        vec![Phase::new(Pattern::Ring, 1, t.bytes as f64 / f64::from(g.rings()))]
    }
}
