//! Ring all-reduce, all-gather and reduce-scatter.
//!
//! Shards of `S/n` go round the ring. In round `t` each rank passes on what it received in round `t − 1`; while
//! reducing it first adds its own. Time on a switch, `n` ranks:
//!
//! * reduce-scatter and all-gather: `(n−1)·(α + S/(n·B))`, each rank sends `(n−1)/n · S`;
//! * all-reduce, one after the other: `2(n−1)·(α + S/(n·B))`.
//!
//! Bandwidth-optimal; latency grows with `n`. Source: Thakur, Rabenseifner and Gropp, "Optimization of collective
//! communication operations in MPICH", 2005; Patarasuk and Yuan 2009.
//!
//! With `k` chunks each shard is cut into `k` parts that go round side by side and share the links, as NCCL's channels
//! do. Nothing waits longer for that: the time is the same, in `steps` with `k` times as many transfers.
//!
//! Over several nodes with `g` members each there are `g` rings with `S/g` each, one through each network port
//! ([`Pattern::Ring`]): a round moves `S/n` through each node port of the scale-up fabric and `S/(n·g)` through each
//! network port, and takes `α` of the network (plus that of the hop before it) and the slower of the two. In `steps` a
//! round over fast hops does not wait for the others', so it ends a little earlier (0.4 % for 1 GiB on 4 nodes of 8).

use super::algorithm::Algorithm;
use super::geometry::{Fabric, Geometry};
use super::pattern::Pattern;
use super::schedule::{Part, Phase};
use super::{Op, Transfer};

/// See the module's text.
#[derive(Debug)]
pub struct Ring;

/// Most rings side by side.
const MOST_CHANNELS: u32 = 1 << 16;

/// Rounds of a ring.
fn rounds(op: Op, n: u32) -> u32 {
    if op == Op::AllReduce { 2 * (n - 1) } else { n - 1 }
}

impl Algorithm for Ring {
    fn name(&self) -> &'static str {
        "ring"
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        if !matches!(op, Op::AllReduce | Op::AllGather | Op::ReduceScatter) {
            return Err("a ring reduces and gathers".into());
        }
        match &g.fabric {
            Fabric::Torus(axes) if axes.len() != 1 || !axes[0].wraps => {
                Err("the group does not lie on one closed axis of the torus".into())
            }
            _ => Ok(()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        let (n, rings) = (f64::from(g.size), f64::from(g.rings()));
        let steps = f64::from(rounds(t.op, g.size));
        let shard = t.bytes as f64 / n;
        if g.nodes <= 1 {
            return steps * (g.intra.alpha() + shard / g.intra.bandwidth());
        }
        let hop = if rings > 1.0 { g.intra.alpha() } else { 0.0 };
        let slowest = (shard / rings / g.inter.bandwidth()).max(if g.per_node == 1 {
            0.0
        } else {
            shard / g.intra.bandwidth()
        });
        steps * (hop + g.inter.alpha() + slowest)
    }
    fn phases(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Vec<Phase> {
        let chunks = chunks.clamp(1, MOST_CHANNELS);
        let unit = t.bytes as f64 / f64::from(g.size) / f64::from(g.rings()) / f64::from(chunks);
        let times = rounds(t.op, g.size);
        let channel = |lane| Part { pattern: Pattern::Ring, weight: 1, times, lane: lane as u16 };
        vec![Phase { parts: (0..chunks).map(channel).collect(), unit, fill: 0 }]
    }
}
