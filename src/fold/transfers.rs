//! Transfers that must behave alike: flows of a graph, and the ways that they take.
//!
//! Flows of one action are alike if they have the same latency, bytes and limit, take ways of one colour, and wait for the
//! same classes of flows: such flows begin together. Ways are alike if as many flows of each class take each. The two are
//! refined in turn, and in turn with the world (`fold`), until neither splits any more.
//!
//! Actions belong to profiles, and communicators of a profile differ in the colours of their ways only: what is found for
//! one arrangement of colours holds for all that have it.

use rustc_hash::FxHashMap;

use super::ways::Ways;
use crate::program::{Action, World};

/// Numbers things densely in the order in which they first occur.
pub(super) fn numbered<K: std::hash::Hash + Eq>(keys: impl Iterator<Item = K>) -> (Vec<u32>, usize) {
    let mut numbers = FxHashMap::default();
    let of = keys
        .map(|key| {
            let next = numbers.len() as u32;
            *numbers.entry(key).or_insert(next)
        })
        .collect();
    (of, numbers.len())
}

/// Which transfers are alike, the ways being coloured so.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// By profile and ranks of the colours of a communicator's ways.
    arrangements: FxHashMap<(u32, Box<[u32]>), Arrangement>,
}

/// What is alike on communicators of one profile and one arrangement of colours.
#[derive(Debug)]
pub(super) struct Arrangement {
    /// By entry of the profile: the class of each flow of its action.
    pub flows: Vec<Vec<u32>>,
    /// By way: which flows take it, as a number that ways have in common if as many of each class do.
    ways: Vec<u32>,
}

/// The rank of each colour among those of its communicator.
pub(super) fn arrangement(colours: &[u32]) -> Box<[u32]> {
    let mut distinct = colours.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    colours.iter().map(|c| distinct.binary_search(c).unwrap_or_default() as u32).collect()
}

impl Transfers {
    /// Looks at the flows of all communicators: what is alike, and finer colours of the ways with their number.
    pub fn look(world: &World, ways: &Ways, colours: &[u32]) -> (Transfers, Vec<u32>, usize) {
        let mut transfers = Transfers::default();
        let mut looks: FxHashMap<u32, Look> = FxHashMap::default();
        let mut finer = Vec::with_capacity(colours.len());
        for (c, comm) in (0..).zip(&world.comms) {
            let own = &colours[ways.of_comm(c)];
            if own.is_empty() {
                continue;
            }
            let seen = transfers.arrangements.entry((comm.profile, arrangement(own))).or_insert_with_key(
                |(profile, ranks)| {
                    looks.entry(*profile).or_default().arrangement(world, ways, *profile, ranks)
                },
            );
            finer.extend(own.iter().copied().zip(seen.ways.iter().copied()));
        }
        let (finer, count) = numbered(finer.into_iter());
        (transfers, finer, count)
    }
    /// What is alike on a communicator of these colours.
    pub fn of(&self, profile: u32, ranks: Box<[u32]>) -> Option<&Arrangement> {
        self.arrangements.get(&(profile, ranks))
    }
    /// The coarsest colours of the ways that flows allow, whatever resources the ways cross, and what is alike with them.
    pub fn coarsest(world: &World, ways: &Ways) -> (Vec<u32>, Transfers) {
        let profiles = (0..).zip(&world.comms).flat_map(|(c, comm)| ways.of_comm(c).map(|_| comm.profile));
        let (mut colours, mut count) = numbered(profiles);
        loop {
            let (transfers, finer, finer_count) = Transfers::look(world, ways, &colours);
            if finer_count == count {
                return (colours, transfers);
            }
            (colours, count) = (finer, finer_count);
        }
    }
}

/// What makes a flow: entry of the profile, colour of its way, latency, bytes, limit, and the classes it waits for.
type Kind = (u32, u32, u64, u64, u64, u32);

/// Classes of one profile, common to all its arrangements.
#[derive(Default)]
struct Look {
    kinds: FxHashMap<Kind, u32>,
    /// Sets of more than one class.
    sets: FxHashMap<Box<[u32]>, u32>,
    loads: FxHashMap<Box<[u32]>, u32>,
}

/// Waits for nothing; and above these, sets of more than one class.
const NO_PARENT: u32 = u32::MAX;
const SET: u32 = 1 << 31;

impl Look {
    fn arrangement(&mut self, world: &World, ways: &Ways, profile: u32, ranks: &[u32]) -> Arrangement {
        let used = ways.paths(profile);
        let mut way = vec![0; used.last().map_or(0, |last| *last as usize + 1)];
        (0..).zip(used).for_each(|(i, path)| way[*path as usize] = i);
        let row = &world.profiles[profile as usize];
        let mut flows = Vec::with_capacity(row.len());
        let mut on_way: Vec<Vec<u32>> = vec![Vec::new(); used.len()];
        for (entry, action) in (0..).zip(row) {
            let Some(action) = world.actions.get(*action as usize) else {
                flows.push(Vec::new());
                continue;
            };
            let classes = self.classes(entry, action, |path| ranks[way[path as usize] as usize]);
            let mut next = classes.iter();
            action.each(|flow, _| on_way[way[flow.path as usize] as usize].extend(next.next()));
            flows.push(classes);
        }
        let ways = on_way.into_iter().map(|mut load| {
            load.sort_unstable();
            let next = self.loads.len() as u32;
            *self.loads.entry(load.into_boxed_slice()).or_insert(next)
        });
        Arrangement { ways: ways.collect(), flows }
    }

    /// The class of each flow of an action.
    fn classes(&mut self, entry: u32, action: &Action, colour: impl Fn(u32) -> u32) -> Vec<u32> {
        let mut classes: Vec<u32> = Vec::with_capacity(action.count());
        let mut last: Option<(Kind, u32)> = None;
        let mut waits = Vec::new();
        action.each(|flow, parents| {
            waits.clear();
            waits.extend(parents.iter().map(|p| classes[*p as usize]));
            let parents = self.set(&mut waits);
            let [bytes, limit] = [flow.bytes, flow.rate_limit].map(f64::to_bits);
            let kind = (entry, colour(flow.path), flow.latency.0, bytes, limit, parents);
            let class = match last {
                Some((same, class)) if same == kind => class,
                _ => {
                    let next = self.kinds.len() as u32;
                    *self.kinds.entry(kind).or_insert(next)
                }
            };
            last = Some((kind, class));
            classes.push(class);
        });
        classes
    }

    /// A number for a set of classes.
    fn set(&mut self, classes: &mut Vec<u32>) -> u32 {
        classes.sort_unstable();
        classes.dedup();
        match classes[..] {
            [] => NO_PARENT,
            [one] => one,
            _ => {
                if let Some(known) = self.sets.get(&classes[..]) {
                    return *known;
                }
                let next = SET | self.sets.len() as u32;
                self.sets.insert(classes[..].into(), next);
                next
            }
        }
    }
}
