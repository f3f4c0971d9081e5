//! Send and receive: `α + S/B`.

use super::algorithm::Algorithm;
use super::geometry::Geometry;
use super::pattern::Pattern;
use super::schedule::RoundGroup;
use super::{Op, Transfer};

/// The first member sends `S` bytes to the second, over one route.
#[derive(Debug)]
pub struct SendReceive;

impl Algorithm for SendReceive {
    fn name(&self) -> &'static str {
        "send-recv"
    }
    fn aliases(&self) -> &'static [&'static str] {
        &["p2p"]
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        match (op, g.size) {
            (Op::SendRecv, 2) => Ok(()),
            (Op::SendRecv, n) => Err(format!("a channel has two ends, this group {n}")),
            _ => Err("it only sends from one rank to another".into()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        g.flat().time(1.0, t.bytes as f64)
    }
    fn phases(&self, t: &Transfer, _g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        vec![RoundGroup::new(Pattern::Pair, 1, t.bytes as f64)]
    }
}
