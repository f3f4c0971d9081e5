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
pub struct Folds(Mutex<Option<Arc<FoldedTables>>>);

/// A world that was folded.
#[derive(Debug)]
struct FoldedTables {
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
    fn serves(&self, world: &World, demands: &Demands) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fold::fold;
    use crate::ids::{ProgramId, RankId, TransferId};
    use crate::program::{
        Edit, Flow, MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, OpInfo, Phase, Program,
        ProgramBuilder, Rank, Resource, Span, StreamKind, Work,
    };
    use crate::units::{Bandwidth, Bytes, Time};

    /// A kernel that takes and moves bytes, and an op on one of two slots.
    fn program(time: u64, takes: u64, moves: f64, slot: u16) -> Program {
        let mut b = ProgramBuilder::new();
        b.info(OpInfo::of("kernel", Phase::Forward, moves));
        let streams = [b.stream(StreamKind::Compute), b.stream(StreamKind::Data)];
        let kernel = b.op(streams[0], Work::Compute { time: Time(time) }, &[], 0, NO_MICRO_BATCH);
        let (when, class) = (MemoryWhen::AllocAtStart, MemoryClass::Weights);
        b.memory(kernel, MemoryEffect { when, class, tier: 0, bytes: takes });
        b.op(streams[1], Work::Comm { slot, transfer: TransferId(0) }, &[kernel], 0, NO_MICRO_BATCH);
        b.finish()
    }

    /// Two pairs of ranks that share a link each; all four share a tier and the bandwidth of a memory.
    fn pairs(program: Program) -> World {
        let mut world = World::default();
        world.add_program(program);
        let flow = |bytes| Flow { latency: Time::ZERO, bytes, rate_limit: f64::INFINITY, path: 0 };
        let actions = [1e3, 2e3].map(|bytes| world.add_action(Action::Phases(vec![flow(bytes)])));
        let profiles = actions.map(|action| world.add_profile([action]));
        let memory = world.add_resource(Bandwidth(1e12));
        let hbm = world.add_tier("hbm", Bytes(100));
        let ranks: Vec<RankId> = (0..4).map(|_| world.add_rank(ProgramId(0), 2)).collect();
        for rank in &ranks {
            world.set_tiers(*rank, &[hbm]);
            world.set_memory(*rank, &[(memory, 1)]);
        }
        for pair in ranks.chunks(2) {
            let link = world.add_resource(Bandwidth(1e9));
            for (slot, profile) in (0..).zip(profiles) {
                let comm = world.add_comm(profile, pair, &[&[(link, 1)]]);
                pair.iter().for_each(|rank| world.bind(*rank, slot, comm));
            }
        }
        world
    }

    fn told(folded: &FoldedWorld) -> String {
        format!("{folded:?}")
    }

    /// The fold of the world before is taken where it must come to the same, and nowhere else.
    #[test]
    fn only_worlds_that_fold_alike_are_folded_by_what_is_remembered() {
        let usual = || pairs(program(1000, 1, 1.0, 0));
        let other = |change: &dyn Fn(&mut World)| {
            let mut world = usual();
            change(&mut world);
            world
        };
        // Two flows that fold to one, on a path that then stands for two.
        let flow = Flow { latency: Time::ZERO, bytes: 1.0, rate_limit: f64::INFINITY, path: 0 };
        let graph =
            || Action::Graph { flows: vec![flow; 2], parents: vec![Span::default(); 2], parent_ids: vec![] };
        let alike = [
            pairs(program(2000, 2, 2.0, 0)),
            other(&|w| w.actions[0] = Action::Fixed(Time(7))),
            other(&|w| w.profiles[0] = vec![1]),
        ];
        let unlike = [
            ("another slot is used", pairs(program(1000, 1, 1.0, 1))),
            ("a tier may fill", pairs(program(1000, 26, 1.0, 0))),
            ("kernels feel their memory", pairs(program(1000, 1, 1e3, 0))),
            ("a slow rank", other(&|w| w.edit(&Edit::SlowRank(RankId(1), 2.0)))),
            ("a seed", other(&|w| w.ranks[2] = Rank { jitter_seed: 1, ..w.ranks[2] })),
            ("jitter", other(&|w| w.jitter = vec![1.5])),
            ("other slots", other(&|w| w.slots.swap(0, 1))),
            ("a use that stands for two", other(&|w| w.tier_uses[0].count = 2)),
            (
                "another profile",
                other(&|w| w.comms.set(0, crate::program::Comm { profile: 1, ..w.comms[0] })),
            ),
            ("other members", other(&|w| w.members.swap(0, 1))),
            ("another path", other(&|w| w.paths.swap(0, 2))),
            ("a link crossed twice", other(&|w| w.uses[4].1 = 2)),
            ("a slow link", other(&|w| w.resources[1] = Resource { capacity: Bandwidth(5e8) })),
            ("a larger tier", other(&|w| w.tiers[0].capacity = Bytes(200))),
            ("flows in a graph", other(&|w| w.actions[0] = graph())),
        ];
        let first = usual();
        let folds = Folds::default();
        let remember = |world: &World| {
            let folded = folds.fold(world);
            assert_eq!(told(&folded), told(&fold(world)));
            folds.0.lock().expect("no panic").clone().expect("something to remember")
        };
        for world in &alike {
            let last = remember(&first);
            assert!(last.serves(world, &Demands::of(world)));
            remember(world);
        }
        for (what, world) in &unlike {
            let last = remember(&first);
            assert!(!last.serves(world, &Demands::of(world)), "{what}");
            assert_eq!(told(&folds.fold(world)), told(&fold(world)), "{what}");
            assert_eq!(told(&folds.fold(&first)), told(&fold(&first)), "behind {what}");
        }
    }
}
