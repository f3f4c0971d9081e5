//! Recursive doubling and halving-doubling all-reduce.
//!
//! With `n` a power of two, on a switch:
//!
//! * **recursive doubling**: in round `j`, ranks `r` and `r xor 2^j` exchange the whole buffer and add:
//!   `log2(n)·(α + S/B)`. Fewest rounds; for short messages.
//! * **halving-doubling** (Rabenseifner): reduce-scatter with distances `n/2, n/4 … 1` and sizes `S/2, S/4 … S/n`, then
//!   the same backwards as an all-gather: `2·log2(n)·α + 2(n−1)/n·S/B`. Bandwidth-optimal in few rounds.
//!
//! Otherwise the `m` ranks beyond the largest power of two `p` first send their buffer to rank `r − p` and at the end
//! receive the result: two rounds of `α + S/B` more. Recursive doubling does not pay all latencies on a way that has
//! both: from one rank below `m` to another it crosses `⌈log2 m⌉` distances, and waits behind bytes, not latencies,
//! in the other rounds.
//!
//! Source: Thakur, Rabenseifner and Gropp 2005.

use super::algorithm::{Algorithm, lag_over_bytes};
use super::geometry::{DomainWiring, Geometry, NeighbourLink};
use super::pattern::Pattern;
use super::schedule::RoundGroup;
use super::{Op, Transfer};

/// Links between positions at distance `d`: inside a node while its size is a multiple of `2d`. On a torus a message
/// passes the chips between, so every link on its way carries the messages of `d` chips (half each way where both ways
/// are equal).
pub(super) fn class(g: &Geometry, d: u32) -> NeighbourLink {
    if let DomainWiring::Torus(axes) = &g.fabric {
        let mut stride = 1;
        for axis in axes {
            if d < stride * axis.len {
                let hops = d / stride;
                let both_ways = axis.wraps && 2 * hops == axis.len;
                let crossed = if both_ways { hops.div_ceil(2) } else { hops };
                let latency = g.intra.latency * u64::from(hops);
                return NeighbourLink { latency, rate: g.intra.rate / u64::from(crossed) };
            }
            stride *= axis.len;
        }
    }
    if g.nodes <= 1 || (g.per_node > 0 && g.per_node.is_multiple_of(2 * d)) { g.intra } else { g.flat() }
}

/// The rounds `middle` among the largest power of two, with the ranks beyond it folded in before and served after.
fn folded(n: u32, bytes: f64, middle: Vec<RoundGroup>) -> Vec<RoundGroup> {
    let p = 1 << n.ilog2();
    if p == n {
        return middle;
    }
    let mut phases = vec![RoundGroup::new(Pattern::Shrink(p), 1, bytes)];
    phases.extend(middle);
    phases.push(RoundGroup::new(Pattern::Grow(p), 1, bytes));
    phases
}

/// The distances `1, 2, 4 …` below the largest power of two.
fn distances(n: u32) -> impl DoubleEndedIterator<Item = u32> {
    (0..n.ilog2()).map(|j| 1 << j)
}

/// Time of folding and serving.
fn fold_time(g: &Geometry, bytes: f64) -> f64 {
    if g.size.is_power_of_two() { 0.0 } else { 2.0 * g.flat().time(1.0, bytes) }
}

fn supports(op: Op) -> Result<(), String> {
    if op == Op::AllReduce { Ok(()) } else { Err("it is an all-reduce".into()) }
}

/// See the module's text.
#[derive(Debug)]
pub struct RecursiveDoubling;

impl Algorithm for RecursiveDoubling {
    fn name(&self) -> &'static str {
        "recursive-doubling"
    }
    fn supports(&self, op: Op, _g: &Geometry) -> Result<(), String> {
        supports(op)
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        let bytes = t.bytes as f64;
        let beyond = g.size - (1 << g.size.ilog2());
        let exchanges = |latencies: u32| {
            let time = |d: u32| class(g, d).time(if d < latencies { 1.0 } else { 0.0 }, bytes);
            distances(g.size).map(time).sum::<f64>()
        };
        if beyond == 0 {
            return exchanges(u32::MAX);
        }
        let there_and_back = exchanges(beyond.next_power_of_two()) + fold_time(g, bytes);
        there_and_back.max(exchanges(u32::MAX) + fold_time(g, bytes) / 2.0)
    }
    fn lag(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Option<f64> {
        (!g.size.is_power_of_two()).then(|| lag_over_bytes(self, t, g, chunks))
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        let bytes = t.bytes as f64;
        let middle = distances(g.size).map(|d| RoundGroup::new(Pattern::Exchange(d), 1, bytes)).collect();
        folded(g.size, bytes, middle)
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct HalvingDoubling;

impl Algorithm for HalvingDoubling {
    fn name(&self) -> &'static str {
        "halving-doubling"
    }
    fn aliases(&self) -> &'static [&'static str] {
        &["rabenseifner"]
    }
    fn supports(&self, op: Op, _g: &Geometry) -> Result<(), String> {
        supports(op)
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        let bytes = t.bytes as f64;
        let p = f64::from(1u32 << g.size.ilog2());
        let half: f64 = distances(g.size).map(|d| class(g, d).time(1.0, bytes * f64::from(d) / p)).sum();
        2.0 * half + fold_time(g, bytes)
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        let bytes = t.bytes as f64;
        let p = f64::from(1u32 << g.size.ilog2());
        let round = |d: u32| RoundGroup::new(Pattern::Exchange(d), 1, bytes * f64::from(d) / p);
        let mut middle: Vec<RoundGroup> = distances(g.size).rev().map(round).collect();
        middle.extend(distances(g.size).map(round));
        folded(g.size, bytes, middle)
    }
}
