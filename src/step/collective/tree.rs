//! Double binary tree all-reduce.
//!
//! Two binary trees in which each rank is an inner node of at most one; each carries `S/2` in `k` chunks: up, adding at
//! every rank, then down. A chunk leaves a rank when it has come from all its children and the chunk before has
//! left; the root turns it round. Source: NCCL `src/graph/trees.cc`; Sanders, Speck and Träff 2009.
//!
//! Ports are shared unevenly while the pipeline runs, so there is no closed form. At least `2S/B` for `n > 2` (each
//! rank sends and receives its buffer in both trees together about twice), and `2·log2 n` hops until the first chunk
//! is back at the leaves. [`Algorithm::closed_form`] is an **estimate**:
//! `(k + f)·α + 2S/B + f·S/(2k·B)` with `f = 2·⌈log2 n⌉ − 1` (for two ranks `(k+1)·α + S/B`, exact). `steps` plays the
//! true pipeline; against it the estimate is at most 12 % low in the golden cases. `fluid` keeps to the estimate.

use super::algorithm::Algorithm;
use super::geometry::{Fabric, Geometry};
use super::pattern::{Pattern, tree_parent};
use super::schedule::{Adjust, Part, Phase, Routes, limit};
use super::{Op, Transfer};
use crate::core::program::{Action, Flow, Rounds};
use crate::core::units::Time;

/// See the module's text.
#[derive(Debug)]
pub struct Tree;

/// Rounds until the pipeline is full.
fn fill(g: &Geometry) -> u32 {
    2 * g.log2_ceil() - 1
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
            (_, Fabric::Torus(_)) => Err("its edges would cross many links of a torus".into()),
            (Op::AllReduce, _) => Ok(()),
            _ => Err("it is an all-reduce".into()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, chunks: u32) -> f64 {
        let (bytes, k, f) = (t.bytes as f64, f64::from(chunks), f64::from(fill(g)));
        let carried = if g.size == 2 { bytes } else { 2.0 * bytes + f * bytes / (2.0 * k) };
        g.flat().time(k + f, carried)
    }
    fn phases(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Vec<Phase> {
        let part = |pattern| Part { pattern, weight: 1, times: chunks, lane: 0 };
        let unit = t.bytes as f64 / 2.0 / f64::from(chunks);
        vec![Phase { parts: vec![part(Pattern::TreesUp), part(Pattern::TreesDown)], unit, fill: fill(g) }]
    }
    fn chunks(&self, t: &Transfer, g: &Geometry) -> u32 {
        let class = g.flat();
        let best = f64::from(fill(g)) * t.bytes as f64 / (2.0 * class.bandwidth() * class.alpha());
        best.sqrt().round().clamp(1.0, 256.0) as u32
    }
    fn steps(
        &self,
        t: &Transfer,
        g: &Geometry,
        k: u32,
        routes: &Routes<'_>,
        adjust: Adjust,
    ) -> Option<Action> {
        let mut graph = Rounds::default();
        let trees = [0, 1].map(|tree| Shape::new(g.size, tree));
        let bytes = t.bytes as f64 / 2.0 / f64::from(k) * adjust.scale;
        // Of the chunk before, and of this one: the flow from a rank to its parent, and from its parent to it.
        let mut up = [vec![None; g.size as usize], vec![None; g.size as usize]];
        let mut down = up.clone();
        for _ in 0..k {
            for (tree, shape) in trees.iter().enumerate() {
                for &rank in shape.leaves_first.iter().filter(|&&r| shape.parent[r as usize].is_some()) {
                    let children = shape.children[rank as usize].iter().map(|&c| up[tree][c as usize]);
                    let waits: Vec<u32> = children.chain([up[tree][rank as usize]]).flatten().collect();
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
                    let waits: Vec<u32> =
                        arrived.into_iter().chain([down[tree][rank as usize]]).flatten().collect();
                    let path = (routes.first)(Pattern::TreesDown) + shape.edge[rank as usize];
                    down[tree][rank as usize] =
                        Some(graph.flow(flow(path, bytes, routes, adjust, &waits), &waits));
                }
            }
        }
        Some(graph.into())
    }
}

fn flow(path: u32, bytes: f64, routes: &Routes<'_>, adjust: Adjust, waits: &[u32]) -> Flow {
    let base = if waits.is_empty() { adjust.base } else { Time::ZERO };
    let latency = routes.latency[path as usize] + adjust.extra + base;
    Flow { latency, bytes, rate_limit: limit(bytes, adjust.least), path }
}

/// One of the two trees.
struct Shape {
    parent: Vec<Option<u32>>,
    children: Vec<Vec<u32>>,
    /// Every rank after its children.
    leaves_first: Vec<u32>,
    /// Number of the route between a rank and its parent.
    edge: Vec<u32>,
}

impl Shape {
    fn new(n: u32, tree: u32) -> Shape {
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
        Shape { parent, children, leaves_first, edge }
    }
}
