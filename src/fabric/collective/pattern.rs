//! Who sends to whom in one round: the vocabulary in which algorithms describe their schedules.
//!
//! A pattern is a set of **routes** between member positions. Most routes are a walk: the bytes go from its first
//! position through the others to its last without being stored on the way (one latency each hop, all links at one
//! rate). In-switch reductions and multicasts are trees: one flow over a set of links.

use super::geometry::{DomainWiring, Geometry};

/// The transfers of one round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    /// Position 0 sends to position 1.
    Pair,
    /// Each position sends to the next, round the group. A group over several nodes runs one ring for each network
    /// port of a node: ring `c` enters and leaves every node through port `c` (with a hop inside the node to a member
    /// of that port before it, as NCCL's PXN does), so that all ports share the load.
    Ring,
    /// In each node, each position sends to the next, round the node.
    NodeRing,
    /// Each position sends to its counterpart on the next node, round the nodes.
    RailRing,
    /// Positions `i` and `i xor d` exchange, among the largest power of two that the group holds.
    Exchange(u32),
    /// Position `i` sends to `i + d`, round the group.
    Shift(u32),
    /// Each position sends to each other.
    AllPairs,
    /// Each position sends to each other; what leaves the node first hops to the member that has the receiver's place
    /// in the sender's node, then takes that member's rail.
    RailPairs,
    /// In each node, each position sends to each other.
    NodePairs,
    /// Each position sends to its counterparts on all other nodes.
    Rails,
    /// Position `i < d` sends to `i + d`, where that exists.
    Grow(u32),
    /// Position `i + d` sends to `i < d`, where that exists.
    Shrink(u32),
    /// For each position, the switch adds what all members send and delivers the sum there.
    ReduceToEach,
    /// For each position, the switch copies what it sends to all members.
    MulticastFromEach,
    /// Each position sends to its neighbour on one axis of a torus.
    Neighbour {
        /// The axis of the group's box.
        axis: u8,
        /// Towards larger coordinates, or smaller.
        forward: bool,
    },
    /// One round along a line of the torus, in which only positions send that still have something to pass on: from
    /// the `round`-th on in the direction of travel.
    Line {
        /// The axis of the group's box.
        axis: u8,
        /// Towards larger coordinates, or smaller.
        forward: bool,
        /// The round, from 0.
        round: u16,
        /// Bytes travel the other way: the mirror image in time.
        backwards: bool,
    },
    /// Each position sends to each other over the torus, axis after axis, the shorter way round. Where both ways are
    /// equally long, half goes either way: such routes have weight 1 and all others weight 2.
    TorusPairs,
    /// Each position sends to its parents in the two trees of the double binary tree.
    TreesUp,
    /// Each position sends to its children in the two trees of the double binary tree.
    TreesDown,
    /// A pattern that an algorithm describes in its own file.
    Own(OwnPattern),
}

/// Calls back with every route of a pattern and its weight.
type RouteVisitor = fn(&Geometry, [u32; 2], &mut dyn FnMut(Route<'_>, u32));

/// A pattern of one algorithm, described where the algorithm is: nothing else needs to know it.
#[derive(Clone, Copy)]
pub struct OwnPattern {
    /// The name that tells it from others, with `numbers`.
    pub name: &'static str,
    /// The numbers that its routes depend on beside the geometry: a distance, a round.
    pub numbers: [u32; 2],
    /// Calls back with every route and its weight, in an order that depends on the geometry and the numbers only.
    pub routes: RouteVisitor,
}

impl OwnPattern {
    fn key(&self) -> (&'static str, [u32; 2]) {
        (self.name, self.numbers)
    }
}

impl PartialEq for OwnPattern {
    fn eq(&self, other: &OwnPattern) -> bool {
        self.key() == other.key()
    }
}

impl Eq for OwnPattern {}

impl std::hash::Hash for OwnPattern {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl std::fmt::Debug for OwnPattern {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{:?}", self.name, self.numbers)
    }
}

/// How bytes travel in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route<'a> {
    /// From the first position through the others to the last.
    Walk(&'a [u32]),
    /// From all positions through an adding switch to one.
    Gather(u32),
    /// From one position through a copying switch to all.
    Scatter(u32),
}

impl Route<'_> {
    /// The position whose earlier transfers must have ended before this one starts.
    pub fn sender(&self) -> u32 {
        match *self {
            Route::Walk(walk) => walk[0],
            Route::Gather(at) | Route::Scatter(at) => at,
        }
    }
    /// The position that may go on once this transfer has ended.
    pub fn receiver(&self) -> u32 {
        match *self {
            Route::Walk(walk) => walk[walk.len() - 1],
            Route::Gather(at) | Route::Scatter(at) => at,
        }
    }
}

impl Pattern {
    /// Calls `each` with every route and its weight, in an order that depends on the geometry only.
    pub fn routes(self, g: &Geometry, each: &mut dyn FnMut(Route<'_>, u32)) {
        let n = g.size;
        let mut send = |from: u32, to: u32| each(Route::Walk(&[from, to]), 1);
        match self {
            Pattern::Own(own) => (own.routes)(g, own.numbers, each),
            Pattern::Pair => send(0, 1),
            Pattern::Ring if g.rings() > 1 => rail_rings(g, each),
            Pattern::Ring => (0..n).for_each(|i| send(i, (i + 1) % n)),
            Pattern::NodeRing => {
                let k = g.per_node;
                (0..n).for_each(|i| send(i, i / k * k + (i + 1) % k));
            }
            Pattern::RailRing => (0..n).for_each(|i| send(i, (i + g.per_node) % n)),
            Pattern::Exchange(d) => {
                let p = 1 << n.ilog2();
                (0..p).for_each(|i| send(i, i ^ d));
            }
            Pattern::Shift(d) => (0..n).for_each(|i| send(i, (i + d) % n)),
            Pattern::AllPairs => {
                // By distance, so that the k-th route of each sender goes to another receiver.
                for d in 1..n {
                    (0..n).for_each(|i| send(i, (i + d) % n));
                }
            }
            Pattern::RailPairs => rail_pairs(g, each),
            Pattern::NodePairs => {
                let k = g.per_node;
                for d in 1..k {
                    (0..n).for_each(|i| send(i, i / k * k + (i + d) % k));
                }
            }
            Pattern::Rails => {
                for d in 1..g.nodes {
                    (0..n).for_each(|i| send(i, (i + d * g.per_node) % n));
                }
            }
            Pattern::Grow(d) => (0..d.min(n.saturating_sub(d))).for_each(|i| send(i, i + d)),
            Pattern::Shrink(d) => (0..d.min(n.saturating_sub(d))).for_each(|i| send(i + d, i)),
            Pattern::ReduceToEach => (0..n).for_each(|i| each(Route::Gather(i), 1)),
            Pattern::MulticastFromEach => (0..n).for_each(|i| each(Route::Scatter(i), 1)),
            Pattern::Neighbour { axis, forward } => neighbours(g, axis as usize, forward, &mut send),
            Pattern::Line { axis, forward, round, backwards } => {
                let (len, step, _) = torus_axes(g)[axis as usize];
                neighbours(g, axis as usize, forward, &mut |from, to| {
                    let at = from / step % len;
                    let travelled = if forward { at } else { len - 1 - at };
                    match (travelled >= u32::from(round), backwards) {
                        (true, false) => send(from, to),
                        (true, true) => send(to, from),
                        _ => {}
                    }
                });
            }
            Pattern::TorusPairs => torus_pairs(g, each),
            Pattern::TreesUp => trees(n, &mut |child, parent| send(child, parent)),
            Pattern::TreesDown => trees(n, &mut |child, parent| send(parent, child)),
        }
    }

    /// Chains of transfers that go their own ways side by side: equal stretches of its routes, one after the other.
    pub fn chains(self, g: &Geometry) -> u32 {
        if self == Pattern::Ring { g.rings() } else { 1 }
    }
    /// The same load as [`Pattern::routes`], link by link and added up where that is cheaper than pair by pair:
    /// calls `each` with a route, the number of unit weights on it, and the leg of the way that it belongs to.
    pub fn links(self, g: &Geometry, each: &mut dyn FnMut(Route<'_>, u32, usize)) {
        match self {
            Pattern::RailPairs => rail_links(g, each),
            Pattern::TorusPairs => torus_links(g, each),
            _ => self.routes(g, &mut |route, weight| each(route, weight, 0)),
        }
    }
    /// Links that the longest way takes on each leg: the latency of a round is the sum over the legs.
    pub fn legs(self, g: &Geometry) -> [u32; 3] {
        match self {
            Pattern::RailPairs => [1, 1, 0],
            Pattern::TorusPairs => {
                let DomainWiring::Torus(axes) = &g.fabric else { return [1, 0, 0] };
                std::array::from_fn(|i| axes.get(i).map_or(0, |a| a.longest_way()))
            }
            _ => [1, 0, 0],
        }
    }
}

/// Loads of [`Pattern::RailPairs`]: the hop to member `j` of the node carries what goes to all members `j`; the rail
/// from a node to another carries what all members of the node send there.
fn rail_links(g: &Geometry, each: &mut dyn FnMut(Route<'_>, u32, usize)) {
    let (k, n) = (g.per_node, g.size);
    for from in 0..n {
        let node = from / k * k;
        (0..k).filter(|j| node + j != from).for_each(|j| each(Route::Walk(&[from, node + j]), g.nodes, 0));
        (1..g.nodes).for_each(|d| each(Route::Walk(&[from, (from + d * k) % n]), k, 1));
    }
}

/// Loads of [`Pattern::TorusPairs`] on the links of each axis (see `torus` for the formulas), in units of half a pair.
fn torus_links(g: &Geometry, each: &mut dyn FnMut(Route<'_>, u32, usize)) {
    for (axis, (len, step, wraps)) in torus_axes(g).into_iter().enumerate() {
        let lines = g.size / len;
        for forward in [true, false] {
            neighbours(g, axis, forward, &mut |from, to| {
                let at = from / step % len;
                let behind = if forward { at + 1 } else { len - at };
                let load = match (wraps, len % 2) {
                    (true, 0) => len * len / 4,
                    (true, _) => (len * len - 1) / 4,
                    (false, _) => 2 * behind * (len - behind),
                };
                each(Route::Walk(&[from, to]), load * lines, axis);
            });
        }
    }
}

/// One ring for each network port; `c` is the member at that port. In each node the ring visits `c, c+1, … c-1`; the
/// last then hops to `c`, whose port leads to member `c` of the next node.
fn rail_rings(g: &Geometry, each: &mut dyn FnMut(Route<'_>, u32)) {
    let (k, n) = (g.per_node, g.size);
    for c in (0..k).step_by((k / g.rings()) as usize) {
        for node in 0..g.nodes {
            let at = |place: u32| node * k + place % k;
            for i in 0..k - 1 {
                each(Route::Walk(&[at(c + i), at(c + i + 1)]), 1);
            }
            each(Route::Walk(&[at(c + k - 1), at(c), (at(c) + k) % n]), 1);
        }
    }
}

/// All pairs, each crossing nodes on the rail of the receiver.
fn rail_pairs(g: &Geometry, each: &mut dyn FnMut(Route<'_>, u32)) {
    let (k, n) = (g.per_node, g.size);
    for d in 1..n {
        for from in 0..n {
            let to = (from + d) % n;
            let relay = from / k * k + to % k;
            if relay == from || relay == to {
                each(Route::Walk(&[from, to]), 1);
            } else {
                each(Route::Walk(&[from, relay, to]), 1);
            }
        }
    }
}

/// The box of a torus group: length and step in positions of each axis, and whether it wraps.
pub(super) fn torus_axes(g: &Geometry) -> Vec<(u32, u32, bool)> {
    let DomainWiring::Torus(axes) = &g.fabric else {
        return Vec::new();
    };
    let mut step = 1;
    axes.iter()
        .map(|a| {
            let entry = (a.len, step, a.wraps);
            step *= a.len;
            entry
        })
        .collect()
}

fn neighbours(g: &Geometry, axis: usize, forward: bool, send: &mut dyn FnMut(u32, u32)) {
    let (len, step, wraps) = torus_axes(g)[axis];
    for i in 0..g.size {
        let at = i / step % len;
        let base = i - at * step;
        match (forward, wraps) {
            (true, true) => send(i, base + (at + 1) % len * step),
            (true, false) if at + 1 < len => send(i, i + step),
            (false, true) => send(i, base + (at + len - 1) % len * step),
            (false, false) if at > 0 => send(i, i - step),
            _ => {}
        }
    }
}

/// All pairs of a torus as walks over neighbours, in dimension order.
fn torus_pairs(g: &Geometry, each: &mut dyn FnMut(Route<'_>, u32)) {
    let axes = torus_axes(g);
    let mut walk = Vec::new();
    for d in 1..g.size {
        for from in 0..g.size {
            let to = (from + d) % g.size;
            // A bit per axis on which both ways are equally long: the second copy goes the other way on all of them.
            let tied = axes.iter().any(|&(len, step, wraps)| {
                let delta = (to / step % len + len - from / step % len) % len;
                wraps && 2 * delta == len
            });
            for tie_forward in if tied { &[true, false][..] } else { &[true][..] } {
                walk.clear();
                walk.push(from);
                let mut at = from;
                for &(len, step, wraps) in &axes {
                    let (here, there) = (at / step % len, to / step % len);
                    let delta = (there + len - here) % len;
                    let forward = if wraps {
                        2 * delta < len || (2 * delta == len && *tie_forward)
                    } else {
                        there > here
                    };
                    let hops = match (wraps, forward) {
                        (true, true) => delta,
                        (true, false) => (len - delta) % len,
                        (false, _) => there.abs_diff(here),
                    };
                    for _ in 0..hops {
                        let place = at / step % len;
                        let next = if forward { (place + 1) % len } else { (place + len - 1) % len };
                        at = at - place * step + next * step;
                        walk.push(at);
                    }
                }
                each(Route::Walk(&walk), if tied { 1 } else { 2 });
            }
        }
    }
}

/// Calls `edge` with each (child, parent) of both trees.
fn trees(n: u32, edge: &mut dyn FnMut(u32, u32)) {
    for tree in 0..2 {
        for rank in 0..n {
            if let Some(parent) = tree_parent(n, tree, rank) {
                edge(rank, parent);
            }
        }
    }
}

/// Parent of a position in tree 0 or 1 of the double binary tree; `None` for its root.
///
/// Tree 0 hangs position `r` with lowest set bit `b` under `(r xor b) or 2b`, or under `r xor b` where that is beyond
/// the group; position 0 is the root. Tree 1 is tree 0 mirrored (even `n`) or shifted by one (odd `n`), so that the
/// leaves of one are inner nodes of the other (NCCL `src/graph/trees.cc`; Sanders, Speck and Träff 2009).
pub(super) fn tree_parent(n: u32, tree: u32, position: u32) -> Option<u32> {
    let plain = |r: u32| -> Option<u32> {
        if r == 0 {
            return None;
        }
        let bit = 1 << r.trailing_zeros();
        let up = (r ^ bit) | (bit << 1);
        Some(if up < n { up } else { r ^ bit })
    };
    match (tree, n % 2) {
        (0, _) => plain(position),
        (_, 0) => plain(n - 1 - position).map(|p| n - 1 - p),
        _ => plain((position + n - 1) % n).map(|p| (p + 1) % n),
    }
}
