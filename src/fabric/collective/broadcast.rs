//! Broadcast from the first member, and the reduction to it.
//!
//! * **binomial tree**: in round `j` each of the first `2^j` ranks sends the whole buffer on: `⌈log2 n⌉·(α + S/B)`
//!   for `n` a power of two. In general rank `p` has it when its sender has sent to all before it:
//!   `(⌊log2 p⌋ + 1)·S/B` and an α for each set bit of `p`; the last of all counts. A reduction runs backwards.
//! * **pipelined chain**: the buffer passes from rank to rank in `k` chunks: `Σ α + (n−2+k)·S/(k·B)` with the latency
//!   of each hop once.
//!
//! Source: Thakur et al. 2005; Hockney model.

use super::algorithm::{Algorithm, lag_over_bytes};
use super::doubling::class;
use super::geometry::Geometry;
use super::pattern::Pattern;
use super::schedule::RoundGroup;
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
        let hop = |bit: u32| class(g, 1 << bit).time(1.0, t.bytes as f64);
        let queue = |bit: u32| t.bytes as f64 / class(g, 1 << bit).bandwidth();
        last_ranks(g.size)
            .map(|rank| (0..=rank.ilog2()).map(|b| if rank >> b & 1 == 1 { hop(b) } else { queue(b) }).sum())
            .fold(0.0, f64::max)
    }
    fn lag(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Option<f64> {
        Some(lag_over_bytes(self, t, g, chunks))
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        let bytes = t.bytes as f64;
        let distances = (0..g.log2_ceil()).map(|j| 1 << j);
        if t.op == Op::Reduce {
            distances.rev().map(|d| RoundGroup::new(Pattern::Shrink(d), 1, bytes)).collect()
        } else {
            distances.map(|d| RoundGroup::new(Pattern::Grow(d), 1, bytes)).collect()
        }
    }
}

/// The ranks that may receive last: for each bit of `n`, the largest rank below `n` that lacks this bit.
fn last_ranks(n: u32) -> impl Iterator<Item = u32> {
    let above = move |bit: u32| u32::try_from((u64::from(n) >> bit >> 1) << bit << 1).unwrap_or(0);
    let lacks = (0..u32::BITS).filter(move |bit| n >> bit & 1 == 1);
    lacks.map(move |bit| above(bit) | ((1 << bit) - 1)).filter(|rank| *rank > 0)
}

/// See the module's text.
#[derive(Debug)]
pub struct ChainBroadcast;

impl Algorithm for ChainBroadcast {
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
        let (leave, k) = (g.nodes.max(1) - 1, f64::from(chunks));
        let latency = f64::from(g.size - 1 - leave) * g.intra.alpha() + f64::from(leave) * g.inter.alpha();
        let rounds = f64::from(g.size - 2 + chunks);
        latency + rounds * t.bytes as f64 / k / g.flat().bandwidth()
    }
    fn lag(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Option<f64> {
        Some(self.closed_form(t, g, chunks) - t.bytes as f64 / g.flat().bandwidth())
    }
    fn phases(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Vec<RoundGroup> {
        let phase = RoundGroup::new(Pattern::Chain, chunks, t.bytes as f64 / f64::from(chunks));
        vec![RoundGroup { fill: g.size - 2, ..phase }]
    }
    fn chunks(&self, t: &Transfer, g: &Geometry) -> u32 {
        let class = g.flat();
        let best = f64::from(g.size - 2) * t.bytes as f64 / (class.bandwidth() * class.alpha());
        best.sqrt().round().clamp(1.0, MOST_CHUNKS) as u32
    }
}
