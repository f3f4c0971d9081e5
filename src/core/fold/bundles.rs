//! Communicators that share their tables: of the same ranks on the same paths, in one vertex.
//!
//! A pipeline with many chunks has a channel for each pair of virtual stages and direction, and all channels from one
//! rank to another are what the first is, but for the slots through which the two ranks use them. The n-th
//! communicator of a bundle is met through the same slots, and crosses the same resources, wherever bundles are alike:
//! so a partition in which bundles take the place of their communicators is stable if and only if the partition of the
//! communicators is, each told apart by the class of its bundle and its number in it.

use super::Classes;
use crate::program::World;

/// The bundles of a world's communicators: one for each that is written.
#[derive(Debug)]
pub(super) struct Bundles<'w> {
    /// By communicator: its bundle, and its number in it.
    pub of: &'w [u32],
    pub twin: Vec<u32>,
    /// By bundle: its first communicator, and how many there are.
    pub first: Vec<u32>,
    pub size: Vec<u32>,
}

impl<'w> Bundles<'w> {
    /// Those of a world. Communicators that play graphs of flows have paths of their own colours and stand alone.
    pub fn of(world: &'w World) -> Bundles<'w> {
        let of = world.comms.entry();
        let bundles = world.comms.entries().len();
        let (mut first, mut size) = (vec![0; bundles], vec![0; bundles]);
        let twins = (0..).zip(of).map(|(c, bundle)| {
            let size = &mut size[*bundle as usize];
            if *size == 0 {
                first[*bundle as usize] = c;
            }
            *size += 1;
            *size - 1
        });
        Bundles { twin: twins.collect(), of, first, size }
    }

    /// Number of bundles.
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// True if none has more than one communicator.
    pub fn alone(&self) -> bool {
        self.size.iter().all(|size| *size <= 1)
    }

    /// The classes of communicators, numbered by their first ones, from the classes of the bundles (`colours`: colours
    /// below which they are); and for each bundle the classes of its communicators.
    pub fn classes(&self, of_bundles: &[u32], colours: usize) -> (Classes, Twins) {
        let bundles = Classes::of_colouring(of_bundles, colours);
        let mut twins = Twins { first: vec![0], class: Vec::new(), of: bundles.of };
        for bundle in bundles.representative {
            twins.class.resize(twins.class.len() + self.size[bundle as usize] as usize, u32::MAX);
            twins.first.push(twins.class.len() as u32);
        }
        let mut classes = Classes { of: Vec::with_capacity(self.of.len()), ..Classes::default() };
        for (bundle, twin) in self.of.iter().zip(&self.twin) {
            let at = twins.range(*bundle).start + *twin as usize;
            classes.add(&mut twins.class[at]);
        }
        (classes, twins)
    }
}

/// The classes of the communicators of each bundle.
pub(super) struct Twins {
    /// By bundle: its class.
    of: Vec<u32>,
    /// By class of bundles: where its communicators begin in `class`.
    first: Vec<u32>,
    class: Vec<u32>,
}

impl Twins {
    fn range(&self, bundle: u32) -> std::ops::Range<usize> {
        let class = self.of[bundle as usize] as usize;
        self.first[class] as usize..self.first[class + 1] as usize
    }
    /// The classes of the communicators of a bundle, in order.
    pub fn of(&self, bundle: u32) -> &[u32] {
        &self.class[self.range(bundle)]
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use crate::fold::{FoldedWorld, fold};
    use crate::ids::{ProgramId, RankId, TransferId};
    use crate::program::{
        Action, Comm, Edit, Flow, NO_MICRO_BATCH, ProgramBuilder, Span, StreamKind, Work, World,
    };
    use crate::units::{Bandwidth, Time};

    /// Replicas of a ring of stages, `chunks` channels from each stage to the next, and one link for each of them.
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
        let comms = world.comms.iter().map(|comm| {
            let members = Span { start: own.members.len() as u32, ..comm.members };
            let paths = Span { start: own.paths.len() as u32, ..comm.paths };
            own.members.extend_from_slice(&world.members[comm.members.range()]);
            own.paths.extend_from_slice(&world.paths[comm.paths.range()]);
            Comm { members, paths, ..*comm }
        });
        own.comms = comms.collect();
        own
    }

    fn told(folded: &FoldedWorld) -> String {
        let FoldedWorld { world: w, ranks, comms, resources, tiers } = folded;
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
            prop_assert_eq!(bundles.len(), (replicas * stages) as usize);
            prop_assert!(bundles.size.iter().all(|size| *size == u32::from(chunks)));
        }
    }
}
