//! The world around the programs: one rank per stage, ports, transfers.

use std::sync::Arc;

use super::blocks::BlockWriter;
use super::labels::{Local, Move};
use super::{CalculonStep, DataParallelPlan, Ports, TimedTransfer};
use stepsim::core::ids::{CommId, ProgramId, RankId, ResourceId, TierId};
use stepsim::core::program::{Action, Flow, Span, Tier, TierUse, World};
use stepsim::core::units::{Bandwidth, Bytes, Time};
use stepsim::plan::pipeline::{PipelineOptions, programs};
use stepsim::schedule::{Data, ScheduleError};

/// The step as a world of one rank per pipeline stage.
///
/// # Errors
/// There is no order for these numbers: see [`CalculonStep::order`].
pub fn world(step: &CalculonStep) -> Result<World, ScheduleError> {
    let order = step.order()?;
    let mut work = BlockWriter::new(step);
    let first_slot = Local::ALL.len() as u16;
    let options =
        PipelineOptions { sends: step.sends, lanes: lanes(step), first_slot, ..PipelineOptions::default() };
    let pipeline = programs(&order, options, &mut work);
    let mut world = World {
        programs: pipeline.programs.into_iter().map(Arc::new).collect(),
        tiers: vec![
            Tier { name: "hbm".into(), capacity: Bytes(step.capacity.min(u64::MAX as f64) as u64) };
            step.ranks as usize
        ],
        ..World::default()
    };
    for (rank, slots) in pipeline.slots.iter().enumerate() {
        let rank = world.add_rank(ProgramId(rank as u32), u32::from(first_slot) + slots.len() as u32);
        world.ranks[rank.index()].tiers = Span { start: rank.0, len: 1 };
        world.tier_uses.push(TierUse { tier: TierId(rank.0), count: 1 });
    }
    let ports = ports(&mut world, step);
    // Out of one rank's port and into another's, on the network that carries this kind of traffic.
    let path = |carries: fn(&Ports) -> bool, from: u32, to: u32| {
        let Some(n) = step.ports.iter().position(carries) else { return Vec::new() };
        vec![(ports[n][from as usize].0, 1), (ports[n][to as usize].1, 1)]
    };
    for channel in &pipeline.channels {
        let (from, to) = (channel.from.rank, channel.to.rank);
        let path = path(|n| n.pipeline, from, to);
        world.add_comm(0, &[RankId(from), RankId(to)], &[&path]);
    }
    for (rank, slots) in pipeline.slots.iter().enumerate() {
        for (slot, channel) in slots.iter().enumerate() {
            world.bind(RankId(rank as u32), first_slot + slot as u16, CommId(*channel));
        }
    }
    for rank in 0..step.ranks {
        for local in Local::ALL {
            let path = match local {
                Local::Tensor => path(|n| n.tensor, rank, rank),
                Local::Data => path(|n| n.data, rank, rank),
                _ => Vec::new(),
            };
            let comm = world.add_comm(0, &[RankId(rank)], &[&path]);
            world.bind(RankId(rank), local as u16, comm);
        }
    }
    actions(&mut world, step);
    Ok(world)
}

/// Parallel lanes of a border: transfers that take longer than a pass must not queue where nothing is shared, as the
/// closed form's do not.
fn lanes(step: &CalculonStep) -> u32 {
    let pass = |times: [Time; 2]| times[0] + times[1];
    let forward = pass([step.edge.forward, step.edge.forward_comm]);
    let longest = step.p2p[0].time().max(step.p2p[1].time());
    longest.0.div_ceil(forward.0.max(1)).clamp(1, 8) as u32
}

/// Of every shared network the ports of each rank, out and in.
fn ports(world: &mut World, step: &CalculonStep) -> Vec<Vec<(ResourceId, ResourceId)>> {
    let mut network = |n: &Ports| {
        let mut port = || world.add_resource(Bandwidth(n.bandwidth));
        (0..step.ranks).map(|_| (port(), port())).collect()
    };
    step.ports.iter().map(&mut network).collect()
}

/// One action per kind of transfer, in the order of [`Move`].
fn actions(world: &mut World, step: &CalculonStep) {
    let port = |carries: fn(&Ports) -> bool| step.ports.iter().find(|n| carries(n)).map(|n| n.bandwidth);
    let flow = |transfer: TimedTransfer, bandwidth: Option<f64>| match bandwidth {
        Some(rate) if transfer.wire > Time::ZERO => {
            let bytes = transfer.wire.s() * rate;
            let flow = Flow { latency: transfer.latency, bytes, rate_limit: f64::INFINITY, path: 0 };
            Action::Phases(vec![flow])
        }
        _ => Action::Fixed(transfer.time()),
    };
    let (reduce, gather, exposed) = match step.data {
        DataParallelPlan::Blocks { reduce, gather, .. } => (reduce, gather.unwrap_or_default(), Time::ZERO),
        DataParallelPlan::Exposed(time) => (TimedTransfer::default(), TimedTransfer::default(), time),
        DataParallelPlan::None => Default::default(),
    };
    let (base, edge) = (&step.base, &step.edge);
    let wire =
        |time: Time| flow(TimedTransfer { wire: time, ..TimedTransfer::default() }, port(|n| n.tensor));
    let copies = step.copies.unwrap_or_default();
    let (pipeline, data) = (port(|n| n.pipeline), port(|n| n.data));
    world.actions = vec![
        flow(step.p2p[Data::Activations as usize], pipeline),
        flow(step.p2p[Data::Gradients as usize], pipeline),
        wire(base.forward_comm),
        wire(edge.forward_comm),
        wire(base.redo_comm),
        wire(edge.redo_comm),
        wire(base.backward_comm),
        wire(edge.backward_comm),
        Action::Fixed(base.forward_offload),
        Action::Fixed(edge.forward_offload),
        Action::Fixed(base.backward_offload),
        Action::Fixed(edge.backward_offload),
        Action::Fixed(exposed),
        flow(reduce, data),
        flow(gather, data),
        Action::Fixed(copies.weights),
        Action::Fixed(copies.activations),
        Action::Fixed(copies.state),
    ];
    assert_eq!(world.actions.len(), Move::State as usize + 1);
    world.profiles = vec![(0..world.actions.len() as u32).collect()];
}
