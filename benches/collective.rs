//! Lowering of communicators, and collectives played transfer by transfer.
//!
//! `cargo bench --bench collective`

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use stepsim::core::engine;
use stepsim::core::fold::fold;
use stepsim::core::ids::{DeviceId, ProgramId, RankId};
use stepsim::core::program::{OpInfo, Phase, ProgramBuilder, StreamKind, Work, World};
use stepsim::fabric::collective::{Chooser, Fidelity, Lowering, Op, Transfer, algorithm};
use stepsim::fabric::topology::Machine;

/// Communicators of tp 8, pp 16, dp: per device one channel each way along the pipeline, a tensor group a node, a data
/// group for each (tp, pp) place.
fn lower(machine: &Machine) -> World {
    let (tp, pp) = (8u32, 16u32);
    let n = machine.devices();
    let mut world = World::default();
    let mut lowering = Lowering::new(machine, Fidelity::Fluid, Chooser::for_device("NVIDIA H100"));
    let mut transfer = |op, mib: u64| lowering.transfer(Transfer::new(op, mib << 20));
    let tensor = [transfer(Op::AllGather, 128), transfer(Op::ReduceScatter, 128)];
    let data = [transfer(Op::AllGather, 512), transfer(Op::ReduceScatter, 1024)];
    let send = [transfer(Op::SendRecv, 16)];
    let mut group = |members: &mut dyn Iterator<Item = u32>, transfers: &[_]| {
        let members: Vec<u32> = members.collect();
        let ranks: Vec<RankId> = members.iter().map(|&m| RankId(m)).collect();
        let devices: Vec<DeviceId> = members.iter().map(|&m| DeviceId(m)).collect();
        lowering.comm(&mut world, &ranks, &devices, transfers).expect("a group that can run");
    };
    (0..n / tp).for_each(|g| group(&mut (g * tp..(g + 1) * tp), &tensor));
    (0..tp * pp).for_each(|g| group(&mut (g..n).step_by((tp * pp) as usize), &data));
    for r in 0..n {
        // Neighbours of the pipeline are on neighbouring nodes.
        let next = r / (tp * pp) * (tp * pp) + (r + tp) % (tp * pp);
        group(&mut [r, next].into_iter(), &send);
        group(&mut [next, r].into_iter(), &send);
    }
    world
}

/// A ring all-reduce over one switch, every transfer a flow.
fn ring_in_steps(machine: &Machine) -> World {
    let mut world = machine.world();
    let algorithm = algorithm("ring").expect("known");
    let chooser = Chooser::always(algorithm, None);
    let mut lowering = Lowering::new(machine, Fidelity::Steps, chooser);
    let id = lowering.transfer(Transfer::new(Op::AllReduce, 1 << 30));
    let mut program = ProgramBuilder::new();
    let info = program.info(OpInfo::of("all-reduce", Phase::Forward, 0.0));
    let stream = program.stream(StreamKind::Data);
    program.op(stream, Work::Comm { slot: 0, transfer: id }, &[], info, 0);
    world.add_program(program.finish());
    let ranks: Vec<RankId> = (0..machine.devices()).map(|_| world.add_rank(ProgramId(0), 1)).collect();
    let devices: Vec<DeviceId> = (0..machine.devices()).map(DeviceId).collect();
    let comm = lowering.comm(&mut world, &ranks, &devices, &[id]).expect("a group that can run");
    ranks.iter().for_each(|&r| world.bind(r, 0, comm));
    world
}

fn collectives(c: &mut Criterion) {
    let mut group = c.benchmark_group("collective");
    group.sample_size(10);
    let machine = |name| Machine::load(name, &[]).expect("a shipped machine").1;
    let pod = machine("h100-superpod-16384");
    group.throughput(Throughput::Elements(lower(&pod).comms().len() as u64));
    group.bench_function("lower 16384 devices", |b| b.iter(|| black_box(lower(&pod))));
    let switch = machine("switch:512,100,2");
    group.throughput(Throughput::Elements(2 * 511 * 512));
    group.bench_function("ring of 512 in steps: lower", |b| b.iter(|| black_box(ring_in_steps(&switch))));
    let world = ring_in_steps(&switch);
    group.bench_function("ring of 512 in steps: play", |b| {
        b.iter(|| engine::run(black_box(&world)).expect("runs"))
    });
    group.bench_function("ring of 512 in steps: fold and play", |b| {
        b.iter(|| engine::run(&fold(black_box(&world)).world).expect("runs"))
    });
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    collectives(&mut criterion);
    criterion.final_summary();
}
