use stepsim_core::fold::demands::Demands;
use stepsim_core::fold::folds::*;
use stepsim_core::fold::{FoldedWorld, fold};
use stepsim_core::ids::{ProgramId, RankId, TransferId};
use stepsim_core::program::{
    Action, Edit, Flow, MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, OpInfo, Phase, Program,
    ProgramBuilder, Rank, Resource, Span, StreamKind, Work, World,
};
use stepsim_core::units::{Bandwidth, Bytes, Time};

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
        ("another profile", other(&|w| w.comms.set_profiles([(0, 1)].into_iter()))),
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
