//! The time of an action on idle resources, and the communicators that always find them idle.

use rustc_hash::FxHashMap;

use crate::fold::fold;
use crate::ids::{CommId, ProgramId, ResourceId, TransferId};
use crate::program::{Action, BEHIND, Flow, NO_MICRO_BATCH, ProgramBuilder, StreamKind, Work, World};
use crate::units::Time;

/// By path: the rate of a flow that is alone there, in bytes per second.
pub fn path_rates(world: &World) -> Vec<f64> {
    (0..world.paths.len()).map(|path| path_rate(world, path)).collect()
}

/// The same for one path, by its place in `World::paths`.
pub fn path_rate(world: &World, path: usize) -> f64 {
    let rate = |&(r, a): &(ResourceId, u32)| world.resources[r.index()].capacity.0 / f64::from(a);
    world.uses[world.paths[path].range()].iter().map(rate).fold(f64::INFINITY, f64::min)
}

/// The time of one flow alone on a path of the given rate.
#[inline]
pub fn flow_time(flow: &Flow, path_rate: f64) -> Time {
    if flow.bytes <= 0.0 {
        return flow.latency;
    }
    flow.latency + Time::from_s(flow.bytes / path_rate.min(flow.rate_limit))
}

/// By communicator: whether no other one, nor a kernel (`felt`, by resource), uses any of its resources. Its flows
/// then never share (unless its own action is a graph), and its times are known before the run.
pub fn exclusive_comms(world: &World, felt: &[bool]) -> Vec<bool> {
    const NOBODY: u32 = u32::MAX;
    let mut owner = vec![NOBODY; world.resources.len()];
    let mut exclusive = vec![true; world.comms.len()];
    for (c, comm) in world.comms.iter().enumerate() {
        for span in &world.paths[comm.paths.range()] {
            for &(r, _) in &world.uses[span.range()] {
                exclusive[c] &= !felt[r.index()];
                let owner = &mut owner[r.index()];
                if *owner == NOBODY {
                    *owner = c as u32;
                } else if *owner != c as u32 {
                    exclusive[*owner as usize] = false;
                    exclusive[c] = false;
                }
            }
        }
    }
    exclusive
}

/// The time of a whole transfer of a communicator that has the machine to itself. A graph of flows is played: its own
/// flows share what they share.
pub fn time_alone(world: &World, comm: CommId, transfer: u32) -> Option<Time> {
    let c = &world.comms[comm.index()];
    let action = *world.profiles[c.profile as usize].get(transfer as usize)?;
    let action = world.actions.get(action as usize)?;
    if !action.is_graph() {
        return transfer_time(world, |path| path_rate(world, path), comm, transfer);
    }
    let mut alone = World { actions: vec![action.clone()], profiles: vec![vec![0]], ..World::default() };
    let mut numbers = FxHashMap::default();
    let paths: Vec<Vec<(ResourceId, u32)>> = (0..c.paths.len)
        .map(|path| {
            let number = |&(r, a): &(ResourceId, u32)| {
                let capacity = world.resources[r.index()].capacity;
                (*numbers.entry(r).or_insert_with(|| alone.add_resource(capacity)), a)
            };
            world.path(comm, path).iter().map(number).collect()
        })
        .collect();
    let mut program = ProgramBuilder::new();
    let stream = program.stream(StreamKind::Data);
    let work = Work::Comm { slot: 0, transfer: TransferId(0) };
    program.op(stream, work, &[], 0, NO_MICRO_BATCH);
    alone.programs.push(program.finish().into());
    let rank = alone.add_rank(ProgramId(0), 1);
    let paths: Vec<&[_]> = paths.iter().map(Vec::as_slice).collect();
    let only = alone.add_comm(0, &[rank], &paths);
    alone.bind(rank, 0, only);
    super::run(&fold(&alone).world).ok().map(|record| record.step_end)
}

/// The part of a transfer's time that no bandwidth shortens: the latencies of its phases, or of the longest chain of
/// its flows. Zero for a fixed time, whose parts are unknown.
pub fn latency_alone(world: &World, comm: CommId, transfer: u32) -> Option<Time> {
    let profile = &world.profiles[world.comms[comm.index()].profile as usize];
    Some(match world.actions.get(*profile.get(transfer as usize)? as usize)? {
        Action::Fixed(_) => Time::ZERO,
        Action::Phases(phases) => phases.iter().map(|flow| flow.latency).sum(),
        graph => longest_chain(graph, |_| Time::ZERO),
    })
}

/// The length of the longest chain of flows that wait for each other, or queue behind each other; `time` gives the
/// time of a flow's bytes.
fn longest_chain(graph: &Action, time: impl Fn(&Flow) -> Time) -> Time {
    let mut ends: Vec<Time> = Vec::with_capacity(graph.count());
    graph.each(|flow, waits| {
        let (mut ready, mut free) = (Time::ZERO, Time::ZERO);
        for p in waits.marked() {
            let of = if p & BEHIND == 0 { &mut ready } else { &mut free };
            *of = ends[(p & !BEHIND) as usize].max(*of);
        }
        ends.push((ready + flow.latency).max(free) + time(flow));
    });
    ends.into_iter().max().unwrap_or_default()
}

/// The time of a whole transfer of a communicator when nobody else uses its paths, which have the rates `rate_of`.
/// For a graph of flows: the longest chain of flows, each alone on its path, which is a lower bound where the flows
/// of the graph themselves share.
pub fn transfer_time(
    world: &World,
    rate_of: impl Fn(usize) -> f64,
    comm: CommId,
    transfer: u32,
) -> Option<Time> {
    let c = &world.comms[comm.index()];
    let action = *world.profiles[c.profile as usize].get(transfer as usize)?;
    let time = |f: &Flow| flow_time(f, rate_of((c.paths.start + f.path) as usize));
    Some(match world.actions.get(action as usize)? {
        Action::Fixed(time) => *time,
        Action::Phases(phases) => phases.iter().map(time).sum(),
        graph => longest_chain(graph, |f| time(f) - f.latency),
    })
}
