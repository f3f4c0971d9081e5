//! A world made by hand, without model or machine: two ranks compute, and exchange 1 GB over one shared link.
//!
//! `cargo run --example own_world`

use stepsim::core::engine;
use stepsim::core::ids::{OpId, RankId, TransferId};
use stepsim::core::program::{
    Action, Edit, Flow, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work, World,
};
use stepsim::core::units::{Bandwidth, Time};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A program: a kernel of 10 ms, then an exchange that waits for it on a stream of its own.
    let mut b = ProgramBuilder::new();
    let (compute, network) = (b.stream(StreamKind::Compute), b.stream(StreamKind::Data));
    let name = |name: &str| OpInfo {
        name: name.to_string().into(),
        phase: Phase::Forward,
        layer: None,
        class: None,
        flops: 0.0,
        bytes: 0.0,
    };
    let (kernel, exchange) = (b.info(name("kernel")), b.info(name("exchange")));
    let work = Work::Compute { time: Time::from_s(0.010) };
    let first = b.op(compute, work, &[], kernel, NO_MICRO_BATCH);
    let transfer = Work::Comm { slot: 0, transfer: TransferId(0) };
    b.op(network, transfer, &[first], exchange, NO_MICRO_BATCH);

    // Two ranks of it, and a communicator of both over one link of 100 GB/s.
    let mut world = World::default();
    let program = world.add_program(b.finish());
    let ranks: Vec<RankId> = (0..2).map(|_| world.add_rank(program, 1)).collect();
    let link = world.add_resource(Bandwidth(100e9));
    let flow = Flow { latency: Time::from_s(2e-6), bytes: 1e9, rate_limit: f64::INFINITY, path: 0 };
    let action = world.add_action(Action::Phases(vec![flow]));
    let profile = world.add_profile([action]);
    let comm = world.add_comm(profile, &ranks, &[&[(link, 1)]]);
    ranks.iter().for_each(|rank| world.bind(*rank, 0, comm));
    world.edit(&Edit::SlowRank(ranks[1], 1.5));
    world.validate()?;

    let record = engine::run(&world)?;
    for rank in &ranks {
        let (start, end) = record.span(*rank, OpId(1));
        println!("rank {}: exchange from {:.3} to {:.3} ms", rank.0, 1e3 * start.s(), 1e3 * end.s());
    }
    // The slower rank holds both up: 15 ms, then 2 us and 10 ms.
    assert_eq!(record.step_end, Time::from_s(0.025_002));
    Ok(())
}
