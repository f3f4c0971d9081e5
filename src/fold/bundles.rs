//! Communicators that share their tables: of the same ranks on the same paths, in one vertex.
//!
//! A pipeline with many chunks has a channel for each pair of virtual stages and direction, and all those from one rank to
//! another are what the first is, but for the slots through which the two ranks use them. The n-th communicator of a bundle
//! is met through the same slots, and crosses the same resources, wherever bundles are alike: so a partition in which
//! bundles take the place of their communicators is stable if and only if that of the communicators is, each told apart by the
//! class of its bundle and its number in it.

use rustc_hash::FxHashMap;

use super::Classes;
use super::ways::graphs;
use crate::program::World;

/// The bundles of a world's communicators.
#[derive(Debug, Default)]
pub(super) struct Bundles {
    /// By communicator: its bundle, and its number in it.
    pub of: Vec<u32>,
    pub twin: Vec<u32>,
    /// By bundle: its first communicator, and how many there are.
    pub first: Vec<u32>,
    pub size: Vec<u32>,
}

impl Bundles {
    /// Those of a world. Communicators that play graphs of flows have paths of their own colours and stand alone.
    pub fn of(world: &World) -> Bundles {
        const NONE: u32 = u32::MAX;
        let graphs = graphs(world);
        let mut bundles = Bundles {
            of: Vec::with_capacity(world.comms.len()),
            twin: Vec::with_capacity(world.comms.len()),
            ..Bundles::default()
        };
        // By place in the table of members, where lists of their own begin at places of their own.
        let mut at = vec![NONE; world.members.len()];
        for (c, comm) in (0..).zip(&world.comms) {
            let alone =
                comm.members.len == 0 || graphs.get(comm.profile as usize).is_some_and(|graph| *graph);
            let known = at.get(comm.members.start as usize).copied().filter(|_| !alone).unwrap_or(NONE);
            let same = |bundle: &u32| world.comms[bundles.first[*bundle as usize] as usize] == *comm;
            match Some(known).filter(|known| *known != NONE).filter(same) {
                Some(bundle) => {
                    bundles.of.push(bundle);
                    bundles.twin.push(bundles.size[bundle as usize]);
                    bundles.size[bundle as usize] += 1;
                }
                None => {
                    let bundle = bundles.first.len() as u32;
                    if let Some(at) = at.get_mut(comm.members.start as usize).filter(|_| !alone) {
                        *at = bundle;
                    }
                    bundles.of.push(bundle);
                    bundles.twin.push(0);
                    bundles.first.push(c);
                    bundles.size.push(1);
                }
            }
        }
        bundles
    }

    /// The classes of communicators, numbered by their first ones, those of the bundles being known; and for each class
    /// of bundles those of its communicators.
    pub fn classes(&self, of_bundles: &[u32]) -> (Classes, FxHashMap<u32, Vec<u32>>) {
        let mut own: FxHashMap<u32, Vec<u32>> = FxHashMap::default();
        let mut classes = Classes { of: Vec::with_capacity(self.of.len()), ..Classes::default() };
        for (c, (bundle, twin)) in (0..).zip(self.of.iter().zip(&self.twin)) {
            let own = own.entry(of_bundles[*bundle as usize]).or_default();
            // The communicators of a bundle come in the order of their numbers in it.
            if own.len() == *twin as usize {
                own.push(classes.len() as u32);
                classes.representative.push(c);
                classes.size.push(0);
            }
            let class = own[*twin as usize];
            classes.size[class as usize] += 1;
            classes.of.push(class);
        }
        (classes, own)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::fold::{Folded, fold};
    use crate::ids::{ProgramId, RankId, TransferId};
    use crate::program::{Action, Edit, Flow, NO_MICRO_BATCH, ProgramBuilder, Span, StreamKind, Work, World};
    use crate::units::{Bandwidth, Time};

    /// Replicas of a ring of stages, so many channels from each stage to the next, and one link for each of them.
    fn rings(replicas: u32, stages: u32, chunks: u16, wide: &[bool], slow: Option<u32>) -> World {
        let mut world = World::default();
        let mut b = ProgramBuilder::new();
        for slot in 0..2 * chunks {
            let stream = b.stream(StreamKind::PipelineSend);
            let work = Work::Comm { slot, transfer: TransferId(0) };
            b.op(stream, work, &[], 0, NO_MICRO_BATCH);
        }
        world.add_program(b.finish());
        let flow = Flow { latency: Time::ZERO, bytes: 1e3, rate_limit: f64::INFINITY, path: 0 };
        let action = world.add_action(Action::Phases(vec![flow]));
        let profile = world.add_profile([action]);
        for _ in 0..replicas * stages {
            world.add_rank(ProgramId(0), u32::from(2 * chunks));
        }
        for at in 0..replicas * stages {
            let (replica, stage) = (at / stages, at % stages);
            let next = replica * stages + (stage + 1) % stages;
            let capacity = if wide.get(at as usize).is_some_and(|wide| *wide) { 2e9 } else { 1e9 };
            let link = world.add_resource(Bandwidth(capacity));
            let first = world.add_comm(profile, &[RankId(at), RankId(next)], &[&[(link, 1)]]);
            for chunk in 0..chunks {
                let channel = if chunk == 0 { first } else { world.add_twin(first) };
                world.bind(RankId(at), chunk, channel);
                world.bind(RankId(next), chunks + chunk, channel);
            }
        }
        slow.into_iter().for_each(|rank| world.edit(&Edit::SlowRank(RankId(rank), 2.0)));
        world
    }

    /// The same world, every communicator with tables of its own.
    fn apart(world: &World) -> World {
        let mut own = world.clone();
        for comm in &mut own.comms {
            let members = own.members[comm.members.range()].to_vec();
            let paths = own.paths[comm.paths.range()].to_vec();
            comm.members = Span { start: own.members.len() as u32, len: members.len() as u32 };
            comm.paths = Span { start: own.paths.len() as u32, len: paths.len() as u32 };
            own.members.extend(members);
            own.paths.extend(paths);
        }
        own
    }

    fn told(folded: &Folded) -> String {
        let Folded { world: w, ranks, comms, resources, tiers } = folded;
        format!("{:?}", (ranks, comms, resources, tiers, &w.slots, &w.comms, &w.members, &w.paths, &w.uses))
    }

    proptest! {
        /// In one vertex or each in one of its own: the folded world is the same.
        #[test]
        fn channels_that_share_tables_fold_as_those_that_do_not(
            (replicas, stages, chunks) in (1u32..4, 2u32..5, 1u16..4),
            wide in prop::collection::vec(any::<bool>(), 0..12),
            slow in prop::option::of(0u32..8),
        ) {
            let world = rings(replicas, stages, chunks, &wide, slow);
            let folded = fold(&world);
            prop_assert_eq!(told(&folded), told(&fold(&apart(&world))));
            let bundles = super::Bundles::of(&world);
            prop_assert_eq!(bundles.first.len(), (replicas * stages) as usize);
            prop_assert!(bundles.size.iter().all(|size| *size == u32::from(chunks)));
        }
    }
}
