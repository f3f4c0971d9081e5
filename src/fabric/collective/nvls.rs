//! In-switch collectives (NVLink SHARP): the switch adds what members send and copies what it delivers.
//!
//! Rank `q` owns shard `q` of `S/n`. All-reduce in `k` chunks: a **reduce** flow over all ports up and `q`'s port down
//! brings it the sum; a **multicast** flow over `q`'s port up and all ports down spreads it. While the reduction of one
//! chunk overlaps the multicast of the one before, a port carries `(1 + 1/n)·S/k` each way, hence
//! `(1+1/n)·S/B + (k+1)·α + (1−1/n)·S/(k·B)`: up to `2n/(n+1)·(n−1)/n` times a ring's rate.
//!
//! All-gather and reduce-scatter are one half: `α + S/B`, no gain over a ring but in latency.
//!
//! One half by itself carries `S` one way and `S/n` the other. Where both ways share a link it takes
//! `max(S/B₁, (1+1/n)·S/2B)`, with `B₁` a port's rate while nothing comes back and `B` its rate while both ways are
//! used.
//!
//! Source: NCCL `src/transport/nvls.cc`, NVLink SHARP (Hot Chips 2022).

use super::algorithm::Algorithm;
use super::geometry::{DomainWiring, Geometry};
use super::pattern::Pattern;
use super::schedule::{RepeatedPattern, RoundGroup};
use super::{Op, Transfer};

/// More chunks than this are not worth their events.
const MOST_CHUNKS: f64 = 1024.0;

/// See the module's text.
#[derive(Debug)]
pub struct Nvls;

impl Algorithm for Nvls {
    fn name(&self) -> &'static str {
        "nvls"
    }
    fn aliases(&self) -> &'static [&'static str] {
        &["sharp"]
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        match (op, &g.fabric) {
            (Op::AllReduce | Op::AllGather | Op::ReduceScatter, DomainWiring::Switch { reduces: true }) => {
                if g.nodes == 1 {
                    Ok(())
                } else {
                    Err("the group spans more than one switch".into())
                }
            }
            (Op::AllReduce | Op::AllGather | Op::ReduceScatter, _) => Err("no switch here adds".into()),
            _ => Err("switches add and copy".into()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, chunks: u32) -> f64 {
        let (n, k, bytes) = (f64::from(g.size), f64::from(chunks), t.bytes as f64);
        let both_ways = (1.0 + 1.0 / n) * bytes;
        let half_s = (bytes / g.one_way.bandwidth()).max(0.5 * both_ways / g.intra.bandwidth());
        if t.op == Op::AllReduce {
            g.intra.time(k + 1.0, both_ways * (k - 1.0) / k) + 2.0 * half_s / k
        } else {
            g.intra.alpha() + half_s
        }
    }
    fn phases(&self, t: &Transfer, g: &Geometry, chunks: u32) -> Vec<RoundGroup> {
        let shard = t.bytes as f64 / f64::from(g.size);
        let unit = shard / f64::from(chunks);
        let (reduce, multicast) = (Pattern::ReduceToEach, Pattern::MulticastFromEach);
        match t.op {
            Op::AllGather => vec![RoundGroup::new(multicast, 1, shard)],
            Op::ReduceScatter => vec![RoundGroup::new(reduce, 1, shard)],
            _ => {
                let part = |pattern| RepeatedPattern { pattern, weight: 1, times: chunks - 1, lane: 0 };
                let both = [reduce, multicast].map(part);
                let mut phases = vec![RoundGroup::new(reduce, 1, unit), RoundGroup::new(multicast, 1, unit)];
                if chunks > 1 {
                    phases.insert(1, RoundGroup::beside(both.to_vec(), unit));
                }
                phases
            }
        }
    }
    fn chunks(&self, t: &Transfer, g: &Geometry) -> u32 {
        let n = f64::from(g.size);
        let best = (1.0 - 1.0 / n) * t.bytes as f64 / (g.intra.bandwidth() * g.intra.alpha());
        if t.op == Op::AllReduce { best.sqrt().round().clamp(1.0, MOST_CHUNKS) as u32 } else { 1 }
    }
}
