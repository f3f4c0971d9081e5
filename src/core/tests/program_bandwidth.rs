use stepsim_core::ids::{ProgramId, RankId, TransferId};
use stepsim_core::program::{
    Action, Edit, Flow, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work, World,
};
use stepsim_core::units::{Bandwidth, Time};

/// A rank whose kernels of 100 ps move six tenths of what its memory of 1 TB/s can, and copies over links of as
/// many GB/s.
fn world(links: &[f64]) -> World {
    let mut b = ProgramBuilder::new();
    b.info(OpInfo::of("kernel", Phase::Forward, 60.0));
    let streams = [b.stream(StreamKind::Compute), b.stream(StreamKind::CopyIn)];
    b.op(streams[0], Work::Compute { time: Time(100) }, &[], 0, NO_MICRO_BATCH);
    b.op(streams[1], Work::Comm { slot: 0, transfer: TransferId(0) }, &[], 0, NO_MICRO_BATCH);
    let mut world = World::default();
    world.add_program(b.finish());
    let rank = world.add_rank(ProgramId(0), 1);
    let memory = world.add_resource(Bandwidth(1e12));
    world.set_memory(rank, &[(memory, 1)]);
    let flow = Flow { latency: Time::ZERO, bytes: 1.0, rate_limit: f64::INFINITY, path: 0 };
    let action = world.add_action(Action::Phases(vec![flow]));
    let profile = world.add_profile([action]);
    for gbps in links {
        let link = world.add_resource(Bandwidth(1e9 * gbps));
        // Two ways of one copy; it takes one at a time.
        world.add_comm(profile, &[rank], &[&[(memory, 1), (link, 1)], &[(memory, 1), (link, 2)]]);
    }
    world
}

#[test]
fn kernels_feel_what_can_fill_their_memory() {
    let felt = |world: &World| world.felt_by_kernels()[0];
    assert!(!felt(&world(&[])) && !felt(&world(&[300.0])) && !felt(&world(&[200.0, 100.0, 50.0])));
    assert!(felt(&world(&[401.0])) && felt(&world(&[200.0, 100.0, 101.0])));
    // Quick kernels ask for more; slow ones are not told from others.
    let edited = |edit| {
        let mut world = world(&[300.0]);
        world.edit(&edit);
        world
    };
    assert!(felt(&edited(Edit::SlowRank(RankId(0), 0.8))) && !felt(&edited(Edit::SlowRank(RankId(0), 2.0))));
    // A draw counts where ranks draw.
    let mut jitter = world(&[300.0]);
    jitter.set_jitter(vec![1.5, 0.8]);
    assert!(!felt(&jitter));
    jitter.set_jitter_seed(RankId(0), 1);
    assert!(felt(&jitter));
    // Of a graph, any number of flows may be under way.
    let mut graph = world(&[1.0]);
    graph.actions[0] = Action::Graph { flows: vec![], parents: vec![], parent_ids: vec![] };
    assert!(felt(&graph));
}
