//! Folding is exact: every span of every rank of a folded run equals the unfolded run's, to the picosecond.

mod cluster;

use std::collections::{BTreeMap, BTreeSet};

use cluster::{Fidelity, Kind, Layout};
use proptest::prelude::*;
use stepsim_core::engine;
use stepsim_core::fold::{FoldedWorld, fold};
use stepsim_core::ids::{CommId, OpId, RankId, TierId, TransferId};
use stepsim_core::program::{
    Action, Flow, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, Span, StreamKind, Work, World,
};
use stepsim_core::units::{Bandwidth, Time};

/// A job on 8 × 2 devices without anything uneven: TP 2 × DP 4 × PP 2.
fn even() -> Layout {
    Layout {
        tp: 2,
        cp: 1,
        dp: 4,
        pp: 2,
        gpus_per_node: 2,
        gpus_per_nic: 2,
        nodes_per_leaf: 2,
        layers: 3,
        micro_batches: 2,
        data_as_tensor: false,
        unused_slots: false,
        fidelity: [Fidelity::Phases; 6],
        device_layers: 2,
        host_layers: 1000,
        slow_nic: None,
        slow_rank: None,
        jitter_period: None,
        slowdown: 0,
        memory_gbps: 0,
        ties: false,
        seed: 1,
    }
}

#[test]
fn replicas_merge_and_stages_do_not() {
    let folded = fold(&even().world());
    assert_eq!(folded.ranks.len(), 2);
    assert_eq!(folded.ranks.size, [8, 8]);
    assert_eq!(folded.world.programs().len(), 2);
    assert_eq!(folded.source(RankId(5)), folded.source(RankId(0)));
    assert_eq!(folded.representative(folded.source(RankId(13))), RankId(8));
}

#[test]
fn one_slow_link_or_rank_splits_what_it_touches_and_no_more() {
    let slow_rank = fold(&Layout { slow_rank: Some(3), ..even() }.world());
    assert_eq!(slow_rank.size(slow_rank.source(RankId(3))), 1);
    assert!(slow_rank.ranks.len() > 2);
    // Tensor peers of the node with the slow NIC still share everything.
    let slow_nic = fold(&Layout { slow_nic: Some(0), ..even() }.world());
    assert_eq!(slow_nic.source(RankId(0)), slow_nic.source(RankId(1)));
    assert!(slow_nic.ranks.len() > 2);
    assert_ne!(slow_nic.source(RankId(0)), slow_nic.source(RankId(4)));
}

#[test]
fn ranks_that_may_compete_for_a_tier_do_not_merge() {
    let folded = fold(&Layout { host_layers: 2, ..even() }.world());
    assert_ne!(folded.source(RankId(0)), folded.source(RankId(1)));
    assert_eq!(folded.source(RankId(0)), folded.source(RankId(2)));
    let counts = |f: &FoldedWorld| f.world.tiers_of(RankId(0)).iter().map(|t| t.count).collect::<Vec<_>>();
    assert_eq!(counts(&folded), [1, 1]);
    // With room for all, the two devices of a host merge and count double on its memory.
    assert_eq!(counts(&fold(&even().world())), [1, 2]);
}

/// Crossings of each resource, by transfer and what its flows are (latency, bytes, limit).
fn loads(world: &World) -> Vec<BTreeMap<(u32, [u64; 3]), u64>> {
    let mut loads = vec![BTreeMap::new(); world.resources().len()];
    for id in (0..world.comms().len() as u32).map(CommId) {
        for transfer in 0..2 {
            let flows =
                world.action_of(id, TransferId(transfer)).map_or(&[][..], |(action, _)| action.flows());
            for flow in flows {
                let what = [flow.latency.0, flow.bytes.to_bits(), flow.rate_limit.to_bits()];
                for &(resource, crossings) in world.path(id, flow.path) {
                    *loads[resource.index()].entry((transfer, what)).or_insert(0) += u64::from(crossings);
                }
            }
        }
    }
    loads
}

/// Four peers in a node that send the same in up to three rounds: what is left of them is one flow a round, however
/// many of them share a port.
#[test]
fn transfers_of_equal_peers_merge() {
    let flows = |world: &World| {
        let comms = (0..world.comms().len() as u32).map(CommId);
        let graphs = comms.filter_map(|c| match world.action_of(c, TransferId(0))?.0 {
            Action::Graph { flows, .. } => Some(flows.len()),
            _ => None,
        });
        graphs.collect::<Vec<_>>()
    };
    let mut rounds = BTreeSet::new();
    for seed in 0..20 {
        let mut layout = Layout { tp: 4, dp: 2, pp: 1, gpus_per_node: 4, seed, ..even() };
        layout.fidelity[Kind::Tensor as usize] = Fidelity::Graph;
        let world = layout.world();
        let (full, folded) = (flows(&world), flows(&fold(&world).world));
        assert_eq!((full.len(), folded.len()), (2, 1));
        assert!(full[0] % (4 * folded[0]) == 0, "{full:?} {folded:?}");
        rounds.insert(folded[0]);
    }
    assert_eq!(rounds, BTreeSet::from([1, 2, 3]));
}

/// Where a layout's quotient disagrees with what it folded, if anywhere.
fn check_quotient(world: &World) {
    let folded = fold(world);
    let (full_loads, folded_loads) = (loads(world), loads(&folded.world));
    for (r, load) in full_loads.iter().enumerate() {
        assert_eq!(*load, folded_loads[folded.resources.of[r] as usize], "load of resource {r}");
    }
    let users = |w: &World, t: TierId| -> u32 {
        let uses = (0..w.ranks().len() as u32).flat_map(|r| w.tiers_of(RankId(r)));
        uses.filter(|u| u.tier == t).map(|u| u.count).sum()
    };
    for t in 0..world.tiers().len() {
        assert_eq!(
            users(world, TierId(t as u32)),
            users(&folded.world, TierId(folded.tiers.of[t])),
            "users of tier {t}"
        );
    }
    for (id, comm) in (0..).zip(folded.world.comms()) {
        let arrivals: usize = (0..folded.world.ranks().len() as u32)
            .map(|r| folded.world.slots_of(RankId(r)).iter().filter(|c| c.0 == id).count())
            .sum();
        assert_eq!(comm.needed as usize, arrivals, "every slot of a folded rank arrives once");
    }
}

/// A transfer on links that are alike but for how often its only path crosses them: not at all, once, twice.
#[test]
fn links_that_transfers_cross_unequally_stay_apart() {
    let mut world = World::default();
    let links = [(); 3].map(|()| world.add_resource(Bandwidth(1e9)));
    let flow = Flow { latency: Time::ZERO, bytes: 100.0, rate_limit: f64::INFINITY, path: 0 };
    let graph = Action::Graph { flows: vec![flow], parents: vec![Span::default()], parent_ids: vec![] };
    let action = world.add_action(graph);
    world.add_profile([action]);
    let mut b = ProgramBuilder::new();
    b.info(OpInfo::of("transfer", Phase::Forward, 0.0));
    let stream = b.stream(StreamKind::Data);
    b.op(stream, Work::Comm { slot: 0, transfer: TransferId(0) }, &[], 0, NO_MICRO_BATCH);
    let program = world.add_program(b.finish());
    let rank = world.add_rank(program, 1);
    let comm = world.add_comm(0, &[rank], &[&[(links[1], 1), (links[2], 2)]]);
    world.bind(rank, 0, comm);
    assert_eq!(fold(&world).resources.len(), 3);
    check_quotient(&world);
}

fn fidelity() -> impl Strategy<Value = Fidelity> {
    prop_oneof![Just(Fidelity::Fixed), Just(Fidelity::Phases), Just(Fidelity::Graph)]
}

prop_compose! {
    /// Layouts of up to 48 ranks, most of them symmetric, some with one thing broken.
    fn layouts()(
        (tp, cp, dp, pp) in (1u32..5, prop_oneof![3 => Just(1u32), 1 => 2u32..4], 1u32..5, 1u32..4)
            .prop_filter("small", |(tp, cp, dp, pp)| tp * cp * dp * pp <= 48),
        (gpus_per_node, gpus_per_nic, nodes_per_leaf) in (1u32..9, 1u32..5, 1u32..4),
        (layers, micro_batches) in (1u32..4, 1u32..4),
        fidelity in [fidelity(), fidelity(), fidelity(), fidelity(), fidelity(), fidelity()],
        device_layers in 1u64..4,
        host_layers in prop_oneof![Just(10_000u64), 2u64..12],
        slow_nic in prop::option::weighted(0.2, 0u32..8),
        slow_rank in prop::option::weighted(0.2, 0u32..48),
        jitter_period in prop::option::weighted(0.1, 2u64..5),
        slowdown in prop_oneof![Just(0u16), 1u16..400],
        memory_gbps in prop_oneof![Just(0u32), 20u32..60],
        ties in any::<bool>(),
        seed in any::<u64>(),
    ) -> Layout {
        Layout {
            tp, cp, dp, pp, gpus_per_node, gpus_per_nic, nodes_per_leaf, layers, micro_batches, fidelity,
            device_layers, host_layers, slow_nic, slow_rank, jitter_period, slowdown, memory_gbps, ties, seed,
            data_as_tensor: false, unused_slots: false,
        }
    }
}

/// Span by span, a folded run is the whole; and a run that cannot end well ends badly either way.
fn exact(layout: &Layout) {
    let world = layout.world();
    let folded = fold(&world);
    match (engine::run(&world), engine::run(&folded.world)) {
        (Ok(full), Ok(quotient)) => {
            for rank in (0..world.ranks().len() as u32).map(RankId) {
                for op in (0..world.program_of(rank).ops.len() as u32).map(OpId) {
                    let (is, should) = (quotient.span(folded.source(rank), op), full.span(rank, op));
                    assert_eq!(is, should, "{:?} {:?}: {} classes", rank, op, folded.ranks.len());
                }
            }
            assert_eq!(full.step_end, quotient.step_end);
        }
        (full, quotient) => {
            let name =
                |r: Result<_, engine::EngineError>| r.map(|_| ()).map_err(|e| std::mem::discriminant(&e));
            assert_eq!(name(full), name(quotient));
        }
    }
}

/// How many random clusters: `STEPSIM_CLUSTERS`, 100 unless said otherwise.
fn clusters() -> u32 {
    std::env::var("STEPSIM_CLUSTERS").map_or(100, |n| n.parse().expect("a number of clusters"))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: clusters(), ..ProptestConfig::default() })]

    #[test]
    fn folded_runs_are_exact(layout in layouts()) {
        exact(&layout);
    }

    #[test]
    fn quotients_keep_every_load(layout in layouts()) {
        check_quotient(&layout.world());
    }
}

/// A case that random layouts found: equal times, a full tier, several gathers at once.
#[test]
fn ties_at_a_full_tier_fold_exactly() {
    use cluster::Fidelity::{Fixed, Phases};
    exact(&Layout {
        tp: 3,
        cp: 3,
        pp: 1,
        gpus_per_nic: 1,
        nodes_per_leaf: 3,
        micro_batches: 1,
        fidelity: [Fixed, Fixed, Phases, Phases, Fixed, Fixed],
        device_layers: 1,
        host_layers: 3,
        slowdown: 1,
        ties: true,
        seed: 11895460022361585460,
        ..even()
    });
}
