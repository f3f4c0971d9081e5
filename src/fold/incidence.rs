//! The incidence graph of a world, and what tells its vertices apart to begin with.
//!
//! Vertices are numbered ranks first, then communicators, resources and tiers. Only slots that a program uses make
//! edges, and only communicators that are so reached occupy resources: what nobody uses tells nobody apart.
//!
//! The paths of communicators that play graphs of flows are vertices as well, behind the tiers (`ways`).
//!
//! A rank may use one communicator through several slots. The label of a slot then also says which is the lowest of
//! them (the *port* through which the rank meets the communicator), so that both can be counted in classes.

use std::hash::Hash;

use rustc_hash::FxHashMap;

use super::memory;
use super::partition::Graph;
use super::ways::Ways;
use crate::ids::{CommId, RankId};
use crate::program::{Program, Work, World};

/// The incidence graph with its numbering.
#[derive(Debug)]
pub(super) struct Incidence {
    pub graph: Graph,
    /// First vertex of the communicators, resources, tiers and ways, and the number of vertices.
    pub comms: u32,
    pub resources: u32,
    pub tiers: u32,
    pub ways_from: u32,
    pub end: u32,
    pub ways: Ways,
    /// Labels from `slots` on stand for these pairs (slot, lower slot with the same communicator).
    slots: u32,
    doubled: Vec<(u32, u32)>,
}

impl Incidence {
    /// The incidence graph of `world`.
    pub fn of(world: &World) -> Incidence {
        let comms = world.ranks.len() as u32;
        let resources = comms + world.comms.len() as u32;
        let tiers = resources + world.resources.len() as u32;
        let ways_from = tiers + world.tiers.len() as u32;
        let slots = world.ranks.iter().map(|r| r.slots.len).max().unwrap_or(0);
        let mut incidence = Incidence {
            graph: Graph::default(),
            comms,
            resources,
            tiers,
            ways_from,
            end: ways_from,
            ways: Ways::default(),
            slots,
            doubled: vec![],
        };
        let arrivals = incidence.arrivals(world);
        let felt = world.felt_by_kernels();
        let mut reached = vec![false; world.comms.len()];
        for arrival in &arrivals {
            reached[arrival.comm as usize] = true;
        }
        incidence.ways = Ways::of(world, &reached);
        incidence.end += incidence.ways.len();
        let ways = &incidence.ways;
        incidence.graph = Graph::build(incidence.end as usize, |add| {
            for a in &arrivals {
                add(a.rank, comms + a.comm, a.label, 1);
            }
            for (rank, memory) in (0..).zip(world.ranks.iter().map(|r| r.memory)) {
                for &(resource, crossings) in &world.uses[memory.range()] {
                    if felt[resource.index()] && crossings > 0 {
                        add(rank, resources + resource.0, 0, crossings);
                    }
                }
            }
            for comm in (0..world.comms.len() as u32).filter(|c| reached[*c as usize]) {
                let own = ways.of_comm(comm);
                for (way, &path) in own.clone().zip(ways.paths(world.comms[comm as usize].profile)) {
                    let way = ways_from + way as u32;
                    add(comms + comm, way, 0, 1);
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
                            add(comms + comm, resources + resource.0, path, crossings);
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

    /// Every use of a communicator by a rank through a slot, rank by rank.
    fn arrivals(&mut self, world: &World) -> Vec<Arrival> {
        let used: Vec<Vec<bool>> = world.programs.iter().map(|p| used_slots(p)).collect();
        let mut met = vec![(u32::MAX, 0); world.comms.len()];
        let mut numbers = FxHashMap::default();
        let mut arrivals = Vec::with_capacity(world.slots.len());
        for rank in 0..self.comms {
            let used = &used[world.ranks[rank as usize].program.index()];
            for ((slot, &comm), _) in
                (0..).zip(world.slots_of(RankId(rank))).zip(used).filter(|(_, used)| **used)
            {
                let Some(met) = met.get_mut(comm.index()) else {
                    continue;
                };
                let mut label = slot;
                if met.0 == rank {
                    let doubled = &mut self.doubled;
                    label = *numbers.entry((slot, met.1)).or_insert_with(|| {
                        doubled.push((slot, met.1));
                        self.slots + doubled.len() as u32 - 1
                    });
                } else {
                    *met = (rank, slot);
                }
                arrivals.push(Arrival { rank, comm: comm.0, label });
            }
        }
        arrivals
    }

    /// The lowest slot through which the rank meets the communicator, for the label of one of its slots.
    pub fn port(&self, label: u32) -> u32 {
        if label < self.slots { label } else { self.doubled[(label - self.slots) as usize].1 }
    }

    /// What the engine sees of each vertex on its own; `ways` colours those.
    pub fn initial_colours(&self, world: &World, ways: &[u32]) -> Vec<u32> {
        let mut colours = Colours { of: Vec::with_capacity(self.end as usize), next: 0 };
        let turns = memory::turns(world);
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
        colours.add(world.comms.iter().map(|c| (c.profile, c.needed, c.paths.len)));
        colours.add(world.resources.iter().map(|r| r.capacity.0.to_bits()));
        colours.add(world.tiers.iter().map(|t| (&t.name, t.capacity)));
        colours.add(ways.iter().copied());
        colours.of
    }
}

/// A rank meets a communicator through a slot.
struct Arrival {
    rank: u32,
    comm: u32,
    label: u32,
}

/// Which slots the ops of a program use.
fn used_slots(program: &Program) -> Vec<bool> {
    let mut used = Vec::new();
    for op in &program.ops {
        if let Work::Comm { slot, .. } = op.work {
            let slot = usize::from(slot);
            if used.len() <= slot {
                used.resize(slot + 1, false);
            }
            used[slot] = true;
        }
    }
    used
}

/// Dense colours, table by table.
struct Colours {
    of: Vec<u32>,
    next: u32,
}

impl Colours {
    /// Appends a table whose entries get equal colours for equal keys.
    fn add<K: Hash + Eq>(&mut self, keys: impl Iterator<Item = K>) {
        let mut numbers = FxHashMap::default();
        for key in keys {
            self.of.push(*numbers.entry(key).or_insert_with(|| {
                self.next += 1;
                self.next - 1
            }));
        }
    }
}
