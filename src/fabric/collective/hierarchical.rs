//! Hierarchical collectives: inside the node, then between nodes, then inside again.
//!
//! With `g` ranks on each of `k` nodes (links `B1`, `α1` inside, `B2`, `α2` between, one port each rank): ring
//! reduce-scatter in the node, ring all-reduce of the shard of `S/g` between counterparts on all rails at once, ring
//! all-gather in the node:
//!
//! `2(g−1)·(α1 + S/(g·B1)) + 2(k−1)·(α2 + S/(g·k·B2))`.
//!
//! All-gather and reduce-scatter are the second and first half of it. `2(k−1)/k·S/g` bytes of each rank leave the node.
//! Stages do not overlap here; a pipelined run tends to the longer of them.
//!
//! Source: Cho et al., "BlueConnect", 2019; Jia et al. 2018.

use super::algorithm::Algorithm;
use super::geometry::Geometry;
use super::pattern::Pattern;
use super::schedule::RoundGroup;
use super::{Op, Transfer};

/// See the module's text.
#[derive(Debug)]
pub struct Hierarchical;

impl Algorithm for Hierarchical {
    fn name(&self) -> &'static str {
        "hierarchical"
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        if !matches!(op, Op::AllReduce | Op::AllGather | Op::ReduceScatter) {
            return Err("it reduces and gathers".into());
        }
        match (g.nodes, g.per_node) {
            (1, _) => Err("the group lies within one node".into()),
            (_, 0) => Err("its nodes hold different numbers of ranks".into()),
            (_, 1) => Err("each node holds one rank".into()),
            _ => Ok(()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        let (members, nodes, bytes) = (f64::from(g.per_node), f64::from(g.nodes), t.bytes as f64);
        let inside = (members - 1.0) * g.around().time(1.0, bytes / members);
        let between = (nodes - 1.0) * g.next_node().time(1.0, bytes / members / nodes);
        if t.op == Op::AllReduce { 2.0 * (inside + between) } else { inside + between }
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        let shard = t.bytes as f64 / f64::from(g.per_node);
        let inside = RoundGroup::new(Pattern::NodeRing, g.per_node - 1, shard);
        let between = |rounds| RoundGroup::new(Pattern::RailRing, rounds, shard / f64::from(g.nodes));
        match t.op {
            Op::AllGather => vec![between(g.nodes - 1), inside],
            Op::ReduceScatter => vec![inside, between(g.nodes - 1)],
            _ => vec![inside.clone(), between(2 * (g.nodes - 1)), inside],
        }
    }
}
