//! Direct algorithms: all pairs at once.
//!
//! * **one-shot** all-reduce: every rank sends its whole buffer to every other: `α + (n−1)·S/B` on a switch. Least
//!   latency, most bytes. All-gather sends the shard of `S/n`, all-to-all the piece for each peer:
//!   `α + (n−1)/n · S/B`. On a full mesh with a link of `b` for each peer: `α + S/b` and `α + S/(n·b)`.
//! * **two-shot** all-reduce: direct reduce-scatter, then direct all-gather: `2α + 2(n−1)/n · S/B` on a switch, and
//!   `2α + 2·S/(n·b)` on a full mesh, where it uses all links while a ring uses one of `n − 1`.
//!
//! Source: the one-shot and two-shot kernels of NVIDIA TensorRT-LLM and AMD RCCL; Thakur et al. 2005 for the model.

use super::algorithm::Algorithm;
use super::geometry::{DomainWiring, Geometry, NeighbourLink};
use super::pattern::Pattern;
use super::schedule::RoundGroup;
use super::{Op, Transfer};

/// Transfers that share a sender's outgoing link when all pairs are at work.
fn fan_out(g: &Geometry) -> f64 {
    if g.fabric == DomainWiring::Mesh && g.nodes <= 1 { 1.0 } else { f64::from(g.size - 1) }
}

/// The time of one round of all pairs with `bytes` each.
pub(super) fn all_pairs_time(g: &Geometry, bytes: f64) -> f64 {
    if g.nodes <= 1 {
        return g.intra.time(1.0, fan_out(g) * bytes);
    }
    if let Some(pairs) = g.pairs {
        return pairs.time(1.0, bytes);
    }
    // The network port carries all bytes that leave the node, the scale-up port also those that hop to their rail.
    let to = |members: f64, link: NeighbourLink| members * bytes / link.bandwidth();
    let border = g.across_border();
    let far = border.map_or(0.0, |(members, across)| to(members, across));
    let border = border.map_or(0.0, |(_, across)| across.alpha());
    let outside = to(f64::from(g.size - g.per_node.max(1)), g.near()).max(far);
    let inside = g.node_pairs_s(g.inside_of_pairs() * bytes);
    g.inter.alpha().max(g.alone.alpha()).max(g.intra.alpha()).max(border) + outside.max(inside)
}

fn not_on_a_torus(g: &Geometry) -> Result<(), String> {
    match g.fabric {
        DomainWiring::Torus(_) => Err("members of a torus have links to their neighbours only".into()),
        _ => Ok(()),
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct OneShot;

impl Algorithm for OneShot {
    fn name(&self) -> &'static str {
        "direct"
    }
    fn aliases(&self) -> &'static [&'static str] {
        &["one-shot"]
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        not_on_a_torus(g)?;
        match op {
            Op::AllReduce | Op::AllGather | Op::ReduceScatter | Op::AllToAll => Ok(()),
            _ => Err("it sends between all pairs".into()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        all_pairs_time(g, piece(t, g))
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        vec![RoundGroup::new(Pattern::AllPairs, 1, piece(t, g))]
    }
}

/// Bytes from one rank to another in one shot.
fn piece(t: &Transfer, g: &Geometry) -> f64 {
    let whole = t.bytes as f64;
    if t.op == Op::AllReduce { whole } else { whole / f64::from(g.size) }
}

/// See the module's text.
#[derive(Debug)]
pub struct TwoShot;

impl Algorithm for TwoShot {
    fn name(&self) -> &'static str {
        "two-shot"
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        not_on_a_torus(g)?;
        if op == Op::AllReduce { Ok(()) } else { Err("it is an all-reduce".into()) }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        2.0 * all_pairs_time(g, t.bytes as f64 / f64::from(g.size))
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        vec![RoundGroup::new(Pattern::AllPairs, 2, t.bytes as f64 / f64::from(g.size))]
    }
}
