//! Ring shift: every rank sends `S` bytes to the next rank of the group, all at once: `α + S/B`.
//!
//! A message is not cut over the ports of a node as a ring's may be: each rank has one message for one other rank,
//! and between two nodes one message crosses on one port. The longest message decides.
//!
//! One step of ring attention (Liu, Zaharia and Abbeel 2023, arXiv 2310.01889): key–value blocks move on by one rank.

use super::algorithm::{Algorithm, lag_over_bytes};
use super::geometry::{DomainWiring, Geometry, NeighbourLink};
use super::pattern::Pattern;
use super::schedule::RoundGroup;
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
        let time = |link: NeighbourLink| link.time(1.0, t.bytes as f64);
        match g.fabric {
            DomainWiring::Torus(_) => time(g.alone),
            _ if g.nodes <= 1 => time(g.around()),
            _ if g.per_node == 1 => time(g.alone),
            _ => time(g.alone).max(time(g.around())),
        }
    }
    /// The slower of two kinds of links need not be the one with the longer latency.
    fn lag(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Option<f64> {
        Some(lag_over_bytes(self, t, g, chunks))
    }
    fn phases(&self, t: &Transfer, _g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        vec![RoundGroup::new(Pattern::Shift(1), 1, t.bytes as f64)]
    }
}
