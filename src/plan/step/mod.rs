//! A training step of a transformer: workload and machine in, a world of rank programs out.
//!
//! 1. The rank grid (tensor, context, data, pipeline) is laid over the devices ([`Layout`]).
//! 2. The schedule says in which order each pipeline rank runs its passes ([`crate::plan::schedule`]).
//! 3. For each pipeline rank one program is written: `stage` pushes kernels and communication layer by layer,
//!    `weights` gathers what is cut among ranks, `offload` copies what lives on other tiers, `gradients` reduces,
//!    `optimizer` updates, `pipeline` sends and receives.
//! 4. Every rank gets its program and its communicators (`groups`, lowered by [`Lowering`]).
//!
//! Hazards:
//! * All devices are taken to be of the class of the first: kernels are priced once.
//! * Ranks of one pipeline stage share a program, so what differs inside a stage (a causal ring without zigzag, an
//!   uneven load on experts) is priced for the rank that has most to do.

mod chain;
pub mod expert_load;
mod gradients;
pub mod groups;
mod offload;
mod optimizer;
pub mod overlap;
mod profile;
mod stage;
mod unit;
mod visits;
mod weights;

use std::sync::Arc;

use groups::{Degrees, Group};
use offload::Away;
use stage::Stage;
pub use unit::{State, Unit, units_of_stages};

use crate::collective::{CollectiveError, Lowering, Op, Transfer};
use crate::ids::{CommId, DeviceId, ProgramId, RankId, ResourceId, TierId, TransferId};
use crate::model::{CommGroup, Kernel, Shard, flops::StepFlops};
use crate::plan::pipeline::{self, Options, Pipeline, Sends};
use crate::plan::schedule::{self, LayerSplit, Order, ScheduleError, Shape, split_layers};
use crate::program::{Rank, Resource, Span, Tier, TierUse, World};
use crate::spec::SpecError;
use crate::spec::model::ModelSpec;
use crate::spec::workload::{
    BytesPerParameter, ContextKind, OptimizerPlace, Placement, PointToPoint, ScheduleKind, ShardingKind,
    WorkloadSpec,
};
use crate::topology::{Axis, CopyDirection, Layout, Machine};
use crate::units::{Bytes, Time};

/// How long kernels take: the border to the cost models.
pub trait Prices {
    /// Time of a kernel on an undisturbed device.
    fn time(&self, kernel: &Kernel) -> Time;
    /// Thousandths that it takes longer while a communication kernel runs beside it.
    fn slowdown(&self, kernel: &Kernel) -> u16;
}

/// Why a step cannot be planned.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    /// The workload does not fit the machine or itself.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The schedule is not defined for these numbers.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The layers cannot be split so.
    #[error(transparent)]
    Split(#[from] schedule::SplitError),
    /// A group cannot communicate.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
}

/// Shares of state that live on other tiers.
#[derive(Clone, Debug, Default)]
struct Placed {
    weights: Vec<Away>,
    gradients: Vec<Away>,
    optimizer: Vec<Away>,
    activations: Vec<Away>,
}

/// What all ranks of the step have in common.
struct Setup<'a> {
    workload: &'a WorkloadSpec,
    order: &'a Order,
    degrees: Degrees,
    /// Units of each stage.
    stages: Vec<Vec<Unit>>,
    bytes: BytesPerParameter,
    gradient_message_bytes: f64,
    weight_message_bytes: f64,
    placed: Placed,
    /// Number of the tier that stands for the pinned staging buffers, where they have a limit.
    pinned: Option<u8>,
    /// Steps of the run, one after the other.
    steps: u32,
    /// The communicator slots of every program.
    groups: Vec<Group>,
    border_transfer: TransferId,
    border_bytes: u64,
    /// Bytes of a received border that its tensor-parallel ranks gather, where it came in pieces.
    gathered_border: Option<u64>,
    /// Parameters of the embedding table on one rank.
    table_parameters: u64,
}

impl Setup<'_> {
    /// Bytes that cross the border behind a stage, either way, on one rank.
    fn border_bytes(&self, _stage: u32) -> u64 {
        self.border_bytes
    }
}

/// A step, ready to run.
#[derive(Debug)]
pub struct Plan {
    /// What the engine plays.
    pub world: World,
    /// Which rank is where.
    pub layout: Layout,
    /// The order of passes.
    pub order: Order,
    /// Micro-batches of one data-parallel rank.
    pub micro_batches: u32,
    /// Steps, one after the other.
    pub steps: u32,
    /// Tokens of all steps.
    pub tokens: u64,
    /// FLOPs as MFU counts them.
    pub model_flops: StepFlops,
    /// FLOPs on matrix units that run, all ranks together.
    pub hardware_flops: f64,
    /// Sizes of the groups.
    pub degrees: Degrees,
}

impl Plan {
    /// The name of a rank for readers: `rank 0017 · stage 3 · tp 1 dp 4`.
    pub fn rank_name(&self, rank: RankId) -> String {
        let width = self.layout.ranks().saturating_sub(1).to_string().len();
        let mut name = format!("rank {:0width$} · stage {}", rank.0, self.stage(rank));
        for axis in [Axis::Tp, Axis::Cp, Axis::Dp] {
            if self.layout.size(axis) > 1 {
                let separator = if name.ends_with(|c: char| c.is_ascii_digit())
                    && !name.contains(" · tp")
                    && !name.contains(" · cp")
                {
                    " · "
                } else {
                    " "
                };
                name += &format!("{separator}{axis} {}", self.layout.coordinate(rank, axis));
            }
        }
        name
    }
    /// The pipeline rank of a rank.
    pub fn stage(&self, rank: RankId) -> u32 {
        self.layout.coordinate(rank, Axis::Pp)
    }
}

/// Plans the step of `workload` on `machine`, or the first `steps` steps of a run one after the other: that begins
/// without optimizer moments, which appear with the first update.
///
/// # Errors
/// The workload does not fit the machine, its schedule is not defined for its numbers, or a group is not connected.
pub fn plan(
    workload: &WorkloadSpec,
    model: &ModelSpec,
    machine: &Machine,
    lowering: &mut Lowering<'_>,
    prices: &dyn Prices,
    steps: u32,
) -> Result<Plan, PlanError> {
    let steps = steps.max(1);
    let devices = u64::from(machine.devices());
    let degrees = degrees(workload, devices);
    let micro_batches = workload.micro_batches(devices) as u32;
    let mut order = order(workload, micro_batches)?;
    let split = layer_split(workload, model, &order)?;
    let shard = Shard::new(workload, model);
    let loads = expert_load::of_layers(workload, model)?;
    let stages = unit::units_of_stages(model, &shard, &workload.recompute, &split, &loads);
    check_size(workload, &order, &stages)?;
    let whole_border = shard.boundary_bytes(model).round() as u64;
    let cuts_border = workload.parallelism.pipeline.scatter_gather && !shard.sequence_parallel;
    let border_bytes = if cuts_border { whole_border / shard.tensor } else { whole_border };
    let layout = layout(workload, &degrees, machine)?;
    if workload.parallelism.pipeline.schedule == ScheduleKind::ZbAuto && stages.len() > 1 {
        let profile = profile::profile(workload, &stages, border_bytes, &degrees, &layout, lowering, prices)?;
        let shape = Shape::new(degrees.pipeline, micro_batches);
        order = schedule::find(schedule_name(ScheduleKind::ZbAuto))?.order_for(&shape, &profile)?;
    }
    let setup = Setup {
        workload,
        degrees,
        stages,
        bytes: workload.bytes_per_parameter(),
        gradient_message_bytes: workload.precision.gradient_communication().bytes(),
        weight_message_bytes: workload.precision.weight_communication().bytes(),
        placed: placed(workload, machine)?,
        pinned: workload.offload.pinned_buffer_bytes.map(|_| machine.tier_count(DeviceId(0)) as u8),
        steps,
        groups: groups_of(workload, model, &degrees, machine)?,
        border_transfer: lowering.transfer(Transfer { op: Op::SendRecv, bytes: border_bytes }),
        border_bytes,
        gathered_border: (cuts_border && shard.tensor > 1).then_some(whole_border),
        table_parameters: model.vocabulary.div_ceil(u64::from(degrees.tensor)) * model.hidden,
        order: &order,
    };
    let mut stage = Stage::new(&setup, prices, lowering);
    let sends = match workload.parallelism.pipeline.p2p {
        PointToPoint::Async => Sends::Asynchronous,
        PointToPoint::Blocking => Sends::Blocking,
        PointToPoint::Batched => Sends::Batched,
    };
    let options = Options { sends, lanes: 1, first_slot: setup.groups.len() as u16, steps };
    let pipeline = pipeline::programs(&order, options, &mut stage);
    let used = std::mem::take(&mut stage.used);
    let world =
        Assembly { machine, layout: &layout, setup: &setup, used: &used, lowering }.world(pipeline)?;
    let sequence = workload.sequence(model);
    let flops =
        |p: &Arc<crate::program::Program>| p.ops.iter().map(|o| p.infos[o.info as usize].flops).sum::<f64>();
    let replicas = f64::from(layout.ranks() / degrees.pipeline);
    let hardware_flops = world.programs.iter().map(flops).sum::<f64>() * replicas;
    Ok(Plan {
        world,
        layout,
        micro_batches,
        tokens: workload.batch.global * sequence * u64::from(steps),
        model_flops: StepFlops::of(model, workload.batch.global * u64::from(steps), sequence),
        steps,
        hardware_flops,
        degrees,
        order,
    })
}

/// Most ops of all programs together: about 6 GB.
const MOST_OPS: u64 = 1 << 26;

/// Refuses a step whose programs would not fit in memory, before they are written.
fn check_size(w: &WorkloadSpec, order: &Order, stages: &[Vec<Unit>]) -> Result<(), SpecError> {
    let of_stage = |units: &Vec<Unit>| {
        use schedule::Pass::{Backward, Forward, InputGrad, WeightGrad};
        [Forward, Backward, InputGrad, WeightGrad]
            .map(|pass| units.iter().map(|u| u.items(pass).len() as u64).sum::<u64>())
    };
    let ops_of_pass: Vec<_> = stages.iter().map(of_stage).collect();
    let mut ops = 0_u64;
    for (rank, slots) in order.ranks.iter().enumerate() {
        for part in slots.iter().flat_map(|slot| slot.parts()) {
            let seat = schedule::Seat { rank: rank as u32, chunk: part.chunk };
            ops += ops_of_pass[order.placement.stage(seat).stage as usize][part.pass as usize];
        }
    }
    if ops <= MOST_OPS {
        return Ok(());
    }
    Err(SpecError::at("batch.global", format!("{} sequences make programs of {ops} ops", w.batch.global))
        .allowed(format!("at most {MOST_OPS} ops, which take about 6 GB"))
        .hint("lower batch.global (later micro-batches repeat the earlier ones), or raise batch.micro_batch"))
}

/// Sizes of the groups of a workload on so many devices.
pub fn degrees(w: &WorkloadSpec, devices: u64) -> Degrees {
    let p = &w.parallelism;
    let (data, context) = (w.data_parallel(devices) as u32, p.context.size as u32);
    let inner = match p.context.kind {
        ContextKind::TwoLevel => p.context.ulysses_size.unwrap_or(1) as u32,
        _ => 1,
    };
    let shard = match p.sharding.kind {
        ShardingKind::None => data * context,
        _ => w.sharding_group(devices) as u32,
    };
    Degrees {
        tensor: p.tensor as u32,
        context,
        context_inner: inner,
        expert: p.expert as u32,
        expert_tensor: p.expert_tensor() as u32,
        data,
        pipeline: p.pipeline.size as u32,
        shard,
    }
}

/// The name of a schedule in `plan::schedule`.
pub fn schedule_name(kind: ScheduleKind) -> &'static str {
    match kind {
        ScheduleKind::Gpipe => "gpipe",
        ScheduleKind::OneFOneB => "1f1b",
        ScheduleKind::EagerOneFOneB => "eager-1f1b",
        ScheduleKind::Interleaved => "interleaved-1f1b",
        ScheduleKind::LoopedBfs => "looped-bfs",
        ScheduleKind::ZbH1 => "zb-h1",
        ScheduleKind::ZbH2 => "zb-h2",
        ScheduleKind::ZbV => "zb-v",
        ScheduleKind::ZbAuto => "zb-auto",
        ScheduleKind::DualPipe => "dualpipe",
        ScheduleKind::DualPipeV => "dualpipe-v",
        ScheduleKind::File => "file",
    }
}

/// The order of passes that a workload asks for; `zb-auto`'s is that for equal passes.
///
/// # Errors
/// The schedule is not defined for its numbers, or its file is wrong.
pub fn order(w: &WorkloadSpec, micro_batches: u32) -> Result<Order, PlanError> {
    let spec = &w.parallelism.pipeline;
    if spec.schedule == ScheduleKind::File {
        return user_order(w);
    }
    let kind = if spec.size == 1 && spec.chunks() == 1 { "1f1b" } else { schedule_name(spec.schedule) };
    let schedule = schedule::find(kind)?;
    let shape = Shape {
        ranks: spec.size as u32,
        micro_batches,
        chunks: spec.chunks.map(|v| v as u16),
        group: spec.group_size.map(|g| g as u32),
    };
    Ok(schedule.order(&shape)?)
}

fn user_order(w: &WorkloadSpec) -> Result<Order, PlanError> {
    let path = w.parallelism.pipeline.order_file.as_deref().unwrap_or_default();
    let at = |text: String| {
        PlanError::Spec(
            SpecError::at("parallelism.pipeline.order_file", text).hint("see `stepsim schedule --help`"),
        )
    };
    let text = std::fs::read_to_string(path).map_err(|e| at(format!("{path} cannot be read: {e}")))?;
    schedule::order_from_json(&text).map_err(|e| at(format!("{path}: {e}")))
}

/// The transformer layers of each stage.
///
/// # Errors
/// The layers cannot be split as the workload asks.
pub fn layer_split(
    w: &WorkloadSpec,
    model: &ModelSpec,
    order: &Order,
) -> Result<Vec<std::ops::Range<u32>>, PlanError> {
    let rule = match &w.parallelism.pipeline.layer_split {
        Some(counts) => LayerSplit::Explicit(counts.iter().map(|n| *n as u32).collect()),
        None => LayerSplit::RemainderMiddle,
    };
    Ok(split_layers(model.layers as u32, order.placement.stages(), &rule)?)
}

/// Which rank is where.
///
/// # Errors
/// The degrees multiply to too many ranks, or the rank map does not name a device of the machine for each.
pub fn layout(w: &WorkloadSpec, d: &Degrees, machine: &Machine) -> Result<Layout, SpecError> {
    let order: Vec<Axis> = w.parallelism.order.iter().map(|a| groups::axis(*a)).collect();
    let sizes = [(Axis::Tp, d.tensor), (Axis::Cp, d.context), (Axis::Dp, d.data), (Axis::Pp, d.pipeline)];
    let layout = Layout::new(&order, &sizes)?;
    match &w.parallelism.rank_map {
        None => Ok(layout),
        Some(path) => {
            let devices = Layout::read_rank_map(path)?;
            layout.with_devices(devices, machine.devices()).map_err(|e| e.under("parallelism"))
        }
    }
}

/// Tier numbers of what is placed off the device.
fn placed(w: &WorkloadSpec, machine: &Machine) -> Result<Placed, SpecError> {
    let number = |field: String, name: &str| -> Result<u8, SpecError> {
        let tier = machine.tier_named(DeviceId(0), name).ok_or_else(|| {
            let have: Vec<_> = machine.tiers_of(DeviceId(0)).map(|t| machine.tier(t).0).collect();
            SpecError::at(field, format!("the machine has no tier `{name}`")).allowed(have.join(", "))
        })?;
        Ok(tier as u8)
    };
    let tiers = |class: &str, list: &[Placement]| -> Result<Vec<Away>, SpecError> {
        let off = list.iter().enumerate().filter(|(_, p)| !p.on_device() && p.fraction > 0.0);
        off.map(|(i, p)| {
            let via = p.via.iter().enumerate();
            let via = via.map(|(j, name)| number(format!("offload.{class}[{i}].via[{j}]"), name));
            Ok(Away {
                tier: number(format!("offload.{class}[{i}].tier"), &p.tier)?,
                via: via.collect::<Result<_, _>>()?,
                fraction: p.fraction,
            })
        })
        .collect()
    };
    let o = &w.offload;
    Ok(Placed {
        weights: tiers("weights", &o.weights)?,
        gradients: tiers("gradients", &o.gradients)?,
        optimizer: tiers("optimizer", &o.optimizer)?,
        activations: tiers("activations", &o.activations)?,
    })
}

/// The groups of more than one member that the step uses, and its copies: the communicator slots of every program.
fn groups_of(
    w: &WorkloadSpec,
    model: &ModelSpec,
    d: &Degrees,
    machine: &Machine,
) -> Result<Vec<Group>, SpecError> {
    let moe = model.moe.is_some();
    let cut = w.parallelism.sharding.kind != ShardingKind::None;
    let mut groups: Vec<Group> = [
        CommGroup::Tensor,
        CommGroup::Context,
        CommGroup::ContextInner,
        CommGroup::ContextOuter,
        CommGroup::Expert,
        CommGroup::ExpertTensor,
    ]
    .map(Group::Layer)
    .into();
    groups.extend([Group::Gradients, Group::Replicas]);
    if cut {
        groups.push(Group::Weights);
    }
    if moe {
        groups.push(Group::ExpertGradients);
        if cut {
            groups.push(Group::ExpertWeights);
        }
    }
    if model.tied_embeddings && d.pipeline > 1 {
        groups.push(Group::Embedding);
    }
    groups.retain(|g| d.size(*g) > 1);
    let p = placed(w, machine)?;
    let mut add = |group: Group| {
        if !groups.contains(&group) {
            groups.push(group);
        }
    };
    for away in p.weights.iter().chain(&p.gradients).chain(&p.optimizer).chain(&p.activations) {
        add(Group::CopyIn(away.near()));
        add(Group::CopyOut(away.near()));
        for (far, near) in away.hops() {
            add(Group::TierIn(far, near));
            add(Group::TierOut(near, far));
        }
    }
    if w.offload.optimizer_on == OptimizerPlace::Host {
        p.optimizer.iter().for_each(|away| add(Group::HostUpdate(away.near())));
    }
    Ok(groups)
}

/// Puts programs, ranks and communicators together.
struct Assembly<'a, 'm> {
    machine: &'a Machine,
    layout: &'a Layout,
    setup: &'a Setup<'a>,
    used: &'a [Vec<Vec<TransferId>>],
    lowering: &'a mut Lowering<'m>,
}

/// A slot that has no communicator yet.
const UNBOUND: CommId = CommId(u32::MAX);

impl Assembly<'_, '_> {
    fn world(mut self, pipeline: Pipeline) -> Result<World, PlanError> {
        let mut world = World {
            resources: (0..self.machine.resources())
                .map(|r| Resource { capacity: self.machine.capacity(ResourceId(r)) })
                .collect(),
            ..World::default()
        };
        world.tiers = (0..self.machine.tiers())
            .map(|t| {
                let (name, capacity) = self.machine.tier(TierId(t));
                Tier { name: name.to_string(), capacity }
            })
            .collect();
        let slots: Vec<u32> =
            pipeline.slots.iter().map(|s| (self.setup.groups.len() + s.len()) as u32).collect();
        for r in 0..self.layout.ranks() {
            self.add_rank(&mut world, RankId(r), &slots);
        }
        for slot in 0..self.setup.groups.len() {
            self.bind_group(&mut world, slot as u16)?;
        }
        self.bind_channels(&mut world, &pipeline)?;
        world.programs = pipeline.programs.into_iter().map(Arc::new).collect();
        Ok(world)
    }

    fn add_rank(&self, world: &mut World, rank: RankId, slots: &[u32]) {
        let stage = self.layout.coordinate(rank, Axis::Pp);
        let device = self.layout.device(rank);
        let start = world.slots.len() as u32;
        world.slots.resize(world.slots.len() + slots[stage as usize] as usize, UNBOUND);
        let tiers = world.tier_uses.len() as u32;
        world.tier_uses.extend(self.machine.tiers_of(device).map(|tier| TierUse { tier, count: 1 }));
        if let Some(bytes) = self.setup.workload.offload.pinned_buffer_bytes {
            world.tier_uses.push(TierUse { tier: TierId(world.tiers.len() as u32), count: 1 });
            world.tiers.push(Tier { name: "pinned".into(), capacity: Bytes(bytes) });
        }
        world.ranks.push(Rank {
            program: ProgramId(stage),
            slots: Span { start, len: slots[stage as usize] },
            tiers: Span { start: tiers, len: world.tier_uses.len() as u32 - tiers },
            slowness: 1.0,
            jitter_seed: 0,
        });
    }

    /// A communicator for every group of one kind.
    fn bind_group(&mut self, world: &mut World, slot: u16) -> Result<(), PlanError> {
        let group = self.setup.groups[usize::from(slot)];
        let mut members = Vec::new();
        let mut devices = Vec::new();
        for r in 0..self.layout.ranks() {
            let rank = RankId(r);
            if world.slots_of(rank)[usize::from(slot)] != UNBOUND {
                continue;
            }
            self.setup.degrees.members(self.layout, rank, group, &mut members);
            if !members.contains(&rank) {
                members.clear();
                members.push(rank);
            }
            devices.clear();
            devices.extend(members.iter().map(|m| self.layout.device(*m)));
            let mut transfers: Vec<TransferId> = Vec::new();
            let stages = members.iter().map(|m| self.layout.coordinate(*m, Axis::Pp));
            for stage in stages.take(2) {
                let used = &self.used[stage as usize][usize::from(slot)];
                used.iter().for_each(|t| {
                    if !transfers.contains(t) {
                        transfers.push(*t)
                    }
                });
            }
            let comm = if group.is_local() {
                let mut route = Vec::new();
                let latency = local_route(self.machine, self.layout.device(rank), group, &mut route)?;
                self.lowering.channel(world, &[rank], &route, latency, &transfers)
            } else {
                self.lowering.comm(world, &members, &devices, &transfers)?
            };
            members.iter().for_each(|m| world.bind(*m, slot, comm));
        }
        Ok(())
    }

    /// A communicator for each pipeline channel of each pipeline.
    fn bind_channels(&mut self, world: &mut World, pipeline: &Pipeline) -> Result<(), PlanError> {
        let first = self.setup.groups.len();
        let transfers = [self.setup.border_transfer];
        // Slots of each channel at its two ends.
        let mut ends: Vec<[(u32, u16); 2]> = vec![[(u32::MAX, 0); 2]; pipeline.channels.len()];
        for (rank, slots) in pipeline.slots.iter().enumerate() {
            for (i, channel) in slots.iter().enumerate() {
                let end = usize::from(pipeline.channels[*channel as usize].from.rank != rank as u32);
                ends[*channel as usize][end] = (rank as u32, (first + i) as u16);
            }
        }
        for r in (0..self.layout.ranks()).map(RankId).filter(|r| self.layout.coordinate(*r, Axis::Pp) == 0) {
            let at = |stage: u32| {
                let mut coords = self.layout.coords(r);
                coords[Axis::Pp as usize] = stage;
                self.layout.rank(coords)
            };
            for [(from, from_slot), (to, to_slot)] in &ends {
                let members = [at(*from), at(*to)];
                let devices = members.map(|m| self.layout.device(m));
                let comm = self.lowering.comm(world, &members, &devices, &transfers)?;
                world.bind(members[0], *from_slot, comm);
                world.bind(members[1], *to_slot, comm);
            }
        }
        Ok(())
    }
}

/// What a copy, or an update by the host, occupies, and its latency.
///
/// Between two tiers: the way from the one to the device and back to the other, less what both have in common. An
/// update reads and writes the memory that holds the state: its last link, both ways (a half-duplex one twice).
fn local_route(
    machine: &Machine,
    device: DeviceId,
    group: Group,
    route: &mut Vec<ResourceId>,
) -> Result<Time, PlanError> {
    let way = |tier: u8, direction| {
        let mut links = Vec::new();
        let latency = machine
            .copy_route(device, usize::from(tier), direction, &mut links)
            .map_err(|e| PlanError::Collective(CollectiveError::NotConnected(e.to_string())))?;
        Ok::<_, PlanError>((links, latency))
    };
    use CopyDirection::{In, Out};
    match group {
        Group::CopyIn(tier) => {
            let (links, latency) = way(tier, In)?;
            route.extend(links);
            Ok(latency)
        }
        Group::CopyOut(tier) => {
            let (links, latency) = way(tier, Out)?;
            route.extend(links);
            Ok(latency)
        }
        Group::TierIn(from, to) | Group::TierOut(from, to) => {
            let ((source, latency), (target, _)) = (way(from, In)?, way(to, Out)?);
            let (out, _) = way(from, Out)?;
            let common = out.iter().zip(&target).take_while(|(a, b)| a == b).count();
            route.extend(&source[..source.len() - common]);
            route.extend(&target[common..]);
            Ok(latency)
        }
        Group::HostUpdate(tier) => {
            let ((read, _), (write, _)) = (way(tier, In)?, way(tier, Out)?);
            route.extend(read.first());
            route.extend(write.last());
            Ok(Time::ZERO)
        }
        _ => Ok(Time::ZERO),
    }
}
