//! The engine on small worlds whose times are worked out by hand, and on random ones against a naive engine.

mod naive;
mod random;

use stepsim_core::engine::{self, EngineError};
use stepsim_core::ids::{OpId, ProgramId, RankId, ResourceId, TransferId};
use stepsim_core::program::{
    Action, MemoryClass, MemoryEffect, MemoryWhen, OpInfo, Phase, ProgramBuilder, StreamKind, StreamTraits,
    Work, World,
};
use stepsim_core::units::{Bytes, Time};

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

/// The spans of a run that is told op by op, in the order of their ends.
struct InOrder {
    spans: Vec<Vec<(Time, Time)>>,
    last: Time,
}

impl engine::Observer for InOrder {
    fn in_order(&self) -> bool {
        true
    }
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
    let ops = |rank: &stepsim_core::program::Rank| world.programs()[rank.program.index()].ops.len();
    let spans = world.ranks().iter().map(|rank| vec![(Time::ZERO, Time::ZERO); ops(rank)]).collect();
    let mut told = InOrder { spans, last: Time::ZERO };
    let events = engine::run_observed(world, &mut told).expect("a run").events;
    (told.spans.concat(), events)
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

/// Worlds of `STEPSIM_WORLDS` seeds (600 unless said otherwise, or 7,200 where everything is tried): every span within a nanosecond of the naive
/// engine's, and the same where ops are told in order, each kernel having an event of its own.
#[test]
fn random_worlds_are_played_as_the_naive_engine_plays_them() {
    let worlds = std::env::var("STEPSIM_WORLDS")
        .map_or(u64::from(crate::draws::draws(7200)), |n| n.parse().expect("a number of worlds"));
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

/// A hundred thousand ops that end at once, in a row on two ranks: no op ends within the end of another.
#[test]
fn many_empty_actions_end_at_once() {
    for action in [
        Action::Phases(vec![]),
        Action::Graph { flows: vec![], parents: vec![], parent_ids: vec![] },
        Action::Fixed(Time::ZERO),
    ] {
        let mut b = builder();
        b.stream(StreamKind::Data);
        for _ in 0..100_000 {
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
    fn in_order(&self) -> bool {
        true
    }
    fn finished(&mut self, _: u32, _: u32, _: Time, _: Time) {}
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
