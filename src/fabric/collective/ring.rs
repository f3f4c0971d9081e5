//! Ring all-reduce, all-gather and reduce-scatter.
//!
//! Shards of `S/n` go round the ring. A rank passes on what it has received as soon as it is there and its link is
//! free; while reducing it first adds its own. On a switch, `n` ranks:
//!
//! * reduce-scatter and all-gather: `T = n−1` hops of a shard, `T·(α + S/(n·B))`, each rank sends `(n−1)/n · S`;
//! * all-reduce, one after the other: `T = 2(n−1)` hops.
//!
//! Bandwidth-optimal; latency grows with `n`. Source: Thakur, Rabenseifner and Gropp, "Optimization of collective
//! communication operations in MPICH", 2005; Patarasuk and Yuan 2009.
//!
//! # Hops of unlike latency
//!
//! No rank waits for another's round, so that a slow hop is paid when it is crossed and not in every round. With `c`
//! the time of a shard on the link of a hop, each cut into `s` slices (`chunks`), the ring takes the longest way that
//! any slice has behind it: `h` hops in a row (1 to T), and a queue before the slowest of them,
//!
//! `max over h and where they begin of Σ_h (α + c/s) + (T − h + 1 − 1/s)·max_h c`:
//!
//! without bytes the slowest `T` hops in a row; without latency `T` shards over the slowest link. Only few `h` can be
//! the longest, since hops repeat themselves node by node (and site by site, or uplink by uplink). More slices are
//! never slower. NCCL's own model counts the same way: of `T` hops, those that leave a node are `nodes − 1` (twice
//! that to reduce as well), `src/graph/tuning.cc`.
//!
//! Over several nodes there is a ring for each network port of a node ([`Pattern::Ring`]), all with an equal part of
//! `S`. A scale-up port carries the shards of all rings (`c` in the queue before it), but seldom several at once
//! where the network is what they wait for: on its way a slice has the port to itself (`c` over the number of rings
//! in the sum). `steps` plays how rings meet there; it is within a few per cent.

use super::algorithm::{Algorithm, lag_over_bytes};
use super::geometry::{DomainWiring, Geometry, NeighbourLink};
use super::pattern::Pattern;
use super::schedule::{RepeatedPattern, RoundGroup};
use super::{Op, Transfer};

/// See the module's text.
#[derive(Debug)]
pub struct Ring;

/// Most slices.
const MOST_SLICES: u32 = 1 << 16;

/// Hops of a shard.
fn hops(op: Op, n: u32) -> u32 {
    if op == Op::AllReduce { 2 * (n - 1) } else { n - 1 }
}

/// Hops of one kind at a regular distance of ranks; the kinds after it do not count these hops.
struct RingHop {
    every: u32,
    /// Seconds of latency.
    alpha: f64,
    /// Seconds of a whole shard on its link, one ring's part of it.
    wire: f64,
    /// Seconds of the parts of all rings that share the link.
    shared: f64,
}

/// The kinds of hops of a ring, the rarest first.
fn kinds(shard: f64, g: &Geometry) -> Vec<RingHop> {
    let shared = shard / g.around().bandwidth();
    let inside = RingHop { every: 1, alpha: g.intra.alpha(), wire: shared / f64::from(g.rings()), shared };
    if g.nodes <= 1 {
        return vec![inside];
    }
    // Bytes that leave the node have crossed a scale-up port before, unless there is but one way out.
    let hops_first = g.rings() > 1 && g.per_node > 1;
    let leaves = |every: u32, alpha: f64, rate: f64| {
        let out = shard / rate;
        let [wire, shared] = [inside.wire, inside.shared].map(|c| if hops_first { out.max(c) } else { out });
        RingHop { every, alpha, wire, shared }
    };
    let of_node = if g.per_node == 0 { (g.size / g.nodes).max(1) } else { g.per_node };
    let mut kinds = Vec::with_capacity(3);
    let of_members =
        |of: u32, link: NeighbourLink| leaves(of, g.leaving(link), f64::from(of) * link.bandwidth());
    kinds.extend(g.border().map(|(of, across)| of_members(of, across)));
    kinds.push(match g.border() {
        Some(_) => of_members(of_node, g.near()),
        None => leaves(of_node, g.leaving(g.inter), g.egress()),
    });
    kinds.extend((of_node > 1).then_some(inside));
    kinds
}

/// The longest way of a slice through `rounds` hops of each shard; see the module's text.
fn longest(rounds: u32, slices: u32, kinds: &[RingHop]) -> f64 {
    let part = 1.0 / f64::from(slices);
    let way = |h: u32, most: bool| {
        let (mut counted, mut time) = (0, 0.0);
        // Of the slowest hop: a shard of all rings, and of one.
        let (mut slowest, mut own) = (0.0, 0.0);
        for kind in kinds {
            let upto = if most { h.div_ceil(kind.every) } else { h / kind.every };
            let count = upto.saturating_sub(counted);
            if count > 0 {
                time += f64::from(count) * (kind.alpha + kind.wire * part);
                if kind.shared > slowest {
                    (slowest, own) = (kind.shared, kind.wire);
                }
                counted = upto;
            }
        }
        time + (f64::from(rounds - h) + 1.0) * slowest - part * own
    };
    let mut longest = 0.0f64;
    for kind in kinds {
        // Between these the time is linear in the hops; the ways that cross one hop of a kind end before its second.
        let (every, last) = (kind.every, rounds / kind.every * kind.every);
        for h in
            [1, every - 1, every, every + 1, 2 * every - 1, last.saturating_sub(1), last, last + 1, rounds]
        {
            if (1..=rounds).contains(&h) {
                longest = longest.max(way(h, true)).max(way(h, false));
            }
        }
    }
    longest
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
            DomainWiring::Torus(axes) if axes.len() != 1 || !axes[0].wraps => {
                Err("the group does not lie on one closed axis of the torus".into())
            }
            _ => Ok(()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, chunks: u32) -> f64 {
        let shard = t.bytes as f64 / f64::from(g.size);
        longest(hops(t.op, g.size), chunks.clamp(1, MOST_SLICES), &kinds(shard, g))
    }
    fn lag(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Option<f64> {
        (g.nodes > 1 || chunks > 1).then(|| lag_over_bytes(self, t, g, chunks))
    }
    fn phases(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Vec<RoundGroup> {
        let unit = t.bytes as f64 / f64::from(g.size) / f64::from(g.rings());
        let part = RepeatedPattern { pattern: Pattern::Ring, weight: 1, times: hops(t.op, g.size), lane: 0 };
        vec![RoundGroup { slices: chunks.clamp(1, MOST_SLICES), ..RoundGroup::beside(vec![part], unit) }]
    }
}
