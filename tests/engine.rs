//! The engine on small worlds whose times are worked out by hand, and on random ones against the forward sweep and a
//! naive engine.

mod causes;
mod naive;
mod random;
mod turns;

use proptest::prelude::*;
use stepsim::core::engine::{self, EngineError, Record};
use stepsim::core::ids::{OpId, ProgramId, RankId, ResourceId, TransferId};
use stepsim::core::program::{
    Action, Flow, MemoryClass, MemoryEffect, MemoryWhen, OpInfo, Phase, ProgramBuilder, Span, StreamKind,
    StreamTraits, Work, World,
};
use stepsim::core::units::{Bandwidth, Bytes, Time};
use stepsim::simulate::jump::figures;
use stepsim::simulate::{Inputs, Options, Simulation};

fn info() -> OpInfo {
    OpInfo::of("op", Phase::Forward, 0.0)
}

fn builder() -> ProgramBuilder {
    let mut b = ProgramBuilder::new();
    b.info(OpInfo::of("op", Phase::Forward, 0.0));
    b
}

fn kernel(ns: u64) -> Work {
    Work::Compute { time: Time::from_ns(ns) }
}

fn comm(slot: u16, transfer: u32) -> Work {
    Work::Comm { slot, transfer: TransferId(transfer) }
}

fn flow(latency_ns: u64, bytes: f64, path: u32) -> Flow {
    Flow { latency: Time::from_ns(latency_ns), bytes, rate_limit: f64::INFINITY, path }
}

/// A world of one profile that knows one action.
fn world_with(action: Action) -> World {
    let mut world = World::default();
    let action = world.add_action(action);
    world.add_profile([action]);
    world
}

/// A rank of this program, alone in a communicator of the first profile over these paths.
fn add_lone_rank(world: &mut World, b: ProgramBuilder, paths: &[&[(ResourceId, u32)]]) -> RankId {
    let program = world.add_program(b.finish());
    let rank = world.add_rank(program, 1);
    let own = world.add_comm(0, &[rank], paths);
    world.bind(rank, 0, own);
    rank
}

/// One copy a rank, each over its path on links of 1 byte per nanosecond; when each ends, in nanoseconds.
fn copies(links: usize, ops: &[(f64, &[(ResourceId, u32)])]) -> Vec<u64> {
    let mut world = World::default();
    for _ in 0..links {
        world.add_resource(Bandwidth(1e9));
    }
    for (i, (bytes, path)) in (0u32..).zip(ops) {
        let mut b = builder();
        let s = b.stream(StreamKind::CopyIn);
        b.op(s, comm(0, 0), &[], 0, 0);
        world.add_program(b.finish());
        let action = world.add_action(Action::Phases(vec![flow(0, *bytes, 0)]));
        world.add_profile([action]);
        let rank = world.add_rank(ProgramId(i), 1);
        let c = world.add_comm(i, &[rank], &[path]);
        world.bind(rank, 0, c);
    }
    engine::run(&world).unwrap().spans.iter().map(|(_, end)| end.0 / 1000).collect()
}

const A: (ResourceId, u32) = (ResourceId(0), 1);
const B: (ResourceId, u32) = (ResourceId(1), 1);

#[test]
fn copies_on_different_links_overlap_fully() {
    assert_eq!(copies(2, &[(100.0, &[A]), (100.0, &[B])]), [100, 100]);
}

#[test]
fn copies_on_one_link_share_it() {
    // Both run at half speed until the short one ends at 200; the long one has 200 left and the link to itself.
    assert_eq!(copies(1, &[(100.0, &[A]), (300.0, &[A])]), [200, 400]);
}

#[test]
fn who_crosses_twice_takes_twice() {
    // Loads 2 + 1 on a link of 1: level 1/3 for both.
    assert_eq!(copies(1, &[(100.0, &[(ResourceId(0), 2)]), (100.0, &[A])]), [300, 300]);
}

/// Rank 0 computes 50 ns, then sends; rank 1 receives, then computes 10 ns. The link carries 1 byte per nanosecond.
fn send_recv(action: Action) -> Record {
    let mut world = world_with(action);
    let link = world.add_resource(Bandwidth(1e9));
    let mut b = builder();
    let (c, s) = (b.stream(StreamKind::Compute), b.stream(StreamKind::PipelineSend));
    let f = b.op(c, kernel(50), &[], 0, 0);
    b.op(s, comm(0, 0), &[f], 0, 0);
    world.add_program(b.finish());
    let mut b = builder();
    let (c, s) = (b.stream(StreamKind::Compute), b.stream(StreamKind::PipelineRecv));
    let r = b.op(s, comm(0, 0), &[], 0, 0);
    b.op(c, kernel(10), &[r], 0, 0);
    world.add_program(b.finish());
    let ranks = [world.add_rank(ProgramId(0), 1), world.add_rank(ProgramId(1), 1)];
    let channel = world.add_comm(0, &ranks, &[&[(link, 1)]]);
    ranks.iter().for_each(|r| world.bind(*r, 0, channel));
    engine::run(&world).unwrap()
}

#[test]
fn a_receive_starts_when_the_sender_arrives_and_wakes_its_consumer() {
    let record = send_recv(Action::Phases(vec![flow(5, 20.0, 0)]));
    assert_eq!(record.span(RankId(1), OpId(0)), (Time::from_ns(50), Time::from_ns(75)));
    assert_eq!(record.span(RankId(1), OpId(1)), (Time::from_ns(75), Time::from_ns(85)));
    assert_eq!(record.step_end, Time::from_ns(85));
}

#[test]
fn a_graph_of_flows_follows_its_dependencies() {
    // 0 → 1, 0 → 2, {1, 2} → 3 on one link: 1 + 10, then two that share: 1 + 20, then 1 + 10.
    let flows = vec![flow(1, 10.0, 0); 4];
    let parents = [(0, 0), (0, 1), (1, 1), (2, 2)].map(|(start, len)| Span { start, len }).to_vec();
    let record = send_recv(Action::Graph { flows, parents, parent_ids: vec![0, 0, 1, 2] });
    assert_eq!(record.span(RankId(0), OpId(1)).1, Time::from_ns(50 + 11 + 21 + 11));
}

#[test]
fn a_kernel_slows_down_while_a_communication_kernel_runs() {
    let mut world = world_with(Action::Fixed(Time::from_ns(50)));
    let mut b = builder();
    let (c, d) = (b.stream(StreamKind::Compute), b.stream(StreamKind::Data));
    let host = b.stream(StreamKind::Host);
    let gate = b.op(host, kernel(20), &[], 0, 0);
    let slowed = b.op(c, kernel(100), &[], 0, 0);
    b.slowdown(slowed, 250);
    b.op(d, comm(0, 0), &[gate], 0, 0);
    let rank = add_lone_rank(&mut world, b, &[]);
    // 20 alone; 50 beside the collective make 40 of progress; 40 are left: 20 + 50 + 40.
    assert_eq!(engine::run(&world).unwrap().span(rank, slowed).1, Time::from_ns(110));
}

#[test]
fn a_copy_and_a_kernel_share_device_memory() {
    // A kernel of 100 ns that moves 8 B/ns on a memory of 10 B/ns; from 20 ns on, a copy of 100 bytes on a link of 6.
    // Together they ask 14: each gets 5. The copy takes 20 ns, in which the kernel advances 12.5; then it has 67.5
    // left.
    let mut world = world_with(Action::Phases(vec![flow(0, 100.0, 0)]));
    let (memory, link) = (world.add_resource(Bandwidth(10e9)), world.add_resource(Bandwidth(6e9)));
    let mut b = builder();
    let (c, h, host) =
        (b.stream(StreamKind::Compute), b.stream(StreamKind::CopyIn), b.stream(StreamKind::Host));
    let moves = OpInfo { bytes: 800.0, ..info() };
    let moves = b.info(moves);
    let gate = b.op(host, kernel(20), &[], 0, 0);
    let slowed = b.op(c, kernel(100), &[], moves, 0);
    let copy = b.op(h, comm(0, 0), &[gate], 0, 0);
    let rank = add_lone_rank(&mut world, b, &[&[(link, 1), (memory, 1)]]);
    let alone = engine::run(&world).unwrap();
    assert_eq!(alone.span(rank, slowed).1, Time::from_ns(100), "a memory that the rank does not know");
    world.set_memory(rank, &[(memory, 1)]);
    let shared = engine::run(&world).unwrap();
    assert_eq!(shared.span(rank, copy), (Time::from_ns(20), Time::from_ns(40)));
    assert_eq!(shared.span(rank, slowed), (Time::ZERO, Time(107_500)));
    assert_eq!(shared.slowed_by_memory, [Time(7_500)]);
}

#[test]
fn communication_kernels_take_units_together() {
    // An action of 50 ns with twice the usual units on one communicator, with the usual ones on another from 30 ns on.
    let mut world = World::default();
    let twice = world.add_action_taking(Action::Fixed(Time::from_ns(50)), 2000);
    let usual = world.add_action(Action::Fixed(Time::from_ns(60)));
    [twice, usual].into_iter().for_each(|action| {
        world.add_profile([action]);
    });
    let mut b = builder();
    let (c, d, t) = (b.stream(StreamKind::Compute), b.stream(StreamKind::Data), b.stream(StreamKind::Tensor));
    let host = b.stream(StreamKind::Host);
    let gate = b.op(host, kernel(30), &[], 0, 0);
    let slowed = b.op(c, kernel(100), &[], 0, 0);
    b.slowdown(slowed, 250);
    b.op(d, comm(0, 0), &[], 0, 0);
    b.op(t, comm(1, 0), &[gate], 0, 0);
    world.add_program(b.finish());
    let rank = world.add_rank(ProgramId(0), 2);
    for profile in [0, 1] {
        let comm = world.add_comm(profile, &[rank], &[]);
        world.bind(rank, profile as u16, comm);
    }
    // 30 ns at 1/1.5: 20 of progress. 20 ns at 1/1.75: 11.43. 40 ns at 1/1.25: 32. Then 36.57 are left alone.
    let end = engine::run(&world).unwrap().span(rank, slowed).1;
    assert!((end.s() - (90.0 + 100.0 - 20.0 - 20.0 / 1.75 - 32.0) * 1e-9).abs() < 3e-12, "{end:?}");
}

/// Two ranks of one program, each with kernels of 100 and 90 ns at once. Beside the rank's collective, from 20 to 70
/// ns, one goes at half its pace and the other at four fifths: 25 and 40 ns of them are done there.
#[test]
fn ranks_of_a_program_have_running_kernels_of_their_own() {
    let mut world = world_with(Action::Fixed(Time::from_ns(50)));
    let mut b = builder();
    let (host, d) = (b.stream(StreamKind::Host), b.stream(StreamKind::Data));
    let gate = b.op(host, kernel(20), &[], 0, 0);
    let slowed = [(100, 1000), (90, 250)].map(|(time, slowdown)| {
        let stream = b.stream(StreamKind::Compute);
        let op = b.op(stream, kernel(time), &[], 0, 0);
        b.slowdown(op, slowdown);
        op
    });
    b.op(d, comm(0, 0), &[gate], 0, 0);
    world.add_program(b.finish());
    let ranks = [0, 1].map(|_| world.add_rank(ProgramId(0), 1));
    for rank in ranks {
        let own = world.add_comm(0, &[rank], &[]);
        world.bind(rank, 0, own);
    }
    let record = engine::run(&world).unwrap();
    let ends = |rank| slowed.map(|op| record.span(rank, op).1.0 / 1000);
    assert_eq!(ranks.map(ends), [[125, 100]; 2]);
}

#[test]
fn communication_that_starts_at_once_finds_streams_that_have_not_begun() {
    // The collective's stream comes first; behind it a stream whose kernel is to be slowed down, and one without ops.
    let mut world = world_with(Action::Fixed(Time::from_ns(50)));
    let mut b = builder();
    let (d, c) = (b.stream(StreamKind::Data), b.stream(StreamKind::Compute));
    b.stream(StreamKind::Compute);
    b.op(d, comm(0, 0), &[], 0, 0);
    let slowed = b.op(c, kernel(100), &[], 0, 0);
    b.slowdown(slowed, 250);
    let rank = add_lone_rank(&mut world, b, &[]);
    let record = engine::run(&world).unwrap();
    assert_eq!(record.span(rank, slowed), (Time::ZERO, Time::from_ns(110)));
    assert_eq!(record.step_end, Time::from_ns(110));
}

/// The spans of a run that is told op by op, in the order of their ends.
struct InOrder {
    spans: Vec<Vec<(Time, Time)>>,
    last: Time,
}

impl engine::Observer for InOrder {
    fn finished(&mut self, rank: u32, op: u32, start: Time, end: Time) {
        assert!(
            end >= self.last,
            "an op that ends at {end:?} is told behind one that ends at {:?}",
            self.last
        );
        self.last = end;
        self.spans[rank as usize][op as usize] = (start, end);
    }
}

/// What an observer that wants order is told, and how many completions there were.
fn told_in_order(world: &World) -> (Vec<(Time, Time)>, u64) {
    let ops = |rank: &stepsim::core::program::Rank| world.programs()[rank.program.index()].ops.len();
    let spans = world.ranks().iter().map(|rank| vec![(Time::ZERO, Time::ZERO); ops(rank)]).collect();
    let mut told = InOrder { spans, last: Time::ZERO };
    let events = engine::run_observed(world, &mut told).expect("a run").events;
    (told.spans.concat(), events)
}

/// Three kernels of 100 ns in a row, the second of which is twice as long beside a collective from 150 ns on, for 100
/// ns. Another row is told as it was foretold.
#[test]
fn a_row_of_kernels_ends_where_units_are_taken() {
    let mut world = world_with(Action::Fixed(Time::from_ns(100)));
    let mut b = builder();
    let (c, d) = (b.stream(StreamKind::Compute), b.stream(StreamKind::Data));
    let host = b.stream(StreamKind::Host);
    let gate = b.op(host, kernel(150), &[], 0, 0);
    let row = [0, 1, 2].map(|_| b.op(c, kernel(100), &[], 0, 0));
    b.slowdown(row[1], 1000);
    b.op(d, comm(0, 0), &[gate], 0, 0);
    let other = [0, 1].map(|_| b.op(host, kernel(40), &[], 0, 0));
    let rank = add_lone_rank(&mut world, b, &[]);
    let record = engine::run(&world).unwrap();
    let spans = |ops: &[OpId]| -> Vec<_> {
        ops.iter()
            .map(|op| record.span(rank, *op))
            .map(|(start, end)| (start.0 / 1000, end.0 / 1000))
            .collect()
    };
    assert_eq!(spans(&row), [(0, 100), (100, 250), (250, 350)]);
    assert_eq!(spans(&other), [(150, 190), (190, 230)]);
    assert_eq!(told_in_order(&world), (record.spans, record.events));
}

/// 140,000 kernels of a nanosecond in a row, more than one event ends: each starts where the one before it ends.
/// Where they mind a collective, the one beside it takes twice as long, and those behind it are a nanosecond late.
#[test]
fn a_row_of_more_kernels_than_one_event_ends_goes_on() {
    for slowdown in [0, 1000] {
        let mut world = world_with(Action::Fixed(Time::from_ns(2)));
        let mut b = builder();
        let [c, d, host] =
            [StreamKind::Compute, StreamKind::Data, StreamKind::Host].map(|kind| b.stream(kind));
        for _ in 0..140_000 {
            let op = b.op(c, kernel(1), &[], 0, 0);
            b.slowdown(op, slowdown);
        }
        let gate = b.op(host, kernel(100_000), &[], 0, 0);
        b.op(d, comm(0, 0), &[gate], 0, 0);
        let rank = add_lone_rank(&mut world, b, &[]);
        let record = engine::run(&world).unwrap();
        let end_of = |kernels: u64| Time::from_ns(kernels + u64::from(slowdown > 0 && kernels > 100_000));
        for (op, before) in (0..140_000).zip(0..) {
            let span = record.span(rank, OpId(op));
            assert_eq!(span, (end_of(before), end_of(before + 1)), "kernel {op}, slower by {slowdown}");
        }
        // The end of each op, in a row or not, and of none twice.
        assert_eq!(record.events, 140_002);
    }
}

/// Others see the ends of a stream 5 ns late; what waits on the stream itself, alone or beside other waits, goes on
/// at once.
#[test]
fn a_stream_that_others_see_late_sees_itself_at_once() {
    let mut b = builder();
    let [host, c] = [StreamKind::Host, StreamKind::Compute].map(|kind| b.stream(kind));
    b.latency(host, Time::from_ns(5));
    let first = b.op(host, kernel(10), &[], 0, 0);
    let others = [0, 1].map(|_| b.op(c, kernel(1), &[first], 0, 0));
    let second = b.op(host, kernel(10), &[first], 0, 0);
    b.op(host, kernel(10), &[others[0], others[1], second], 0, 0);
    let mut world = World::default();
    world.add_program(b.finish());
    world.add_rank(ProgramId(0), 0);
    let record = engine::run(&world).unwrap();
    let spans: Vec<_> = record.spans.iter().map(|(start, end)| (start.0 / 1000, end.0 / 1000)).collect();
    assert_eq!(spans, [(0, 10), (15, 16), (16, 17), (10, 20), (20, 30)]);
}

/// Two ranks run kernels of 100 and 100 ns, then a collective of 10 ns that alone waits for them, then a kernel of 50
/// ns. From 150 ns on a collective of rank 0 alone halves the pace of its kernels for 50 ns: it comes 25 ns late to
/// the other one.
#[test]
fn who_is_slowed_on_the_way_to_a_collective_comes_later() {
    let mut world = World::default();
    for time in [10, 50] {
        let action = world.add_action(Action::Fixed(Time::from_ns(time)));
        world.add_profile([action]);
    }
    for beside in [true, false] {
        let mut b = builder();
        let [c, t, d] =
            [StreamKind::Compute, StreamKind::Tensor, StreamKind::Data].map(|kind| b.stream(kind));
        let host = b.stream(StreamKind::Host);
        let row = [0, 1].map(|_| b.op(c, kernel(100), &[], 0, 0));
        row.iter().for_each(|op| b.slowdown(*op, 1000));
        let exposed = b.op(t, comm(0, 0), &[row[1]], 0, 0);
        b.op(c, kernel(50), &[exposed], 0, 0);
        let gate = b.op(host, kernel(150), &[], 0, 0);
        if beside {
            b.op(d, comm(1, 0), &[gate], 0, 0);
        }
        world.add_program(b.finish());
    }
    let ranks = [world.add_rank(ProgramId(0), 2), world.add_rank(ProgramId(1), 1)];
    let both = world.add_comm(0, &ranks, &[]);
    ranks.iter().for_each(|rank| world.bind(*rank, 0, both));
    let one = world.add_comm(1, &ranks[..1], &[]);
    world.bind(ranks[0], 1, one);
    let record = engine::run(&world).unwrap();
    let spans = |rank: RankId| {
        [0, 1, 2, 3].map(|op| record.span(rank, OpId(op))).map(|(a, b)| (a.0 / 1000, b.0 / 1000))
    };
    assert_eq!(spans(ranks[0]), [(0, 100), (100, 225), (225, 235), (235, 285)]);
    assert_eq!(spans(ranks[1]), [(0, 100), (100, 200), (225, 235), (235, 285)]);
    assert_eq!(told_in_order(&world), (record.spans, record.events));
}

/// What is played between two moments of one state is played again, as often as there are turns for it; hosts are then
/// ahead of their devices, at the end of their queues, or behind.
#[test]
fn turns_behind_a_state_that_recurs_are_played_as_before() {
    assert!(turns::recur(400) > 400, "few of both ways of telling states recur");
}

/// Worlds of `STEPSIM_WORLDS` seeds (3,000 unless said otherwise): every span within a nanosecond of the naive
/// engine's, and the same where ops are told in order, each kernel having an event of its own.
#[test]
fn random_worlds_are_played_as_the_naive_engine_plays_them() {
    let worlds = std::env::var("STEPSIM_WORLDS").map_or(3000, |n| n.parse().expect("a number of worlds"));
    let (mut ops, mut worst, mut felt, mut crossed) = (0, 0.0f64, 0, 0);
    for seed in 0..worlds {
        let world = random::world(seed);
        let record = engine::run(&world).unwrap_or_else(|e| panic!("world {seed}: {e}"));
        assert_eq!(told_in_order(&world), (record.spans.clone(), record.events), "world {seed}");
        let has_memory = (0..world.ranks().len() as u32).any(|r| !world.memory_of(RankId(r)).is_empty());
        crossed += u32::from(has_memory);
        felt += u32::from(world.felt_by_kernels().contains(&true));
        let mut last = 0.0f64;
        for (r, spans) in (0u32..).zip(naive::run(&world)) {
            for (o, (start, end)) in (0u32..).zip(spans) {
                let played = record.span(RankId(r), OpId(o));
                let off = (played.0.s() - start).abs().max((played.1.s() - end).abs());
                assert!(off <= 1e-9, "world {seed}, rank {r}, op {o}: {played:?}, not {start} to {end} s");
                (worst, last, ops) = (worst.max(off), last.max(end), ops + 1);
            }
        }
        let off = (record.step_end.s() - last).abs();
        assert!(off <= 1e-9, "world {seed}: ends at {:?}, not {last} s", record.step_end);
    }
    println!("{worlds} worlds, {ops} op spans, none further off than {:.3} ps", worst * 1e12);
    println!("{crossed} of them with memory that kernels share, {felt} where they can feel it");
}

/// A prefetch into a tier of 100 bytes, of which 50 are taken until a kernel ends at 30 ns. The copy takes 10 ns.
fn prefetch(bytes: u64) -> Result<(Time, Time), EngineError> {
    let effect =
        |when: MemoryWhen, bytes: u64| MemoryEffect { when, class: MemoryClass::Weights, tier: 0, bytes };
    let mut world = world_with(Action::Fixed(Time::from_ns(10)));
    let mut b = builder();
    let (c, h) = (b.stream(StreamKind::Compute), b.stream(StreamKind::CopyIn));
    b.resident(effect(MemoryWhen::AllocAtStart, 50));
    let holder = b.op(c, kernel(30), &[], 0, 0);
    b.memory(holder, effect(MemoryWhen::FreeAtEnd, 50));
    let copy = b.op(h, comm(0, 0), &[], 0, 1);
    b.memory(copy, effect(MemoryWhen::AllocAtStart, bytes));
    let rank = add_lone_rank(&mut world, b, &[]);
    let hbm = world.add_tier("hbm", Bytes(100));
    world.set_tiers(rank, &[hbm]);
    engine::run(&world).map(|record| record.span(rank, copy))
}

#[test]
fn a_prefetch_waits_for_room() {
    assert_eq!(prefetch(50), Ok((Time::ZERO, Time::from_ns(10))));
    assert_eq!(prefetch(51), Ok((Time::from_ns(30), Time::from_ns(40))));
}

#[test]
fn what_never_fits_is_out_of_memory() {
    assert_eq!(
        prefetch(101).unwrap_err().to_string(),
        "out of memory at 30.000 ns on rank 0: forward `op`, micro-batch 1 needs 101 B on tier `hbm`, which holds 0 B \
         of 100 B:\n  what to do: recompute activations, shard or offload what is largest, or use a smaller micro-batch"
    );
}

#[test]
fn ranks_that_wait_for_each_other_are_shown_as_a_cycle() {
    let mut world = world_with(Action::Fixed(Time::from_ns(1)));
    for order in [[0u16, 1], [1, 0]] {
        let mut b = builder();
        let s = [b.stream(StreamKind::Tensor), b.stream(StreamKind::Data)];
        let first = b.op(s[usize::from(order[0])], comm(order[0], 0), &[], 0, 0);
        b.op(s[usize::from(order[1])], comm(order[1], 0), &[first], 0, 1);
        world.add_program(b.finish());
    }
    let ranks = [world.add_rank(ProgramId(0), 2), world.add_rank(ProgramId(1), 2)];
    for slot in 0..2 {
        let c = world.add_comm(0, &ranks, &[]);
        ranks.iter().for_each(|r| world.bind(*r, slot, c));
    }
    assert_eq!(
        engine::run(&world).unwrap_err().to_string(),
        "deadlock at 0 ps: no op can start, and each of these waits for the next
  rank 0 tp: forward `op`, micro-batch 0 waits for rank 1 to join with forward `op`, micro-batch 1
  rank 1 tp: forward `op`, micro-batch 1 waits for forward `op`, micro-batch 0 on its dp
  rank 1 dp: forward `op`, micro-batch 0 waits for rank 0 to join with forward `op`, micro-batch 1
  rank 0 dp: forward `op`, micro-batch 1 waits for forward `op`, micro-batch 0 on its tp"
    );
}

proptest! {
    /// A shared link is work-conserving: copies that start together keep it busy until the last byte.
    #[test]
    fn a_shared_link_is_never_idle(sizes in prop::collection::vec(1u32..1000, 1..20)) {
        let ops: Vec<(f64, &[(ResourceId, u32)])> = sizes.iter().map(|s| (f64::from(*s), &[A][..])).collect();
        let last = copies(1, &ops).into_iter().max().unwrap();
        let total = u64::from(sizes.iter().sum::<u32>());
        prop_assert!(last.abs_diff(total) <= 1, "{last} for {total} bytes at 1 byte per nanosecond");
    }
}

/// Steps whose first action is communication that slows kernels down while other streams have not begun.
#[test]
fn steps_that_begin_with_communication_run() {
    let deep = ["offload.prefetch.depth=70"];
    let dense = ["model.moe.first_dense_layers=32"];
    for (workload, sets) in [("cxl-pool-8", &deep[..]), ("mixtral-8x7b", &dense)] {
        let sets: Vec<String> = sets.iter().map(|s| (*s).to_string()).collect();
        let inputs = Inputs::load(workload, None, &sets).unwrap_or_else(|e| panic!("{workload}: {e}"));
        let run = Simulation::run(&inputs, &Options::default());
        assert!(run.is_ok_and(|run| run.record.step_end > Time::ZERO), "{workload} {sets:?}");
    }
}

/// A million ops that end at once, in a row on two ranks: no op ends within the end of another.
#[test]
fn a_million_empty_actions_end_at_once() {
    for action in [
        Action::Phases(vec![]),
        Action::Graph { flows: vec![], parents: vec![], parent_ids: vec![] },
        Action::Fixed(Time::ZERO),
    ] {
        let mut b = builder();
        b.stream(StreamKind::Data);
        for _ in 0..1_000_000 {
            b.op(0, comm(0, 0), &[], 0, 0);
        }
        let mut world = world_with(action);
        world.add_program(b.finish());
        let ranks = [world.add_rank(ProgramId(0), 1), world.add_rank(ProgramId(0), 1)];
        let both = world.add_comm(0, &ranks, &[]);
        ranks.iter().for_each(|rank| world.bind(*rank, 0, both));
        let stats = engine::run_observed(&world, &mut Nobody).unwrap();
        assert_eq!(stats.step_end, Time::ZERO);
    }
}

struct Nobody;

impl engine::Observer for Nobody {
    fn finished(&mut self, _: u32, _: u32, _: Time, _: Time) {}
}

/// What is wrong with a world made by hand is said before it runs.
#[test]
fn a_world_that_cannot_be_played_is_refused() {
    let mut world = world_with(Action::Fixed(Time::ZERO));
    let mut b = builder();
    let stream = b.stream(StreamKind::CopyIn);
    b.op(stream, comm(0, 0), &[], 0, 0);
    let program = world.add_program(b.finish());
    world.add_rank(program, 1);
    let error = engine::run(&world).unwrap_err().to_string();
    assert!(error.contains("ranks[0]: its communicator slot 0 is bound to none"), "{error}");
}

/// Who goes first where two streams wait for room is what the plan says, not what a stream is for.
#[test]
fn an_urgent_stream_has_memory_first() {
    let played = |urgent: [bool; 2]| {
        let mut b = ProgramBuilder::new();
        let holder = b.stream(StreamKind::Host);
        let streams = urgent.map(|urgent| {
            b.stream_with(StreamKind::Compute, StreamTraits { urgent, ..StreamTraits::default() })
        });
        let info = b.info(OpInfo::of("op", Phase::Forward, 0.0));
        let effect = |when| MemoryEffect { when, class: MemoryClass::Workspace, tier: 0, bytes: 10 };
        for stream in [holder, streams[0], streams[1]] {
            let op = b.op(stream, kernel(5), &[], info, 0);
            b.memory(op, effect(MemoryWhen::AllocAtStart));
            b.memory(op, effect(MemoryWhen::FreeAtEnd));
        }
        let mut world = World::default();
        let program = world.add_program(b.finish());
        let rank = world.add_rank(program, 0);
        let hbm = world.add_tier("hbm", Bytes(10));
        world.set_tiers(rank, &[hbm]);
        let record = engine::run(&world).unwrap();
        [1, 2].map(|op| record.span(rank, OpId(op)).0)
    };
    let [a, b] = played([false, true]);
    assert!(b < a, "{a} {b}");
    let [a, b] = played([true, false]);
    assert!(a < b, "{a} {b}");
}

#[test]
fn a_record_that_is_too_large_is_refused_with_what_helps() {
    let inputs = Inputs::load("gpt2-8", None, &[]).expect("a workload");
    let few = Options { record_bytes: 1000, ..Options::default() };
    let error = Simulation::run(&inputs, &few).expect_err("1,000 bytes are too few").to_string();
    assert!(error.contains("more than the limit of 1000") && error.contains("--record-gib"), "{error}");
    let need = error.split(' ').find_map(|word| word.parse::<u64>().ok()).expect("the bytes needed");
    assert!(Simulation::run(&inputs, &Options { record_bytes: need, ..few }).is_ok());
}

/// `run -q --no-jump`: where nothing is read of single ops nothing is recorded, so no limit of the record stands in
/// the way.
#[test]
fn a_step_of_which_nothing_is_read_knows_no_limit_of_the_record() {
    let inputs = Inputs::load("gpt2-8", None, &[]).expect("a workload");
    for fold in [true, false] {
        let few = Options { record_bytes: 1000, jump: false, fold, ..Options::default() };
        let run = Simulation::run(&inputs, &Options { fold, ..Options::default() }).expect("a run");
        let figures = figures(&inputs, &few, false).expect("nothing is recorded");
        assert_eq!(figures.step_end, run.record.step_end);
        assert_eq!(figures.memory_peak_bytes, run.memory_peak_bytes());
        assert!(Simulation::run(&inputs, &few).is_err());
    }
}
