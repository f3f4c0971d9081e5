//! The incidence graph of a world, and what tells its vertices apart to begin with.
//!
//! Vertices are numbered ranks first, then bundles of communicators, resources and tiers. Only slots that a program
//! uses make edges, and only communicators that are so reached occupy resources: what nobody uses tells nobody apart.
//!
//! The paths of communicators that play graphs of flows are vertices as well, behind the tiers (`ways`).
//!
//! One vertex stands for a *bundle* of communicators that share their tables (`bundles`), and one edge for all slots
//! through which a rank meets one. Its label says which slots those are, and whose.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::bundles::Bundles;
use super::demands::Demands;
use super::memory;
use super::partition::EdgeGraph;
use super::transfers::numbered;
use super::ways::Ways;
use crate::ids::{CommId, RankId};
use crate::program::World;

/// The incidence graph with its numbering.
#[derive(Debug)]
pub(super) struct Incidence<'w> {
    pub graph: EdgeGraph,
    pub bundles: Bundles<'w>,
    /// First vertex of the bundles, resources, tiers and ways, and the number of vertices.
    pub comms: u32,
    pub resources: u32,
    pub tiers: u32,
    pub ways_from: u32,
    pub end: u32,
    pub ways: Ways,
    /// Labels from `slots` on stand for these meetings; those below, for one with the first of a bundle through that
    /// slot.
    slots: u32,
    met: Vec<Box<[Meeting]>>,
}

/// A rank meets a communicator of a bundle through a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Meeting {
    /// The communicator of the bundle.
    pub twin: u32,
    /// The slot.
    pub slot: u32,
}

impl<'w> Incidence<'w> {
    /// The incidence graph of `world`, of whose tables its programs ask so much.
    pub fn of(world: &'w World, demands: &Demands) -> Incidence<'w> {
        let bundles = Bundles::of(world);
        let comms = world.ranks.len() as u32;
        let resources = comms + bundles.count() as u32;
        let tiers = resources + world.resources.len() as u32;
        let ways_from = tiers + world.tiers.len() as u32;
        let slots = world.ranks.iter().map(|r| r.slots.len).max().unwrap_or(0);
        let mut incidence = Incidence {
            graph: EdgeGraph::default(),
            bundles,
            comms,
            resources,
            tiers,
            ways_from,
            end: ways_from,
            ways: Ways::default(),
            slots,
            met: vec![],
        };
        let arrivals = incidence.arrivals(world, &demands.used);
        let bundles = &incidence.bundles;
        let mut reached = vec![false; bundles.count()];
        for arrival in &arrivals {
            reached[arrival.bundle as usize] = true;
        }
        incidence.ways = Ways::of(world, |comm| reached[bundles.of[comm] as usize]);
        incidence.end += incidence.ways.len();
        let ways = &incidence.ways;
        incidence.graph = EdgeGraph::build(incidence.end as usize, |add| {
            for a in &arrivals {
                add(a.rank, comms + a.bundle, a.label, 1);
            }
            for (rank, memory) in (0..).zip(world.ranks.iter().map(|r| r.memory)) {
                for &(resource, crossings) in &world.uses[memory.range()] {
                    if demands.felt[resource.index()] && crossings > 0 {
                        add(rank, resources + resource.0, 0, crossings);
                    }
                }
            }
            for (vertex, &comm) in
                (comms..).zip(&bundles.first).filter(|(v, _)| reached[(v - comms) as usize])
            {
                let own = ways.of_comm(comm);
                for (way, &path) in own.clone().zip(ways.paths(world.comms[comm as usize].profile)) {
                    let way = ways_from + way as u32;
                    add(vertex, way, 0, 1);
                    for &(resource, crossings) in world.path(CommId(comm), path) {
                        if crossings > 0 {
                            add(way, resources + resource.0, 0, crossings);
                        }
                    }
                }
                if !own.is_empty() {
                    continue;
                }
                for path in 0..world.comms[comm as usize].paths.len {
                    for &(resource, crossings) in world.path(CommId(comm), path) {
                        if crossings > 0 {
                            add(vertex, resources + resource.0, path, crossings);
                        }
                    }
                }
            }
            memory::for_each_use(world, |rank, number, tier, count| {
                if count > 0 {
                    add(rank, tiers + tier as u32, number as u32, count);
                }
            });
        });
        incidence
    }

    /// Every meeting of a rank with a bundle, rank by rank: one for all slots, or one for each where no bundle has
    /// twins.
    fn arrivals(&mut self, world: &World, used: &[Vec<bool>]) -> Vec<BundleMember> {
        let alone = self.bundles.alone();
        let mut numbers: FxHashMap<Box<[Meeting]>, u32> = FxHashMap::default();
        let mut arrivals = Vec::with_capacity(if alone { world.slots.len() } else { 0 });
        let (mut met, mut with_one) = (Vec::new(), Vec::new());
        for rank in 0..self.comms {
            let used = &used[world.ranks[rank as usize].program.index()];
            let slots = (0..).zip(world.slots_of(RankId(rank))).zip(used).filter(|(_, used)| **used);
            if alone {
                let bound = slots.filter(|((_, comm), _)| comm.index() < self.bundles.of.len());
                arrivals.extend(bound.map(|((label, comm), _)| BundleMember {
                    rank,
                    bundle: self.bundles.of[comm.index()],
                    label,
                }));
                continue;
            }
            met.clear();
            met.extend(slots.filter_map(|((slot, comm), _)| {
                let bundle = *self.bundles.of.get(comm.index())?;
                Some((bundle, Meeting { twin: self.bundles.twin[comm.index()], slot }))
            }));
            met.sort_unstable();
            for of_bundle in met.chunk_by(|a, b| a.0 == b.0) {
                with_one.clear();
                with_one.extend(of_bundle.iter().map(|(_, meeting)| *meeting));
                let label = match with_one[..] {
                    [Meeting { twin: 0, slot }] => slot,
                    _ => numbers.get(&with_one[..]).copied().unwrap_or_else(|| {
                        let label = self.slots + self.met.len() as u32;
                        self.met.push(with_one[..].into());
                        numbers.insert(with_one[..].into(), label);
                        label
                    }),
                };
                arrivals.push(BundleMember { rank, bundle: of_bundle[0].0, label });
            }
        }
        arrivals
    }

    /// The ranks that meet a communicator, each with the slots through which it does, in order.
    pub fn meetings(&self, comm: u32) -> Vec<(u32, Vec<u32>)> {
        let (bundle, twin) = (self.bundles.of[comm as usize], self.bundles.twin[comm as usize]);
        let mut meetings: Vec<(u32, Vec<u32>)> = Vec::new();
        let mut meet = |rank, slot| match meetings.last_mut() {
            Some((last, slots)) if *last == rank => slots.push(slot),
            _ => meetings.push((rank, vec![slot])),
        };
        for edge in self.graph.at(self.comms + bundle).filter(|edge| edge.to < self.comms) {
            match edge.label.checked_sub(self.slots) {
                None if twin == 0 => meet(edge.to, edge.label),
                None => {}
                Some(met) => {
                    let of_twin = self.met[met as usize].iter().filter(|meeting| meeting.twin == twin);
                    of_twin.for_each(|meeting| meet(edge.to, meeting.slot));
                }
            }
        }
        meetings
    }

    /// How often ways cross a resource, all together.
    fn crossed(&self, resource: u32) -> u64 {
        if self.ways_from == self.end {
            return 0;
        }
        let ways = self.graph.at(self.resources + resource).filter(|edge| edge.to >= self.ways_from);
        ways.map(|edge| u64::from(edge.weight)).sum()
    }

    /// Each vertex as the engine sees it on its own, with the number of crossings of resources by ways; `turns` tell
    /// ranks apart, `ways` colours ways.
    pub fn initial_colours(&self, world: &World, turns: &[u32], ways: &[u32]) -> Vec<u32> {
        let mut colours = Colours { of: Vec::with_capacity(self.end as usize), next: 0 };
        colours.add(world.ranks.iter().zip(turns).map(|(r, turn)| {
            (
                r.program,
                r.slots.len,
                r.tiers.len,
                r.slowness.to_bits(),
                if world.jitter.is_empty() { 0 } else { r.jitter_seed },
                turn,
            )
        }));
        colours.add(self.bundles.first.iter().zip(&self.bundles.size).map(|(first, size)| {
            let c = &world.comms[*first as usize];
            (c.profile, c.needed, c.paths.len, *size)
        }));
        let capacities = world.resources.iter().map(|r| r.capacity.0.to_bits());
        colours.add((0..).zip(capacities).map(|(resource, capacity)| (capacity, self.crossed(resource))));
        colours.add(world.tiers.iter().map(|t| (&t.name, t.capacity)));
        colours.add(ways.iter().copied());
        colours.of
    }
}

/// A rank meets a bundle of communicators through the slots that the label says.
struct BundleMember {
    rank: u32,
    bundle: u32,
    label: u32,
}

/// Dense colours, table by table.
struct Colours {
    of: Vec<u32>,
    next: u32,
}

impl Colours {
    /// Appends a table whose entries get equal colours for equal keys.
    fn add<K: Hash + Eq + Copy>(&mut self, keys: impl Iterator<Item = K>) {
        let (numbers, count) = numbered(keys);
        self.of.extend(numbers.into_iter().map(|number| self.next + number));
        self.next += count as u32;
    }
}
