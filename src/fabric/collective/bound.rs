//! The lower bound of a collective by the rule that people carry in their heads: the larger of its latency and the
//! time of its bytes over all links.
//!
//! Hazard: V/(2B) counts all V bytes, although a device holds 1/n of them itself: an algorithm that uses both
//! directions evenly (`torus-split`) is that much faster.

use super::Op;
use super::geometry::{DomainWiring, Geometry, TorusAxis};

/// Times of one collective by rule.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct CollectiveBound {
    /// Seconds that the bytes take.
    pub bandwidth_s: f64,
    /// Seconds until the farthest has been reached.
    pub latency_s: f64,
}

impl CollectiveBound {
    /// The larger of the two, as the book prints it.
    pub fn time_s(self) -> f64 {
        self.bandwidth_s.max(self.latency_s)
    }
}

/// For V bytes (held after a gather, or before everything else) and B one direction of one link:
///
/// * axis with wrap V/(2B), latency α·n/2; line (n−1)/n·V/B, α·(n−1). Several axes at once share the bytes by their
///   rates (k with wrap: V/(2kB); k lines: (N−1)/N·V/(kB)), and add their latencies.
/// * nodes of g devices, k of them: the larger of (g−1)/g·V/B inside and (k−1)/(k·g)·V/B_network, stages overlapped.
/// * all-reduce: twice a reduce-scatter. All-to-all of V held: n·V/(8B) on a ring, n·V/(4B) on a line (the
///   bisection), the longest axis counts; (n−1)/n·V/B behind a switch, the part that leaves a node over the network.
///
/// Source: jax-ml scaling book, sharding and training chapters.
pub fn bound(op: Op, bytes: f64, g: &Geometry) -> CollectiveBound {
    let passes = if op == Op::AllReduce { 2.0 } else { 1.0 };
    match &g.fabric {
        DomainWiring::Torus(axes) => {
            let (b, alpha) = (g.intra.bandwidth(), g.intra.alpha());
            let hops: u32 = axes.iter().map(|axis| axis.longest_way()).sum();
            let bandwidth_s = match op {
                Op::AllToAll => axes.iter().map(|axis| exchange(*axis) * bytes / b).fold(0.0, f64::max),
                _ => passes * bytes / axes.iter().map(|axis| rate(*axis, g.size) * b).sum::<f64>(),
            };
            CollectiveBound { bandwidth_s, latency_s: passes * alpha * f64::from(hops) }
        }
        _ => {
            let n = f64::from(g.size);
            let nodes = f64::from(g.nodes.max(1));
            let inside = if g.nodes > 1 { f64::from(g.per_node.max(1)) } else { n };
            let (near, far) = match op {
                Op::AllToAll => ((n - 1.0) / n, (n - inside) / n),
                _ => ((inside - 1.0) / inside, (nodes - 1.0) / (nodes * inside)),
            };
            let near = near * bytes / g.intra.bandwidth();
            let far = if g.nodes > 1 { far * bytes / g.inter.bandwidth() } else { 0.0 };
            let bandwidth_s = passes * near.max(far);
            let mut alpha = if inside > 1.0 { g.intra.alpha() } else { 0.0 };
            if g.nodes > 1 {
                alpha += g.inter.alpha();
            }
            CollectiveBound { bandwidth_s, latency_s: passes * alpha }
        }
    }
}

/// Bytes gathered a second over one axis among `n` devices of the whole group, in units of B.
fn rate(axis: TorusAxis, n: u32) -> f64 {
    if axis.wraps { 2.0 } else { f64::from(n) / f64::from(n - 1) }
}

/// Time of an all-to-all of one byte held on an axis, in units of 1/B.
fn exchange(axis: TorusAxis) -> f64 {
    f64::from(axis.len) / if axis.wraps { 8.0 } else { 4.0 }
}
