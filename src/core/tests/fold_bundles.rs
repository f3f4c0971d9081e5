use proptest::prelude::*;
use stepsim_core::fold::{FoldedWorld, fold};
use stepsim_core::ids::{ProgramId, RankId, TransferId};
use stepsim_core::program::{
    Action, Comm, Edit, Flow, NO_MICRO_BATCH, ProgramBuilder, Span, StreamKind, Work, World,
};
use stepsim_core::units::{Bandwidth, Time};

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
        let bundles = stepsim_core::fold::bundles::Bundles::of(&world);
        prop_assert_eq!(bundles.count(), (replicas * stages) as usize);
        prop_assert!(bundles.size.iter().all(|size| *size == u32::from(chunks)));
    }
}
