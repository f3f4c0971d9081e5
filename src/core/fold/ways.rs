//! The paths of communicators that play graphs of flows: a vertex each, where paths of phases are labels.
//!
//! A label would say the number of a path, and no two paths of one communicator could be alike. Those of a graph are
//! told apart only by what uses them: the flows (see `transfers`) and the resources.

use std::ops::Range;

use crate::program::{Action, BEHIND, World};

/// The ways of all communicators, one after the other.
#[derive(Debug, Default)]
pub(super) struct Ways {
    /// First way of each communicator, and the number of all; empty where there is none.
    first: Vec<u32>,
    /// By profile: the numbers of the paths that its actions use; empty where none of them is a graph.
    used: Vec<Vec<u32>>,
}

impl Ways {
    /// Of the communicators that are `reached`.
    pub fn of(world: &World, reached: impl Fn(usize) -> bool) -> Ways {
        let used: Vec<Vec<u32>> = world.profiles.iter().map(|row| used_by(world, row)).collect();
        if used.iter().all(Vec::is_empty) {
            return Ways { first: Vec::new(), used };
        }
        let mut first = Vec::with_capacity(world.comms.len() + 1);
        let mut next = 0;
        for (c, comm) in world.comms.iter().enumerate() {
            first.push(next);
            let used = used.get(comm.profile as usize).filter(|_| reached(c)).map_or(&[][..], Vec::as_slice);
            // A communicator that names an absent path cannot be played, and the engine says so.
            if used.last().is_some_and(|last| *last < comm.paths.len) {
                next += used.len() as u32;
            }
        }
        first.push(next);
        Ways { first, used }
    }
    /// Number of ways.
    pub fn len(&self) -> u32 {
        self.first.last().copied().unwrap_or(0)
    }
    /// The ways of a communicator; none where its paths are labels.
    pub fn of_comm(&self, comm: u32) -> Range<usize> {
        match self.first.get(comm as usize..comm as usize + 2) {
            Some(ends) => ends[0] as usize..ends[1] as usize,
            None => 0..0,
        }
    }
    /// The numbers of the paths that the actions of a profile use; empty where none of them is a graph.
    pub fn paths(&self, profile: u32) -> &[u32] {
        self.used.get(profile as usize).map_or(&[], Vec::as_slice)
    }
}

fn used_by(world: &World, row: &[u32]) -> Vec<u32> {
    let actions = row.iter().filter_map(|action| world.actions.get(*action as usize));
    let mut used = Vec::new();
    let mut graphs = false;
    for action in actions {
        if let Action::Graph { flows, parents, parent_ids } = action {
            let span = |i: usize| parents.get(i).and_then(|span| parent_ids.get(span.range()));
            if !(0..flows.len())
                .all(|i| span(i).is_some_and(|ids| ids.iter().all(|p| ((*p & !BEHIND) as usize) < i)))
            {
                return Vec::new();
            }
            graphs = true;
        }
        graphs |= matches!(action, Action::Rounds(_));
        used.extend(action.flows().iter().map(|flow| flow.path));
    }
    used.sort_unstable();
    used.dedup();
    if graphs { used } else { Vec::new() }
}
