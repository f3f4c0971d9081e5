//! Expert exchange in two stages (DeepEP's kernels): rows to the counterparts on other nodes over the rails, and on to
//! the ranks of the node over scale-up links, chunk after chunk, so that both stages run at the same time:
//! `start + α + max(bytes/(s·B2), inside/B1, least)`, where `s` is the share of a network port that the kernel reaches
//! and `least` the time that its own channels need. Combine goes the same ways back.
//!
//! On links the two stages are one activity with the bytes of both: what slows one slows the other, as in a pipeline of
//! many chunks. In one node the first stage is empty.

use super::algorithm::Algorithm;
use super::geometry::{DomainWiring, Geometry};
use super::pattern::Pattern;
use super::schedule::{RepeatedPattern, RoundGroup};
use super::{Op, Transfer};

/// See the module's text.
#[derive(Debug)]
pub struct TwoStageExchange;

/// Seconds on the busier of the two kinds of links.
pub(super) fn wire_s(t: &Transfer, g: &Geometry) -> f64 {
    let inside = t.staged.map_or(0, |s| s.inside) as f64 / g.intra.bandwidth();
    (t.bytes as f64 / g.inter.bandwidth()).max(inside)
}

pub(super) fn latency_s(t: &Transfer, g: &Geometry) -> f64 {
    let inside = if t.staged.is_some_and(|s| s.inside > 0) { g.intra.alpha() } else { 0.0 };
    if t.bytes > 0 { g.inter.alpha().max(inside) } else { inside }
}

impl Algorithm for TwoStageExchange {
    fn name(&self) -> &'static str {
        "two-stage"
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        match (op, &g.fabric, g.per_node) {
            (Op::ExpertExchange, DomainWiring::Torus(_), _) => Err("a torus has no rails".into()),
            (Op::ExpertExchange, _, 0) => Err("its nodes hold different numbers of ranks".into()),
            (Op::ExpertExchange, ..) => Ok(()),
            _ => Err("it brings tokens to experts".into()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        latency_s(t, g) + wire_s(t, g)
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        let inside = t.staged.map_or(0, |s| s.inside);
        let share = |bytes: u64, peers: u32| bytes as f64 / f64::from(peers.max(1));
        let stages = [
            (Pattern::Rails, if g.nodes > 1 { share(t.bytes, g.nodes - 1) } else { 0.0 }),
            (Pattern::NodePairs, if g.per_node > 1 { share(inside, g.per_node - 1) } else { 0.0 }),
        ];
        // Weights are whole numbers: the larger stage has `UNITS` of them.
        const UNITS: f64 = 65_536.0;
        let unit = (stages[0].1.max(stages[1].1) / UNITS).max(1.0);
        let part = |(pattern, bytes): (Pattern, f64)| {
            let weight = (bytes / unit).round() as u32;
            (weight > 0).then_some(RepeatedPattern { pattern, weight, times: 1, lane: 0 })
        };
        let parts: Vec<RepeatedPattern> = stages.into_iter().filter_map(part).collect();
        vec![RoundGroup::beside(parts, unit)]
    }
}
