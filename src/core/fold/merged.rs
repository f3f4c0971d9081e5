//! Actions of the folded world: one flow for each class of flows, one path for each class of ways.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

use super::transfers::{Transfers, arrangement};
use super::ways::Ways;
use crate::program::{Action, BEHIND, Flow, Span, World};

/// The profiles and actions of the folded world, as far as they have been asked for.
pub(super) struct MergedTransfers<'w> {
    full: &'w World,
    ways: &'w Ways,
    transfers: &'w Transfers,
    actions: Vec<Action>,
    action_units: Vec<u16>,
    profiles: Vec<Vec<u32>>,
    known: FxHashMap<(u32, Box<[u32]>), MergedProfile>,
}

/// A profile whose flows are merged.
pub(super) struct MergedProfile {
    pub profile: u32,
    /// The path of each number: one of the ways that it stands for, and how many flows take each of them at once.
    pub paths: Vec<(u32, u32)>,
}

impl<'w> MergedTransfers<'w> {
    /// Profiles keep their numbers; profiles of graphs are empty, and their replacements stand behind.
    pub fn new(full: &'w World, ways: &'w Ways, transfers: &'w Transfers) -> MergedTransfers<'w> {
        let mut merged = MergedTransfers {
            full,
            ways,
            transfers,
            actions: Vec::new(),
            action_units: Vec::new(),
            profiles: Vec::new(),
            known: FxHashMap::default(),
        };
        if ways.len() == 0 {
            merged.actions = full.actions.clone();
            merged.action_units = full.action_units.clone();
            merged.profiles = full.profiles.clone();
            return merged;
        }
        let mut numbers = FxHashMap::default();
        for (profile, row) in (0..).zip(&full.profiles) {
            let row: Vec<u32> = match ways.paths(profile) {
                [] => row.iter().map(|a| merged.kept(*a, &mut numbers)).collect(),
                _ => Vec::new(),
            };
            merged.profiles.push(row);
        }
        merged
    }

    /// The number of an action that is as it was.
    fn kept(&mut self, action: u32, numbers: &mut FxHashMap<u32, u32>) -> u32 {
        let Some(as_it_was) = self.full.actions.get(action as usize) else {
            return action;
        };
        *numbers.entry(action).or_insert_with(|| self.push(action, as_it_was.clone()))
    }

    /// Puts what becomes of an action behind the others; its number.
    fn push(&mut self, of: u32, action: Action) -> u32 {
        self.action_units.push(self.full.units_of(of));
        self.actions.push(action);
        self.actions.len() as u32 - 1
    }

    /// The merged profile on a communicator whose ways are of these classes.
    pub fn profile(&mut self, profile: u32, own: &[u32]) -> &MergedProfile {
        let key = (profile, arrangement(own));
        if !self.known.contains_key(&key) {
            let merged = self.merge(profile, &key.1);
            self.known.insert(key.clone(), merged);
        }
        &self.known[&key]
    }

    fn merge(&mut self, profile: u32, ranks: &[u32]) -> MergedProfile {
        let mut paths =
            Paths { used: self.ways.paths(profile), ranks, known: FxHashMap::default(), list: vec![] };
        let classes = self.transfers.of(profile, ranks.into());
        let row = self.full.profiles[profile as usize].iter().enumerate().map(|(entry, &action)| {
            let Some(full) = self.full.actions.get(action as usize) else { return action };
            let classes = classes.map_or(&[][..], |found| &found.flows[entry]);
            self.push(action, merged(full, classes, &mut paths))
        });
        let row = row.collect();
        self.profiles.push(row);
        MergedProfile { profile: self.profiles.len() as u32 - 1, paths: paths.list }
    }

    /// Gives the folded world its profiles and actions.
    pub fn give(self, world: &mut World) {
        (world.actions, world.action_units, world.profiles) =
            (self.actions, self.action_units, self.profiles);
    }
}

/// The paths of a merged profile, being numbered.
struct Paths<'r> {
    used: &'r [u32],
    ranks: &'r [u32],
    /// By rank of the way and flows at once.
    known: FxHashMap<(u32, u32), u32>,
    list: Vec<(u32, u32)>,
}

impl Paths<'_> {
    fn number(&mut self, path: u32, flows: u32) -> u32 {
        let way = self.used.binary_search(&path).unwrap_or_default();
        let list = &mut self.list;
        *self.known.entry((self.ranks[way], flows)).or_insert_with(|| {
            list.push((way as u32, flows));
            list.len() as u32 - 1
        })
    }
}

/// A class of flows, being counted.
#[derive(Clone, Copy)]
struct FlowClass {
    first: Flow,
    /// Flows of the class that take the way of the first.
    beside: u32,
}

/// One flow for each class, in the order of their first flows.
fn merged(action: &Action, classes: &[u32], paths: &mut Paths) -> Action {
    let mut number = vec![u32::MAX; classes.iter().max().map_or(0, |last| *last as usize + 1)];
    let mut merged: Vec<FlowClass> = Vec::new();
    let (mut parents, mut parent_ids) = (Vec::new(), Vec::new());
    let mut of = classes.iter().map(|class| *class as usize);
    action.each(|flow, waits| {
        let class = of.next().unwrap_or_default();
        if number[class] == u32::MAX {
            number[class] = merged.len() as u32;
            merged.push(FlowClass { first: *flow, beside: 0 });
            let waits: BTreeSet<u32> = waits
                .marked()
                .map(|p| number[classes[(p & !BEHIND) as usize] as usize] | p & BEHIND)
                .collect();
            parents.push(Span::append(&mut parent_ids, waits));
        }
        let class = &mut merged[number[class] as usize];
        class.beside += u32::from(class.first.path == flow.path);
    });
    let flow = |class: FlowClass| Flow { path: paths.number(class.first.path, class.beside), ..class.first };
    let flows: Vec<Flow> = merged.into_iter().map(flow).collect();
    match action {
        Action::Fixed(time) => Action::Fixed(*time),
        Action::Phases(_) => Action::Phases(flows),
        Action::Graph { .. } | Action::Rounds(_) => Action::Graph { flows, parents, parent_ids },
    }
}
