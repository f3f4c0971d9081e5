//! All-to-all over a rail-optimised network: a hop inside the node, then the receiver's rail (NCCL's PXN).
//!
//! Bytes of rank (node, i) for (node', j) go over the scale-up links to (node, j) and from there on rail `j`, without
//! being stored on the way. With a buffer of `S` among `N` ranks, `g` to a node, `(g−1)/g·S` crosses the port inside
//! the node and `(N−g)/N·S` the network port: `α1 + α2 + max((g−1)/g·S/B1, (N−g)/N·S/B2)`.
//! In `steps`, pairs on one rail start before those that hop first, so the network port is busy earlier by up to `α1`;
//! with `α1 = 0` and the network port the slower of the two it agrees exactly.
//!
//! Source: NCCL 2.12 release notes (PXN).

use super::algorithm::Algorithm;
use super::geometry::Geometry;
use super::pattern::Pattern;
use super::schedule::RoundGroup;
use super::{Op, Transfer};

/// See the module's text.
#[derive(Debug)]
pub struct Rail;

impl Algorithm for Rail {
    fn name(&self) -> &'static str {
        "rail"
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        match (op, g.nodes, g.per_node) {
            (Op::AllToAll, 2.., 2..) => Ok(()),
            (Op::AllToAll, 2.., 0) => Err("its nodes hold different numbers of ranks".into()),
            (Op::AllToAll, ..) => Err("there are no rails to change".into()),
            _ => Err("it sends between all pairs".into()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        let (members, n, bytes) = (f64::from(g.per_node), f64::from(g.size), t.bytes as f64);
        let inside = g.node_pairs_s(bytes / members);
        let beyond = |of: f64, rate: f64| (n - of) / n * bytes / rate;
        let border = g.border_of_pairs();
        let far = border.map_or(0.0, |(of, across)| beyond(f64::from(of), across.bandwidth()));
        let border = border.map_or(0.0, |(_, across)| across.alpha());
        let outside = beyond(members, g.near().bandwidth()).max(far);
        g.intra.alpha() + g.inter.alpha().max(g.alone.alpha()).max(border) + inside.max(outside)
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        vec![RoundGroup::new(Pattern::RailPairs, 1, t.bytes as f64 / f64::from(g.size))]
    }
}
