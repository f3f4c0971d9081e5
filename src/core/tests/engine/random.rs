//! Random worlds with everything in them that takes time: streams that wait for each other, communicators of all
//! kinds of actions on shared resources, kernels that mind communication and share their device's memory, ranks that
//! share a program, and streams that others see late.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use stepsim_core::ids::{OpId, ProgramId, RankId, ResourceId, TransferId};
use stepsim_core::program::{
    Action, BEHIND, Edit, Flow, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, Span, StreamKind, Work, World,
};
use stepsim_core::units::{Bandwidth, Time};

const KINDS: [StreamKind; 7] = [
    StreamKind::Compute,
    StreamKind::Tensor,
    StreamKind::Data,
    StreamKind::PipelineSend,
    StreamKind::CopyIn,
    StreamKind::Host,
    StreamKind::Compute,
];
/// Numbers of the streams above that communication is queued on.
const COMM_STREAMS: std::ops::Range<usize> = 0..5;
const TRANSFERS: u32 = 4;

/// The world of a seed: 1 to 4 ranks and up to 6 communicators, there once or twice; up to 40 ops a rank,
/// durations of nanoseconds to microseconds.
pub fn world(seed: u64) -> World {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let rng = &mut rng;
    let mut world = World::default();
    let copies = rng.random_range(1..3u32);
    let resources: Vec<_> = (0..rng.random_range(1..6))
        .map(|_| {
            // Some so wide that what crosses others on its way cannot fill them.
            let wide = if rng.random_bool(0.3) { 20 } else { 1 };
            world.add_resource(Bandwidth(1e9 * f64::from(wide * copies * rng.random_range(1..20u32))))
        })
        .collect();
    let ranks = rng.random_range(1..5u32);
    let comms: Vec<(Vec<u32>, Vec<usize>)> = (0..rng.random_range(1..7))
        .map(|_| {
            let mut members: Vec<u32> = (0..ranks).filter(|_| rng.random_bool(0.5)).collect();
            if members.is_empty() {
                members.push(rng.random_range(0..ranks));
            }
            // One stream for each member: a communicator has its ops in one order on a rank.
            let streams = members.iter().map(|_| rng.random_range(COMM_STREAMS)).collect();
            (members, streams)
        })
        .collect();
    programs(rng, &mut world, ranks, &comms);
    for _ in 0..comms.len() {
        let mut action = || world.add_action_taking(action(rng), rng.random_range(0..4) * 500);
        let profile = [(); TRANSFERS as usize].map(|()| action());
        world.add_profile(profile);
    }
    let shares_memory = rng.random_bool(0.6);
    for _ in 0..copies {
        let ranks: Vec<RankId> = (0..ranks).map(|r| rank(rng, &mut world, r, comms.len() as u32)).collect();
        for rank in &ranks {
            if shares_memory && rng.random_bool(0.8) {
                let crossed = (resources[rng.random_range(0..resources.len())], rng.random_range(1..3));
                world.set_memory(*rank, &[crossed]);
            }
        }
        for (c, (members, _)) in (0u32..).zip(&comms) {
            let paths: Vec<Vec<(ResourceId, u32)>> = (0..3).map(|_| path(rng, &resources)).collect();
            let paths: Vec<&[_]> = paths.iter().map(Vec::as_slice).collect();
            let members: Vec<RankId> = members.iter().map(|m| ranks[*m as usize]).collect();
            let comm = world.add_comm(c, &members, &paths);
            members.iter().for_each(|m| world.bind(*m, c as u16, comm));
        }
    }
    world
}

/// A rank of a program, slower than others or not.
fn rank(rng: &mut ChaCha8Rng, world: &mut World, program: u32, slots: u32) -> RankId {
    let rank = world.add_rank(ProgramId(program), slots);
    if rng.random_bool(0.2) {
        world.edit(&Edit::SlowRank(rank, 1.0 + f64::from(rng.random_range(0..10u32)) / 7.0));
    }
    rank
}

/// A program for each of so many ranks. Ops come in one order for all, so communicators match and nothing waits for
/// itself.
fn programs(rng: &mut ChaCha8Rng, world: &mut World, ranks: u32, comms: &[(Vec<u32>, Vec<usize>)]) {
    let mut builders: Vec<_> = (0..ranks).map(|_| ProgramBuilder::new()).collect();
    for b in &mut builders {
        for kind in KINDS {
            let stream = b.stream(kind);
            if rng.random_bool(0.1) {
                b.latency(stream, time(rng));
            }
        }
        b.info(info(0.0));
    }
    let mut ops: Vec<u32> = vec![0; ranks as usize];
    // An op that waits for the one before it, or for any.
    let mut push = |rng: &mut ChaCha8Rng, rank: u32, stream: usize, work: Work, chained: bool| {
        let n = &mut ops[rank as usize];
        let waits: Vec<OpId> = match chained {
            true => n.checked_sub(1).map(OpId).into_iter().collect(),
            false => (0..rng.random_range(0..3))
                .filter(|_| *n > 0)
                .map(|_| OpId(rng.random_range(0..*n)))
                .collect(),
        };
        *n += 1;
        let b = &mut builders[rank as usize];
        let info = match work {
            // Up to 8 bytes a nanosecond.
            Work::Compute { time } => b.info(info(time.s() * 1e9 * f64::from(rng.random_range(0..9u32)))),
            Work::Comm { .. } => 0,
        };
        let op = b.op(stream as u16, work, &waits, info, NO_MICRO_BATCH);
        // Streams beside the first are now and then such that nothing changes the times of their kernels.
        if matches!(work, Work::Compute { .. }) && rng.random_bool(if stream == 0 { 0.7 } else { 0.2 }) {
            b.slowdown(op, rng.random_range(1..800));
        }
    };
    for _ in 0..rng.random_range(1..40) {
        if rng.random_bool(0.2) {
            // Kernels, what waits for the last of them, and a kernel that waits for that, as in tensor parallelism.
            let c = rng.random_range(0..comms.len());
            let transfer = TransferId(rng.random_range(0..TRANSFERS));
            for (&member, &stream) in comms[c].0.iter().zip(&comms[c].1) {
                for _ in 0..rng.random_range(1..4) {
                    let time = time(rng);
                    push(rng, member, 0, Work::Compute { time }, false);
                }
                push(rng, member, stream, Work::Comm { slot: c as u16, transfer }, true);
                let time = time(rng);
                push(rng, member, 0, Work::Compute { time }, true);
            }
        } else if rng.random_bool(0.5) {
            let rank = rng.random_range(0..ranks);
            let stream = [0, 0, 0, 5, 6][rng.random_range(0..5)];
            let time = time(rng);
            push(rng, rank, stream, Work::Compute { time }, false);
        } else {
            let c = rng.random_range(0..comms.len());
            let transfer = TransferId(rng.random_range(0..TRANSFERS));
            for (&member, &stream) in comms[c].0.iter().zip(&comms[c].1) {
                push(rng, member, stream, Work::Comm { slot: c as u16, transfer }, false);
            }
        }
    }
    builders.into_iter().for_each(|builder| _ = world.add_program(builder.finish()));
}

fn info(bytes: f64) -> OpInfo {
    OpInfo::of("op", Phase::Forward, bytes)
}

/// Round or odd, or nothing at all.
fn time(rng: &mut ChaCha8Rng) -> Time {
    match rng.random_range(0..4) {
        0 => Time(0),
        1 => Time::from_ns(100 * rng.random_range(1..10)),
        _ => Time(rng.random_range(1..2_000_000)),
    }
}

fn path(rng: &mut ChaCha8Rng, resources: &[ResourceId]) -> Vec<(ResourceId, u32)> {
    let mut path: Vec<_> = resources.iter().filter(|_| rng.random_bool(0.4)).copied().collect();
    if path.is_empty() {
        path.push(resources[rng.random_range(0..resources.len())]);
    }
    path.into_iter().map(|r| (r, rng.random_range(1..4))).collect()
}

fn flow(rng: &mut ChaCha8Rng) -> Flow {
    let bytes = if rng.random_bool(0.1) { 0.0 } else { f64::from(rng.random_range(1..5000u32)) };
    let limited = rng.random_bool(0.3);
    Flow {
        latency: if rng.random_bool(0.5) { Time::ZERO } else { time(rng) },
        bytes,
        rate_limit: if limited { 1e9 * f64::from(rng.random_range(1..5u32)) } else { f64::INFINITY },
        path: rng.random_range(0..3),
    }
}

fn action(rng: &mut ChaCha8Rng) -> Action {
    match rng.random_range(0..4) {
        0 => Action::Fixed(time(rng)),
        1 => {
            let flows: Vec<Flow> = (0..rng.random_range(1..6)).map(|_| flow(rng)).collect();
            let (mut parents, mut parent_ids) = (Vec::new(), Vec::new());
            for i in 0..flows.len() as u32 {
                let start = parent_ids.len() as u32;
                let parents_of: Vec<u32> = (0..i).filter(|_| rng.random_bool(0.4)).collect();
                parent_ids
                    .extend(parents_of.iter().map(|p| if rng.random_bool(0.4) { p | BEHIND } else { *p }));
                parents.push(Span { start, len: parent_ids.len() as u32 - start });
            }
            Action::Graph { flows, parents, parent_ids }
        }
        _ => Action::Phases((0..rng.random_range(1..4)).map(|_| flow(rng)).collect()),
    }
}
