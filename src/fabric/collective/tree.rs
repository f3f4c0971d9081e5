//! Double binary tree all-reduce.
//!
//! Two binary trees in which each rank is an inner node of at most one; each carries `S/2` in `k` chunks: up, adding at
//! every rank, then down. A chunk leaves a rank when it has come from all its children, behind the chunk before it; the
//! root turns it round. Source: NCCL `src/graph/trees.cc`; Sanders, Speck and Träff 2009.
//!
//! Positions are in the order of nodes, so edges near the leaves stay inside: of the `h = ⌈log2 n⌉` edges to the root,
//! `log2 g − 1` with `g` ranks on a node; the others leave it.
//!
//! Ports are shared unevenly while the pipeline runs, so there is no closed form. The busiest port carries `2S` for
//! `n > 2` (an inner rank of one tree, a leaf of the other); the busiest network port `3S/2` where nodes have several
//! ranks, `S` on two nodes of more than two, since a rank has at most three edges that leave its node.
//! [`Algorithm::closed_form`] is an **estimate**:
//!
//! `2·Σ_h (α + S/(2k·B)) − S/(2k·B) + busiest port`
//!
//! with the latency of each edge once up and once down (chunks on their way do not wait for each other's). `steps`
//! plays the true pipeline; against it the estimate is at most 15 % off in random cases. `fluid` keeps to the
//! estimate, and loads all ports as it does the busiest: of the two trees a rank is the leaf of one and an inner node
//! of the other.

use super::algorithm::Algorithm;
use super::geometry::{DomainWiring, Geometry};
use super::pattern::{Pattern, tree_parent};
use super::schedule::{Adjust, PatternRoutes, RepeatedPattern, RoundGroup, limit};
use super::{Op, Transfer};
use stepsim_core::program::{Action, BEHIND, Flow, Rounds};
use stepsim_core::units::Time;

/// See the module's text.
#[derive(Debug)]
pub struct Tree;

/// Edges from a leaf to the root: inside nodes, and between them.
fn edges(g: &Geometry) -> (f64, f64) {
    let all = g.log2_ceil();
    let inside = if g.nodes <= 1 { all } else { g.per_node.max(1).ilog2().saturating_sub(1).min(all) };
    (f64::from(inside), f64::from(all - inside))
}

/// Seconds of `S` bytes on the busiest port.
fn busiest_s(bytes: f64, g: &Geometry) -> f64 {
    let inside = if g.size == 2 { 1.0 } else { 2.0 } * bytes / g.intra.bandwidth();
    if g.nodes <= 1 {
        return inside;
    }
    let network = match (g.per_node, g.nodes, g.size) {
        (_, _, 2) => 1.0,
        (1, ..) => 2.0,
        (3.., 2, _) => 1.0,
        _ => 1.5,
    };
    let network = network * bytes / g.inter.bandwidth();
    if g.per_node == 1 { network } else { network.max(inside) }
}

impl Algorithm for Tree {
    fn name(&self) -> &'static str {
        "tree"
    }
    fn aliases(&self) -> &'static [&'static str] {
        &["double-binary-tree"]
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        match (op, &g.fabric) {
            (_, DomainWiring::Torus(_)) => Err("its edges would cross many links of a torus".into()),
            (Op::AllReduce, _) => Ok(()),
            _ => Err("it is an all-reduce".into()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, chunks: u32) -> f64 {
        let chunk = t.bytes as f64 / 2.0 / f64::from(chunks);
        let (inside, between) = edges(g);
        let way = inside * g.intra.time(1.0, chunk) + between * g.inter.time(1.0, chunk);
        let turned = if g.size == 2 { way } else { 0.0 };
        let own = chunk / g.flat().bandwidth();
        2.0 * way - own - turned + busiest_s(t.bytes as f64, g)
    }
    fn lag(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Option<f64> {
        Some(self.closed_form(t, g, chunks) - busiest_s(t.bytes as f64, g))
    }
    fn phases(&self, t: &Transfer, _g: &Geometry, chunks: u32) -> Vec<RoundGroup> {
        let part = |pattern| RepeatedPattern { pattern, weight: 1, times: chunks, lane: 0 };
        let unit = t.bytes as f64 / 2.0 / f64::from(chunks);
        vec![RoundGroup::beside(vec![part(Pattern::TreesUp), part(Pattern::TreesDown)], unit)]
    }
    fn fluid_phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        // Round the ring as much as takes as long on its ports as the trees do on the busiest one.
        let network = f64::from(g.per_node.max(1)) * g.next_node().bandwidth();
        let port = if g.nodes > 1 { network.min(g.intra.bandwidth()) } else { g.intra.bandwidth() };
        let unit = busiest_s(t.bytes as f64, g) * port / f64::from(g.rings());
        vec![RoundGroup::beside(
            vec![RepeatedPattern { pattern: Pattern::Ring, weight: 1, times: 1, lane: 0 }],
            unit,
        )]
    }
    fn chunks(&self, t: &Transfer, g: &Geometry) -> u32 {
        let class = g.flat();
        let fill = f64::from(2 * g.log2_ceil() - 1);
        let best = fill * t.bytes as f64 / (2.0 * class.bandwidth() * class.alpha());
        best.sqrt().round().clamp(1.0, 256.0) as u32
    }
    fn steps(
        &self,
        t: &Transfer,
        g: &Geometry,
        k: u32,
        routes: &PatternRoutes<'_>,
        adjust: Adjust,
    ) -> Option<Action> {
        let mut graph = Rounds::default();
        let trees = [0, 1].map(|tree| BinaryTree::new(g.size, tree));
        let bytes = t.bytes as f64 / 2.0 / f64::from(k) * adjust.scale;
        // Of the chunk before, and of this one: the flow from a rank to its parent, and from its parent to it.
        let mut up = [vec![None; g.size as usize], vec![None; g.size as usize]];
        let mut down = up.clone();
        for _ in 0..k {
            for (tree, shape) in trees.iter().enumerate() {
                for &rank in shape.leaves_first.iter().filter(|&&r| shape.parent[r as usize].is_some()) {
                    let children = shape.children[rank as usize].iter().map(|&c| up[tree][c as usize]);
                    let before = up[tree][rank as usize].map(|flow| flow | BEHIND);
                    let waits: Vec<u32> = children.chain([before]).flatten().collect();
                    let path = (routes.first)(Pattern::TreesUp) + shape.edge[rank as usize];
                    up[tree][rank as usize] =
                        Some(graph.flow(flow(path, bytes, routes, adjust, &waits), &waits));
                }
                for &rank in shape.leaves_first.iter().rev() {
                    let Some(parent) = shape.parent[rank as usize] else { continue };
                    let arrived: Vec<Option<u32>> = match shape.parent[parent as usize] {
                        Some(_) => vec![down[tree][parent as usize]],
                        None => {
                            shape.children[parent as usize].iter().map(|&c| up[tree][c as usize]).collect()
                        }
                    };
                    let before = down[tree][rank as usize].map(|flow| flow | BEHIND);
                    let waits: Vec<u32> = arrived.into_iter().chain([before]).flatten().collect();
                    let path = (routes.first)(Pattern::TreesDown) + shape.edge[rank as usize];
                    down[tree][rank as usize] =
                        Some(graph.flow(flow(path, bytes, routes, adjust, &waits), &waits));
                }
            }
        }
        Some(graph.into())
    }
}

fn flow(path: u32, bytes: f64, routes: &PatternRoutes<'_>, adjust: Adjust, waits: &[u32]) -> Flow {
    let base = if waits.iter().all(|wait| wait & BEHIND != 0) { adjust.base } else { Time::ZERO };
    let latency = routes.latency[path as usize] + adjust.extra + base;
    Flow { latency, bytes, rate_limit: limit(bytes, adjust.least), path }
}

/// One of the two trees.
struct BinaryTree {
    parent: Vec<Option<u32>>,
    children: Vec<Vec<u32>>,
    /// Every rank after its children.
    leaves_first: Vec<u32>,
    /// Number of the route between a rank and its parent.
    edge: Vec<u32>,
}

impl BinaryTree {
    fn new(n: u32, tree: u32) -> BinaryTree {
        let parent: Vec<Option<u32>> = (0..n).map(|r| tree_parent(n, tree, r)).collect();
        let mut children = vec![Vec::new(); n as usize];
        let mut edge = vec![0; n as usize];
        let mut next = tree * (n - 1);
        for rank in 0..n {
            if let Some(p) = parent[rank as usize] {
                children[p as usize].push(rank);
                edge[rank as usize] = next;
                next += 1;
            }
        }
        let depth = |mut r: u32| {
            let mut d = 0;
            while let Some(p) = parent[r as usize] {
                (r, d) = (p, d + 1);
            }
            d
        };
        let mut leaves_first: Vec<u32> = (0..n).collect();
        leaves_first.sort_by_key(|&r| std::cmp::Reverse(depth(r)));
        BinaryTree { parent, children, leaves_first, edge }
    }
}
