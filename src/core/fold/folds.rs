//! Worlds folded one after another, as the points of a study are: each fold's findings serve the next.
//!
//! Classes and merged tables come from the tables of a world and from its programs' demands on them ([`Demands`]).
//! Other properties of ops, and the bytes of actions, may differ: programs and actions are then put into the folded
//! world as they are. Only graphs of flows are folded with their bytes; worlds that play such are always folded anew.

use std::sync::{Arc, Mutex, PoisonError};

use super::demands::Demands;
use super::{FoldedWorld, folded};
use crate::program::{Action, World};

/// Remembers what was folded last.
#[derive(Debug, Default)]
pub struct Folds(pub Mutex<Option<Arc<FoldedTables>>>);

/// A world that was folded.
#[derive(Debug)]
pub struct FoldedTables {
    /// Its tables, without programs and actions.
    tables: World,
    demands: Demands,
    /// The folded world, likewise without.
    folded: FoldedWorld,
}

impl Folds {
    /// [`super::fold`], by what is remembered where that must come to the same.
    pub fn fold(&self, world: &World) -> FoldedWorld {
        let demands = Demands::of(world);
        let remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(last) = remembered.filter(|last| last.serves(world, &demands)) {
            return last.of(world);
        }
        let folded = folded(world, &demands);
        // A world that could not be folded becomes another: rounds are written out.
        if !plays_graphs(world) && folded.ranks.len() < world.ranks.len() {
            let last = FoldedTables { tables: bare(world.clone()), demands, folded: bare_folded(&folded) };
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(last));
        }
        folded
    }
}

impl FoldedTables {
    /// True if another world is folded in the same way.
    pub fn serves(&self, world: &World, demands: &Demands) -> bool {
        self.demands == *demands && same_tables(&self.tables, world) && !plays_graphs(world)
    }
    /// That other world, folded.
    fn of(&self, world: &World) -> FoldedWorld {
        let mut folded = self.folded.clone();
        let w = &mut folded.world;
        for (rank, &of) in w.ranks.iter().zip(&folded.ranks.representative) {
            let program = world.ranks[of as usize].program;
            w.programs[rank.program.index()] = world.programs[program.index()].clone();
        }
        w.actions = world.actions.clone();
        w.action_units = world.action_units.clone();
        w.profiles = world.profiles.clone();
        folded
    }
}

/// The tables of a world: all but programs and actions.
fn bare(world: World) -> World {
    World {
        programs: Vec::new(),
        actions: Vec::new(),
        action_units: Vec::new(),
        profiles: Vec::new(),
        ..world
    }
}

/// The same of a folded world, with empty programs in the places of its own.
fn bare_folded(folded: &FoldedWorld) -> FoldedWorld {
    let programs = vec![Arc::default(); folded.world.programs.len()];
    let world = World { programs, ..bare(folded.world.clone()) };
    FoldedWorld { world, ..folded.clone() }
}

/// True if two worlds have equal tables. Each field stands here: a new one has to be thought about.
fn same_tables(a: &World, b: &World) -> bool {
    let World {
        programs: _,
        ranks,
        slots,
        tier_uses,
        comms,
        members,
        paths,
        uses,
        resources,
        tiers,
        actions: _,
        action_units: _,
        profiles: _,
        jitter,
    } = a;
    *ranks == b.ranks
        && *slots == b.slots
        && *tier_uses == b.tier_uses
        && *comms == b.comms
        && *members == b.members
        && *paths == b.paths
        && *uses == b.uses
        && *resources == b.resources
        && *tiers == b.tiers
        && *jitter == b.jitter
}

fn plays_graphs(world: &World) -> bool {
    world.actions.iter().any(Action::is_graph)
}
