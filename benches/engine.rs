//! The event loop with nothing shared: shared programs, two streams a rank, a rendezvous of eight every third op.
//!
//! `cargo bench --bench engine`; the throughput is op executions per second.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput};
use stepsim::core::engine;
use stepsim::core::ids::{OpId, ProgramId, TransferId};
use stepsim::core::program::{Action, OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim::core::units::Time;

/// `ranks` ranks of 8 roles, `ops` ops each; every third op is a collective of 8 ranks that depends on the kernel
/// before it, and the kernel after it waits for the collective before that.
fn nothing_shared(ranks: usize, ops: u32) -> World {
    let mut world = World::default();
    let mut x = 88172645463325252u64;
    let mut random = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    for _ in 0..8 {
        let mut b = ProgramBuilder::new();
        b.info(OpInfo::of("op", Phase::Forward, 0.0));
        let streams = [b.stream(StreamKind::Compute), b.stream(StreamKind::Tensor)];
        let mut collectives: Vec<OpId> = Vec::new();
        let mut last = None;
        for i in 0..ops {
            if i % 3 == 2 {
                let waits: Vec<OpId> = last.into_iter().collect();
                let work = Work::Comm { slot: 0, transfer: TransferId(0) };
                collectives.push(b.op(streams[1], work, &waits, 0, 0));
            } else {
                let n = collectives.len();
                let waits: Vec<OpId> =
                    (i % 3 == 0 && n >= 2).then(|| collectives[n - 2]).into_iter().collect();
                let time = Time(50_000_000 + random() % 100_000_000);
                last = Some(b.op(streams[0], Work::Compute { time }, &waits, 0, 0));
            }
        }
        world.add_program(b.finish());
    }
    let action = world.add_action(Action::Fixed(Time::from_ns(60_000)));
    world.add_profile([action]);
    for group in 0..ranks / 8 {
        let members: Vec<_> = (0..8).map(|_| world.add_rank(ProgramId(group as u32 % 8), 1)).collect();
        let comm = world.add_comm(0, &members, &[]);
        members.iter().for_each(|r| world.bind(*r, 0, comm));
    }
    world
}

fn event_loop(c: &mut Criterion) {
    let mut group = c.benchmark_group("event loop, nothing shared");
    group.sample_size(10);
    for (ranks, ops) in [(1024, 98), (1024, 9_766), (8192, 1_221), (1024, 97_656)] {
        let world = nothing_shared(ranks, ops);
        group.throughput(Throughput::Elements(world.op_instances()));
        let name = format!("{ranks} ranks x {ops} ops");
        group.bench_function(BenchmarkId::from_parameter(name), |b| {
            b.iter(|| black_box(engine::run(black_box(&world)).expect("a run")));
        });
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    event_loop(&mut criterion);
    criterion.final_summary();
}
