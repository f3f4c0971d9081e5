//! Broadcast from the first member, and the reduction to it.
//!
//! * **binomial tree**: in round `j` each of the first `2^j` ranks sends the whole buffer on:
//!   `⌈log2 n⌉·(α + S/B)`. A reduction runs backwards.
//! * **pipelined chain**: the buffer passes from rank to rank in `k` chunks: `(n−2+k)·(α + S/(k·B))`, best with
//!   `k = √((n−2)·S/(B·α))`.
//!
//! Source: Thakur et al. 2005; Hockney model.

use super::algorithm::Algorithm;
use super::geometry::Geometry;
use super::pattern::Pattern;
use super::schedule::Phase;
use super::{Op, Transfer};

/// More chunks than this are not worth their events.
pub(super) const MOST_CHUNKS: f64 = 1024.0;

/// See the module's text.
#[derive(Debug)]
pub struct Binomial;

impl Algorithm for Binomial {
    fn name(&self) -> &'static str {
        "binomial"
    }
    fn aliases(&self) -> &'static [&'static str] {
        &["binomial-tree"]
    }
    fn supports(&self, op: Op, _g: &Geometry) -> Result<(), String> {
        match op {
            Op::Broadcast | Op::Reduce => Ok(()),
            _ => Err("it has one root".into()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        let rounds = f64::from(g.log2_ceil());
        g.flat().time(rounds, rounds * t.bytes as f64)
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<Phase> {
        let bytes = t.bytes as f64;
        let distances = (0..g.log2_ceil()).map(|j| 1 << j);
        if t.op == Op::Reduce {
            distances.rev().map(|d| Phase::new(Pattern::Shrink(d), 1, bytes)).collect()
        } else {
            distances.map(|d| Phase::new(Pattern::Grow(d), 1, bytes)).collect()
        }
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct Chain;

impl Algorithm for Chain {
    fn name(&self) -> &'static str {
        "chain"
    }
    fn aliases(&self) -> &'static [&'static str] {
        &["pipelined-chain"]
    }
    fn supports(&self, op: Op, _g: &Geometry) -> Result<(), String> {
        if op == Op::Broadcast { Ok(()) } else { Err("it passes one buffer along".into()) }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, chunks: u32) -> f64 {
        let (rounds, k) = (f64::from(g.size - 2 + chunks), f64::from(chunks));
        g.flat().time(rounds, rounds * t.bytes as f64 / k)
    }
    fn phases(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Vec<Phase> {
        let phase = Phase::new(Pattern::Chain, chunks, t.bytes as f64 / f64::from(chunks));
        vec![Phase { fill: g.size - 2, ..phase }]
    }
    fn chunks(&self, t: &Transfer, g: &Geometry) -> u32 {
        let class = g.flat();
        let best = f64::from(g.size - 2) * t.bytes as f64 / (class.bandwidth() * class.alpha());
        best.sqrt().round().clamp(1.0, MOST_CHUNKS) as u32
    }
}
