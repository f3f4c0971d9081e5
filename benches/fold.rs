//! Time to fold a world, by number of ranks. Targets: 40 ms at 16,384 ranks, 1 s at 131,072.

#[path = "../src/core/tests/fold/cluster.rs"]
mod cluster;

use cluster::{Fidelity, Layout};
use criterion::{Criterion, Throughput};
use stepsim::core::fold::fold;

/// TP 8 × PP 16 on nodes of eight devices and NICs, 32 nodes a leaf, with the given number of replicas.
fn layout(dp: u32) -> Layout {
    Layout {
        tp: 8,
        cp: 1,
        dp,
        pp: 16,
        gpus_per_node: 8,
        gpus_per_nic: 1,
        nodes_per_leaf: 32,
        layers: 8,
        micro_batches: 4,
        data_as_tensor: false,
        unused_slots: false,
        fidelity: [
            Fidelity::Phases,
            Fidelity::Phases,
            Fidelity::Fixed,
            Fidelity::Phases,
            Fidelity::Phases,
            Fidelity::Phases,
        ],
        device_layers: 2,
        host_layers: 10_000,
        slow_nic: None,
        slow_rank: None,
        jitter_period: None,
        memory_gbps: 0,
        slowdown: 0,
        ties: false,
        seed: 1,
    }
}

fn folding(c: &mut Criterion) {
    let mut group = c.benchmark_group("fold");
    group.sample_size(10);
    let one_slow = |layout: Layout| Layout { slow_nic: Some(5), ..layout };
    for (name, layout) in [
        ("1024 ranks", layout(8)),
        ("16384 ranks", layout(128)),
        ("16384 ranks, one slow NIC", one_slow(layout(128))),
        ("131072 ranks", layout(1024)),
    ] {
        let world = layout.world();
        let folded = fold(&world);
        println!(
            "{name}: {} communicators, {} slots, {} resources → {} ranks, {} communicators, {} resources",
            world.comms().len(),
            world.ranks().iter().map(|rank| rank.slots.len).sum::<u32>(),
            world.resources().len(),
            folded.ranks.len(),
            folded.comms.len(),
            folded.resources.len(),
        );
        group.throughput(Throughput::Elements(layout.ranks().into()));
        group.bench_function(name, |b| b.iter(|| fold(&world)));
    }
    group.finish();
}

fn main() {
    let mut criterion = Criterion::default().configure_from_args();
    folding(&mut criterion);
    criterion.final_summary();
}
