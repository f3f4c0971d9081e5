use stepsim_core::ids::{CommId, ProgramId, RankId, ResourceId, TransferId};
use stepsim_core::program::{
    Action, Flow, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, Span, StreamKind, Work, World,
};
use stepsim_core::units::{Bandwidth, Time};

fn flow(bytes: f64, path: u32) -> Flow {
    Flow { latency: Time::ZERO, bytes, rate_limit: f64::INFINITY, path }
}

/// A kernel and a copy behind it on one rank.
fn sound() -> World {
    let mut b = ProgramBuilder::new();
    let info = OpInfo::of("op", Phase::Forward, 0.0);
    b.info(info);
    let (compute, copies) = (b.stream(StreamKind::Compute), b.stream(StreamKind::CopyIn));
    let first = b.op(compute, Work::Compute { time: Time(1) }, &[], 0, NO_MICRO_BATCH);
    let copy = Work::Comm { slot: 0, transfer: TransferId(0) };
    b.op(copies, copy, &[first], 0, NO_MICRO_BATCH);
    let mut world = World::default();
    let program = world.add_program(b.finish());
    let action = world.add_action(Action::Phases(vec![flow(10.0, 0)]));
    let profile = world.add_profile([action]);
    let link = world.add_resource(Bandwidth(1e9));
    let rank = world.add_rank(program, 1);
    let copy = world.add_comm(profile, &[rank], &[&[(link, 1)]]);
    world.bind(rank, 0, copy);
    world
}

/// The fault of a world made by hand is said with table, entry and reason.
#[test]
fn a_world_that_cannot_be_played_is_refused() {
    sound().validate().unwrap();
    type Edit = (&'static str, fn(&mut World));
    let edits: [Edit; 17] = [
        ("ranks[0]: its program uses communicator slot 0, and it has 0", |w| w.ranks[0].slots.len = 0),
        ("ranks[0]: its communicator slot 0 is bound to none", |w| w.slots[0] = CommId(u32::MAX)),
        ("ranks[0]: span 4294967295..4294967296 of slots, which has 1 entries", |w| {
            w.ranks[0].slots.start = u32::MAX
        }),
        ("ranks[0]: program 3 of 1", |w| w.ranks[0].program = ProgramId(3)),
        ("ranks[0]: a slowness of NaN", |w| w.ranks[0].slowness = f64::NAN),
        ("ranks[0]: span 5..6 of uses, which has 1 entries", |w| {
            w.ranks[0].memory = Span { start: 5, len: 1 }
        }),
        ("resources[0]: a capacity of 0 bytes/s", |w| w.resources[0].capacity = Bandwidth(0.0)),
        ("resources[0]: a capacity of inf bytes/s", |w| w.resources[0].capacity = Bandwidth(f64::INFINITY)),
        ("uses[0]: resource 7 of 1", |w| w.uses[0].0 = ResourceId(7)),
        ("uses[0]: crosses its resource 0 times", |w| w.uses[0].1 = 0),
        ("paths[0]: span 0..9 of uses", |w| w.paths[0].len = 9),
        ("members[0]: rank 9 of 1", |w| w.members[0] = RankId(9)),
        ("comms[0]: profile 5 of 1", |w| w.comms.set_profiles([(0, 5)].into_iter())),
        ("comms[0]: its profile 0 uses path 4", |w| w.actions[0] = Action::Phases(vec![flow(1.0, 4)])),
        ("actions[0]: flow 0 has NaN bytes", |w| w.actions[0] = Action::Phases(vec![flow(f64::NAN, 0)])),
        ("profiles[0]: action 1 of 1", |w| w.profiles[0][0] = 1),
        ("programs[0].ops[1]: span 0..8 of waits", |w| {
            std::sync::Arc::make_mut(&mut w.programs[0]).ops[1].waits.len = 8;
        }),
    ];
    for (text, edit) in edits {
        let mut world = sound();
        edit(&mut world);
        let error = world.validate().unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    }
    let mut late = sound();
    late.actions[0] = Action::Graph {
        flows: vec![flow(1.0, 0)],
        parents: vec![Span { start: 0, len: 1 }],
        parent_ids: vec![0],
    };
    let error = late.validate().unwrap_err().to_string();
    assert_eq!(error, "actions[0]: flow 0 follows flow 0, which does not stand before it");
}
