//! Collectives over sites: inside the node, among the nodes of a site, between sites, and back.
//!
//! With `g` ranks on each of `n` nodes of `k` sites, every rank exchanges a shard of its own with its counterparts on
//! the other sites, so all of them share the long links and wait for light once or twice, not once a member:
//!
//! `2(g−1)·(α1 + S/(g·B1)) + 2(n−1)·(α2 + S/(g·n·B2)) + exchange of S/(g·n)`
//!
//! with the cheapest of three exchanges of a shard `T` at one rank's share `B3` of the link to the next site, or `B4`
//! of that to all others at once:
//! * direct, of two sites: each sends all of it, `α3 + T/B3` (half the latency of a ring);
//! * two-shot, to all others at once, the farthest `α4` away: `2α4 + 2·T/(k·B4)`;
//! * ring: `2(k−1)·(α3 + T/(k·B3))`, where α3 of a line is the way from its last site to its first.
//!
//! All-gather and reduce-scatter are its halves. Stages do not overlap; [`in_chunks`] is the law of an all-reduce
//! whose chunks follow each other through them, which is not played.
//!
//! A flat ring crosses the long way in every `N/k`-th of its `2(N−1)` hops, so four times of two sites, and its bytes
//! go there and back: 44 ms for 1 GiB over 1,024 ranks on two sites 1,000 km apart, where this takes 27.

use super::algorithm::Algorithm;
use super::geometry::{Geometry, NeighbourLink, SiteLinks};
use super::pattern::{OwnPattern, Pattern, Route};
use super::schedule::RoundGroup;
use super::{Op, Transfer};

/// See the module's text.
#[derive(Debug)]
pub struct ThreeLevel;

/// How shards are exchanged between sites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SiteExchange {
    /// Whole shards to all others at once.
    Direct,
    /// Pieces to all others at once, sums back.
    TwoShot,
    /// Pieces around a ring.
    Ring,
}

impl SiteExchange {
    /// Rounds, and the pieces into which a shard is cut.
    fn rounds(self, op: Op, sites: u32) -> (u32, u32) {
        let twice = if op == Op::AllReduce { 2 } else { 1 };
        match self {
            SiteExchange::Direct => (1, 1),
            SiteExchange::TwoShot => (twice, sites),
            SiteExchange::Ring => (twice * (sites - 1), sites),
        }
    }
    fn time(self, op: Op, shard: f64, sites: &SiteLinks) -> f64 {
        let (rounds, pieces) = self.rounds(op, sites.count);
        self.link(sites).time(f64::from(rounds), f64::from(rounds) * shard / f64::from(pieces))
    }
    fn link(self, sites: &SiteLinks) -> NeighbourLink {
        if self == SiteExchange::Ring { sites.across } else { sites.all }
    }
    /// The quickest.
    fn quickest(op: Op, shard: f64, sites: &SiteLinks) -> SiteExchange {
        let mut can = vec![SiteExchange::Ring, SiteExchange::TwoShot];
        if sites.count == 2 && op == Op::AllReduce {
            can.push(SiteExchange::Direct);
        }
        let time = |e: &SiteExchange| e.time(op, shard, sites);
        can.into_iter().min_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or(SiteExchange::Ring)
    }
    fn pattern(self) -> Pattern {
        let routes = if self == SiteExchange::Ring { next_site } else { all_sites };
        Pattern::Own(OwnPattern {
            name: "between sites",
            numbers: [u32::from(self == SiteExchange::Ring), 0],
            routes,
        })
    }
}

/// An all-reduce in `chunks` whose stages overlap: while one chunk is exchanged the next is reduced inside.
///
/// `T = Σ stages(S/c) + (c−1)·max(load of a level)`: the load of an inner level is both of its stages; the load of the
/// exchange is its time on the wire alone, for chunks are in flight one behind the other. Within one site the nodes
/// exchange, by a ring. None where the group has no such levels.
pub fn in_chunks(t: &Transfer, g: &Geometry, chunks: u32) -> Option<f64> {
    if t.op != Op::AllReduce || g.per_node == 0 || g.nodes < 2 || chunks == 0 {
        return None;
    }
    let bytes = t.bytes as f64 / f64::from(chunks);
    let (members, of_node) = (f64::from(g.per_node), bytes / f64::from(g.per_node));
    let inside = (members - 1.0) * g.around().time(1.0, of_node);
    let (stages, [flight, wire]) = match &g.sites {
        Some(sites) => {
            let nodes = f64::from(of_site(g) / g.per_node);
            let shard = of_node / nodes;
            let exchange = SiteExchange::quickest(t.op, t.bytes as f64 / members / nodes, sites);
            let (rounds, pieces) = exchange.rounds(t.op, sites.count);
            let rounds = f64::from(rounds);
            let link = exchange.link(sites);
            let flight = link.time(rounds, 0.0);
            let wire = link.time(rounds, rounds * shard / f64::from(pieces)) - flight;
            (vec![inside, (nodes - 1.0) * sites.within.time(1.0, shard)], [flight, wire])
        }
        None => {
            let rounds = 2.0 * f64::from(g.nodes - 1);
            let flight = g.inter.time(rounds, 0.0);
            (vec![inside], [flight, g.inter.time(rounds, rounds * of_node / f64::from(g.nodes)) - flight])
        }
    };
    let load = stages.iter().map(|stage| 2.0 * stage).fold(wire, f64::max);
    Some(2.0 * stages.iter().sum::<f64>() + flight + wire + f64::from(chunks - 1) * load)
}

/// Ranks of a site.
fn of_site(g: &Geometry) -> u32 {
    g.size / g.sites.map_or(1, |s| s.count)
}

/// Each to its counterpart on the next node of its site.
fn next_node(g: &Geometry, _: [u32; 2], each: &mut dyn FnMut(Route<'_>, u32)) {
    let site = of_site(g);
    (0..g.size).for_each(|i| each(Route::Walk(&[i, i / site * site + (i % site + g.per_node) % site]), 1));
}

/// Each to its counterpart on the next site.
fn next_site(g: &Geometry, _: [u32; 2], each: &mut dyn FnMut(Route<'_>, u32)) {
    (0..g.size).for_each(|i| each(Route::Walk(&[i, (i + of_site(g)) % g.size]), 1));
}

/// Each to its counterparts on all other sites.
fn all_sites(g: &Geometry, _: [u32; 2], each: &mut dyn FnMut(Route<'_>, u32)) {
    for d in 1..g.size / of_site(g) {
        (0..g.size).for_each(|i| each(Route::Walk(&[i, (i + d * of_site(g)) % g.size]), 1));
    }
}

impl Algorithm for ThreeLevel {
    fn name(&self) -> &'static str {
        "three-level"
    }
    fn aliases(&self) -> &'static [&'static str] {
        &["sites"]
    }
    fn supports(&self, op: Op, g: &Geometry) -> Result<(), String> {
        if !matches!(op, Op::AllReduce | Op::AllGather | Op::ReduceScatter) {
            return Err("it reduces and gathers".into());
        }
        match &g.sites {
            None => Err("the group lies within one site, or sites hold different numbers of ranks".into()),
            Some(_) if g.per_node == 0 => Err("its nodes hold different numbers of ranks".into()),
            Some(_) => Ok(()),
        }
    }
    fn closed_form(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> f64 {
        let Some(sites) = &g.sites else { return f64::INFINITY };
        let (members, nodes) = (f64::from(g.per_node), f64::from(of_site(g) / g.per_node.max(1)));
        let of_node = t.bytes as f64 / members;
        let of_rank = of_node / nodes;
        let once =
            (members - 1.0) * g.around().time(1.0, of_node) + (nodes - 1.0) * sites.within.time(1.0, of_rank);
        let both = if t.op == Op::AllReduce { 2.0 } else { 1.0 };
        both * once + SiteExchange::quickest(t.op, of_rank, sites).time(t.op, of_rank, sites)
    }
    fn phases(&self, t: &Transfer, g: &Geometry, _chunks: u32) -> Vec<RoundGroup> {
        let Some(sites) = &g.sites else { return Vec::new() };
        let nodes = of_site(g) / g.per_node.max(1);
        let of_node = t.bytes as f64 / f64::from(g.per_node);
        let of_rank = of_node / f64::from(nodes);
        let among = Pattern::Own(OwnPattern { name: "nodes of a site", numbers: [0, 0], routes: next_node });
        let inside = [
            RoundGroup::new(Pattern::NodeRing, g.per_node - 1, of_node),
            RoundGroup::new(among, nodes - 1, of_rank),
        ];
        let inside: Vec<RoundGroup> = inside.into_iter().filter(|p| p.parts[0].times > 0).collect();
        let exchange = SiteExchange::quickest(t.op, of_rank, sites);
        let (rounds, pieces) = exchange.rounds(t.op, sites.count);
        let between = RoundGroup::new(exchange.pattern(), rounds, of_rank / f64::from(pieces));
        let outwards = inside.iter().cloned();
        let back = inside.iter().rev().cloned();
        match t.op {
            Op::AllGather => std::iter::once(between).chain(back).collect(),
            Op::ReduceScatter => outwards.chain([between]).collect(),
            _ => outwards.chain([between]).chain(back).collect(),
        }
    }
}
