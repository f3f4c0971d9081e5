//! PAT (parallel aggregated trees) all-gather and reduce-scatter: Bruck's rounds, farthest first.
//!
//! The all-gather sends at distances `2^(k−1) … 2, 1` with `k = ⌈log2 n⌉`; at distance `2^j` a rank passes on those of
//! the shards that it holds which the receiver lacks. Each rank receives `n − 1` shards in all, so on a switch
//! `⌈log2 n⌉·α + (n−1)/n·S/B`. Farthest first means that few shards travel far. A reduce-scatter runs backwards.
//!
//! Source: S. Jeaugey, "PAT: a new algorithm for all-gather and reduce-scatter operations at scale", 2025; Bruck et al.
//! 1997. NCCL bounds the buffer that the aggregated shards need, which the tuning table accounts for.
//!
//! Over several nodes of `g` ranks, distances from `g` on leave the node, and of those below it, which add up to less
//! than `g`, at most one on each way.

use super::algorithm::{Algorithm, lag_over_bytes};
use super::geometry::{DomainWiring, Geometry};
use super::pattern::Pattern;
use super::schedule::RoundGroup;
use super::{Op, Transfer};

/// See the module's text.
#[derive(Debug)]
pub struct Pat;

/// Distance and number of shards of each round of the all-gather.
fn rounds(g: &Geometry) -> Vec<(u32, u32)> {
    let n = g.size as usize;
    let mut held = vec![false; n];
    held[0] = true;
    let mut rounds = Vec::new();
    for j in (0..g.log2_ceil()).rev() {
        let d = 1usize << j;
        // Offsets from the holder's own shard; the receiver sees each at `d` more.
        let fresh: Vec<usize> = (0..n).filter(|&o| held[(o + n - d) % n] && !held[o]).collect();
        rounds.push((d as u32, fresh.len() as u32));
        fresh.into_iter().for_each(|o| held[o] = true);
    }
    rounds
}

impl Algorithm for Pat {
    fn name(&self) -> &'static str {
        "pat"
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        match (op, &g.fabric) {
            (_, DomainWiring::Torus(_)) => Err("its far rounds would cross many links of a torus".into()),
            (Op::AllGather | Op::ReduceScatter, _) => Ok(()),
            _ => Err("it gathers or reduce-scatters".into()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        let n = f64::from(g.size);
        let bytes = (n - 1.0) / n * t.bytes as f64;
        if g.nodes <= 1 || g.per_node == 0 {
            return g.flat().time(f64::from(g.log2_ceil()), bytes);
        }
        let short = (0..g.log2_ceil()).filter(|j| 1 << j < g.per_node).count() as u32;
        let inside = f64::from(short.saturating_sub(1)) * g.intra.alpha();
        let leave = g.log2_ceil() - short + u32::from(short > 0);
        inside + g.flat().time(f64::from(leave), bytes)
    }
    fn lag(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Option<f64> {
        (g.nodes > 1).then(|| lag_over_bytes(self, t, g, chunks))
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        let shard = t.bytes as f64 / f64::from(g.size);
        let round =
            |(d, shards): (u32, u32)| RoundGroup::new(Pattern::Shift(d), 1, shard * f64::from(shards));
        let mut phases: Vec<RoundGroup> = rounds(g).into_iter().map(round).collect();
        if t.op == Op::ReduceScatter {
            phases.reverse();
        }
        phases
    }
}
