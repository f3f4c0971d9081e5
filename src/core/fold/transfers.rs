//! Transfers that must behave alike: flows of a graph, and the ways that they take.
//!
//! Flows of one action are alike if they have the same latency, bytes and limit, take ways of one colour, and wait
//! for the same classes of flows and queue behind the same: such flows begin together. Ways are alike if as many
//! flows of each class take each. The two are refined in turn, and in turn with the world (`fold`), until neither
//! splits any more.
//!
//! Actions belong to profiles, and communicators of a profile differ in the colours of their ways only: what is found
//! for one arrangement of colours holds for all that have it.

use std::hash::BuildHasher;

use rustc_hash::{FxBuildHasher, FxHashMap};

use super::ways::Ways;
use crate::program::{Action, BEHIND, Flow, Waits, World};

/// Numbers things densely in the order in which they first occur.
pub(super) fn numbered<K: std::hash::Hash + Eq + Copy>(keys: impl Iterator<Item = K>) -> (Vec<u32>, usize) {
    let mut numbers = FxHashMap::default();
    let mut last = None;
    let number = |key: K| match last {
        // Equal entries often come in a row.
        Some((same, number)) if same == key => number,
        _ => {
            let next = numbers.len() as u32;
            let number = *numbers.entry(key).or_insert(next);
            last = Some((key, number));
            number
        }
    };
    let of = keys.map(number).collect();
    (of, numbers.len())
}

/// The classes of transfers under colours of the ways.
#[derive(Debug, Default)]
pub(super) struct Transfers {
    /// By profile and ranks of the colours of a communicator's ways.
    arrangements: FxHashMap<(u32, Box<[u32]>), Arrangement>,
}

/// The classes on communicators of one profile and one arrangement of colours.
#[derive(Debug)]
pub(super) struct Arrangement {
    /// By entry of the profile: the class of each flow of its action.
    pub flows: Vec<Vec<u32>>,
    /// By way: which flows take it, as a number that ways have in common if as many of each class do.
    ways: Vec<u32>,
}

/// The rank of each colour among the colours of its communicator.
pub(super) fn arrangement(colours: &[u32]) -> Box<[u32]> {
    let (mut numbers, count) = numbered(colours.iter());
    let mut distinct = vec![0; count];
    numbers.iter().zip(colours).for_each(|(number, colour)| distinct[*number as usize] = *colour);
    let mut order: Vec<u32> = (0..count as u32).collect();
    order.sort_unstable_by_key(|number| distinct[*number as usize]);
    let mut rank = distinct;
    (0..).zip(order).for_each(|(place, number)| rank[number as usize] = place);
    numbers.iter_mut().for_each(|number| *number = rank[*number as usize]);
    numbers.into()
}

impl Transfers {
    /// Looks at the flows of all communicators: what is alike, and finer colours of the ways with their number.
    pub fn look(world: &World, ways: &Ways, colours: &[u32]) -> (Transfers, Vec<u32>, usize) {
        let mut transfers = Transfers::default();
        let mut looks: FxHashMap<u32, ProfileClasses> = FxHashMap::default();
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
    /// The classes on a communicator of these colours.
    pub fn of(&self, profile: u32, ranks: Box<[u32]>) -> Option<&Arrangement> {
        self.arrangements.get(&(profile, ranks))
    }
    /// The coarsest colours of the ways that flows allow, whatever resources the ways cross, and what is alike with
    /// them.
    pub fn coarsest(world: &World, ways: &Ways) -> (Vec<u32>, Transfers) {
        let mut loads: FxHashMap<u32, Vec<u64>> = FxHashMap::default();
        let mut first = Vec::with_capacity(ways.len() as usize);
        for (c, comm) in (0..).zip(&world.comms) {
            let own = ways.of_comm(c);
            if !own.is_empty() {
                let loads =
                    loads.entry(comm.profile).or_insert_with(|| loads_at_first(world, ways, comm.profile));
                first.extend(loads.iter().map(|load| (comm.profile, *load)));
            }
        }
        let (mut colours, mut count) = numbered(first.into_iter());
        loop {
            let (transfers, finer, finer_count) = Transfers::look(world, ways, &colours);
            if finer_count == count {
                return (colours, transfers);
            }
            (colours, count) = (finer, finer_count);
        }
    }
}

/// By way of a profile: a number that ways have in common if flows of the same entries, latencies, bytes and limits
/// take them. Others hardly ever have it in common too, and are told apart when they are looked at.
fn loads_at_first(world: &World, ways: &Ways, profile: u32) -> Vec<u64> {
    let used = ways.paths(profile);
    let mut loads = vec![0u64; used.last().map_or(0, |last| *last as usize + 1)];
    for (entry, action) in world.profiles[profile as usize].iter().enumerate() {
        for (flow, times) in world.actions.get(*action as usize).into_iter().flat_map(Action::counted) {
            let kind = (entry, flow.latency, flow.bytes.to_bits(), flow.rate_limit.to_bits());
            let load = &mut loads[flow.path as usize];
            *load = load.wrapping_add(FxBuildHasher.hash_one(kind).wrapping_mul(u64::from(times)));
        }
    }
    used.iter().map(|path| loads[*path as usize]).collect()
}

/// The traits of a flow: entry of the profile, colour of its way, latency, bytes, limit, and the classes it waits for.
type FlowKey = (u32, u32, u64, u64, u64, u32);

/// Classes of one profile, common to all its arrangements.
#[derive(Default)]
struct ProfileClasses {
    kinds: FxHashMap<FlowKey, u32>,
    /// Numbers of classes given so far.
    given: u32,
    /// Sets of more than one class.
    sets: FxHashMap<Box<[u32]>, u32>,
    loads: FxHashMap<Box<[u32]>, u32>,
    /// The successor of a class after a number of equal rounds, each numbered a step further on than the one before:
    /// its number in the first of them.
    follows: FxHashMap<(u32, u32, u32), u32>,
}

/// Waits for nothing; and above these, sets of more than one class.
const NO_PARENT: u32 = u32::MAX;
const SET: u32 = 1 << 31;

impl ProfileClasses {
    fn arrangement(&mut self, world: &World, ways: &Ways, profile: u32, ranks: &[u32]) -> Arrangement {
        let used = ways.paths(profile);
        let mut way = vec![0; used.last().map_or(0, |last| *last as usize + 1)];
        (0..).zip(used).for_each(|(i, path)| way[*path as usize] = i);
        let row = &world.profiles[profile as usize];
        let actions = || row.iter().filter_map(|action| world.actions.get(*action as usize));
        let mut flows = Vec::with_capacity(row.len());
        for (entry, action) in (0..).zip(row) {
            let action = world.actions.get(*action as usize);
            let classes = |action| self.classes(entry, action, |path| ranks[way[path as usize] as usize]);
            flows.push(action.map_or_else(Vec::new, classes));
        }
        // The classes of the flows on each way, way after way. Counted two places further on, `first` says one place
        // further on where a way begins, and, when that has moved with each flow, in its own.
        let mut first = vec![0u32; used.len() + 2];
        for action in actions() {
            action.each(|flow, _| first[way[flow.path as usize] as usize + 2] += 1);
        }
        (2..first.len()).for_each(|i| first[i] += first[i - 1]);
        let mut on_way = vec![0; first[used.len() + 1] as usize];
        let mut classes = flows.iter().flatten();
        for action in actions() {
            action.each(|flow, _| {
                let place = &mut first[way[flow.path as usize] as usize + 1];
                on_way[*place as usize] = classes.next().copied().unwrap_or_default();
                *place += 1;
            });
        }
        Arrangement { ways: self.loads(&mut on_way, &first[..=used.len()]), flows }
    }

    /// A number for the classes of the flows on each way, which begin where `first` says.
    fn loads(&mut self, on_way: &mut [u32], first: &[u32]) -> Vec<u32> {
        let ways = || first.windows(2).map(|ends| ends[0] as usize..ends[1] as usize);
        ways().for_each(|way| on_way[way].sort_unstable());
        let mut last: Option<(&[u32], u32)> = None;
        let number = |way: std::ops::Range<usize>| {
            let load = &on_way[way];
            let number = match last {
                Some((same, number)) if same == load => number,
                _ => self.loads.get(load).copied().unwrap_or_else(|| {
                    let next = self.loads.len() as u32;
                    self.loads.insert(load.into(), next);
                    next
                }),
            };
            last = Some((load, number));
            number
        };
        ways().map(number).collect()
    }

    /// The class of each flow of an action.
    fn classes(&mut self, entry: u32, action: &Action, colour: impl Fn(u32) -> u32) -> Vec<u32> {
        let mut found =
            ActionClasses { classes: Vec::with_capacity(action.count()), last: None, waits: Vec::new() };
        let Action::Rounds(rounds) = action else {
            action.each(|flow, waits| self.class(entry, flow, waits, colour(flow.path), &mut found));
            return found.classes;
        };
        for (stretch, times) in rounds.stretches() {
            let last = *times.end();
            for time in times {
                let begin = found.classes.len();
                let before = begin.saturating_sub(stretch.len()) as u32..begin as u32;
                let mut in_turn = time > 0;
                for i in stretch.clone() {
                    let (flow, waits) = rounds.played(i, &stretch, time);
                    in_turn &= waits.iter().all(|wait| before.contains(&wait));
                    self.class(entry, flow, waits, colour(flow.path), &mut found);
                }
                // Rounds that wait for the one before them alone are all alike as soon as two are.
                if last > time && in_turn && self.follow(stretch.len(), last - time, &mut found) {
                    break;
                }
            }
        }
        found.classes
    }

    /// The class of the next flow.
    #[inline]
    fn class(&mut self, entry: u32, flow: &Flow, waits: Waits<'_>, colour: u32, found: &mut ActionClasses) {
        let ActionClasses { classes, last, waits: set } = found;
        set.clear();
        set.extend(waits.marked().map(|p| classes[(p & !BEHIND) as usize] | p & BEHIND));
        let parents = self.set(set);
        let [bytes, limit] = [flow.bytes, flow.rate_limit].map(f64::to_bits);
        let kind = (entry, colour, flow.latency.0, bytes, limit, parents);
        let class = match *last {
            Some((same, class)) if same == kind => class,
            _ => *self.kinds.entry(kind).or_insert_with(|| {
                self.given += 1;
                self.given - 1
            }),
        };
        *last = Some((kind, class));
        classes.push(class);
    }

    /// Where the last round of flows has the classes of the one before it, all by one number further on, `times` more
    /// rounds will as well: a flow's class follows from the classes of the round before. Two arrangements that have a
    /// class and that number in common also have the successors in common.
    fn follow(&mut self, round: usize, times: u32, found: &mut ActionClasses) -> bool {
        let classes = &mut found.classes;
        let begin = classes.len() - round;
        let (before, now) = (&classes[begin - round..begin], &classes[begin..]);
        let further = now[0].wrapping_sub(before[0]);
        let alike = now.iter().zip(before).all(|(now, before)| now.wrapping_sub(*before) == further);
        let (least, most) =
            now.iter().fold((u32::MAX, 0), |(least, most), class| (least.min(*class), most.max(*class)));
        if !alike || u64::from(further) != u64::from(most) - u64::from(least) + 1 {
            return false;
        }
        let Some(given) = further.checked_mul(times).and_then(|new| self.given.checked_add(new)) else {
            return false;
        };
        let new = self.given;
        let follows = now.iter().map(|class| {
            *self.follows.entry((*class, times, further)).or_insert_with(|| new + (class - least))
        });
        let first: Vec<u32> = follows.collect();
        self.given = given;
        for time in 0..times {
            classes.extend(first.iter().map(|class| class + time * further));
        }
        found.last = None;
        true
    }

    /// A number for a set of classes.
    fn set(&mut self, classes: &mut Vec<u32>) -> u32 {
        if classes.len() > 1 {
            classes.sort_unstable();
            classes.dedup();
        }
        match classes[..] {
            [] => NO_PARENT,
            [one] if one & BEHIND == 0 => one,
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

/// The known classes of the flows of an action.
struct ActionClasses {
    classes: Vec<u32>,
    /// The flow before, with its class.
    last: Option<(FlowKey, u32)>,
    /// Scratch space.
    waits: Vec<u32>,
}
