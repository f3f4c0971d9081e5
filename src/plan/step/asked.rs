//! The request of a workload on a machine: sizes of groups, order of passes, layers of stages, places of ranks and
//! state, and the groups that its ranks communicate in.

use super::PlanError;
use super::groups::{self, Degrees, Group, UNCUT};
use super::residency::TierShares;
use stepsim_core::ids::RankId;
use stepsim_core::known::number_of;
use stepsim_fabric::topology::{Axis, Front, Layout, Machine};
use stepsim_price::model::flops::TokenFlops;
use stepsim_price::model::{CommGroup, forward_image_flops};
use stepsim_schedule::sharding::{Exchange, GroupSize};
use stepsim_schedule::{
    self as schedule, LayerSplit, Order, Pass, ScheduleChoice, Slot, StageAt, StagePlacement, split_layers,
};
use stepsim_spec::SpecError;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::stack::UpdatePass;
use stepsim_spec::workload::{
    ContextKind, DispatcherKind, ExpertOverlap, ModelRef, OptimizerPlace, WorkloadSpec,
};

/// Sizes of the groups of a workload on `devices` with its stages so placed, and the device of each rank.
///
/// # Errors
/// The degrees multiply to too many ranks, or the rank map does not name a device of the machine for each.
pub fn laid_out(
    w: &WorkloadSpec,
    (devices, placement): (u64, &StagePlacement),
    machine: &Machine,
) -> Result<(Degrees, Layout), SpecError> {
    let uncut = degrees(w, devices, placement);
    let layout = layout(w, &uncut, machine)?;
    let facts = w.sharding();
    let group = sharding_group(w, (&uncut, RankId(0)), &layout, machine);
    let dense = facts.dense.ranks(group, uncut.replicas());
    let experts = facts.experts.ranks(uncut.expert_part(group), uncut.expert_replicas());
    let front_dense = uncut.front.map_or(UNCUT, |front| {
        let first = layout.rank([0, 0, 0, 0, 0]);
        let most = sharding_group(w, (&uncut.on(0), first), &layout, machine).min(front.data);
        let part = (1..=most).rev().find(|part| front.data.is_multiple_of(*part)).unwrap_or(1);
        facts.dense.ranks(part, front.data)
    });
    Ok((Degrees { dense, experts, front_dense, ..uncut }, layout))
}

/// Ranks of a sharding group in the grid of these degrees, whose first rank is `first`: as stated, or as its kind has
/// them.
fn sharding_group(
    w: &WorkloadSpec,
    (grid, first): (&Degrees, RankId),
    layout: &Layout,
    machine: &Machine,
) -> u32 {
    match (w.parallelism.sharding.group, w.sharding().group) {
        (Some(group), _) => group as u32,
        (None, GroupSize::All) => grid.replicas(),
        (None, GroupSize::Node) => on_one_node(grid, first, layout, machine),
    }
}

/// How many of the ranks that hold the same weights as a rank lie on its node, in equal parts.
fn on_one_node(d: &Degrees, first: RankId, layout: &Layout, machine: &Machine) -> u32 {
    let all = d.replicas();
    if machine.fabric().node_size <= 1 {
        return all;
    }
    let node = |rank: &RankId| machine.node_of(layout.device(*rank));
    let holders: Vec<RankId> = d.holders(layout, first).collect();
    let near = holders.iter().take_while(|rank| node(rank) == node(&holders[0])).count() as u32;
    (1..=near).rev().find(|part| all.is_multiple_of(*part)).unwrap_or(1)
}

/// Sizes of the groups of a workload on `devices`, with nothing cut.
fn degrees(w: &WorkloadSpec, devices: u64, placement: &StagePlacement) -> Degrees {
    let p = &w.parallelism;
    let (data, context) = (w.data_parallel(devices) as u32, p.context.size as u32);
    let first = w.module_stages() as u32;
    let end = |stage: u32| placement.seat(StageAt { direction: 0, stage }).rank;
    let inner = match p.context.kind {
        ContextKind::TwoLevel => p.context.inner() as u32,
        _ => 1,
    };
    Degrees {
        tensor: p.tensor as u32,
        context,
        context_inner: inner,
        dynamic: p.context.dynamic.is_some(),
        expert: p.expert as u32,
        expert_tensor: p.expert_tensor() as u32,
        data,
        pipeline: p.pipeline.size as u32,
        front: w.module_devices().map(|own| Front { tensor: own.tensor as u32, data: own.data as u32 }),
        copies: if placement.is_mirrored() { 2 } else { 1 },
        ends: placement.ends_apart(first).then(|| [end(first), end(placement.stages() - 1)]),
        ..Degrees::ONE_RANK
    }
}

/// The order of passes that a workload asks for; a searched schedule's is that for equal passes.
///
/// # Errors
/// The schedule is not defined for its numbers, or its file is wrong.
pub fn order(w: &WorkloadSpec, micro_batches: u32) -> Result<Order, PlanError> {
    let pipeline = &w.parallelism.pipeline;
    let order = match pipeline.choice() {
        ScheduleChoice::Named(schedule) => schedule.order(&pipeline.shape(micro_batches))?,
        ScheduleChoice::File => user_order(w, micro_batches)?,
    };
    let order = match &w.model {
        ModelRef::Inline(model) => with_sides(order, w, model),
        _ => order,
    };
    Ok(if w.expert.overlap.pairs() { paired(order) } else { order })
}

/// The order with a module beside every rank, where there is one. How long an encoder's pass takes of a stage's goes
/// by FLOPs.
fn with_sides(order: Order, w: &WorkloadSpec, model: &ModelSpec) -> Order {
    let Some(module) = w.module_in_bubbles(model) else { return order };
    let sequence = w.sequence(model);
    let of_model = TokenFlops::of(&w.seen_by(model), sequence);
    let stage =
        (of_model.matrices + of_model.mixing_causal) * sequence as f64 / f64::from(order.placement.ranks());
    let images = module.most_items() as f64 * forward_image_flops(&module);
    order.with_sides(images / stage, module.is_trained())
}

/// The fewest micro-batches whose order contains every turn of the full schedule once; all of them where the schedule
/// does not repeat itself, or passes are paired.
pub fn fewest_micro_batches(w: &WorkloadSpec, micro_batches: u32) -> u32 {
    let pipeline = &w.parallelism.pipeline;
    if w.side_ranks() > 0 {
        return micro_batches;
    }
    let turns = match (pipeline.choice(), w.expert.overlap) {
        (ScheduleChoice::Named(schedule), ExpertOverlap::None | ExpertOverlap::SharedExpert) => {
            schedule.turns(&pipeline.shape(micro_batches))
        }
        _ => None,
    };
    turns.map_or(micro_batches, |turns| turns.fewest(micro_batches))
}

/// Each backward pass with the forward pass behind it: the same order of passes, with one more forward pass before the
/// first backward one.
fn paired(order: Order) -> Order {
    let ranks = order.ranks.into_iter().map(|slots| {
        let mut paired: Vec<Slot> = Vec::with_capacity(slots.len());
        for slot in slots {
            match (paired.last().copied(), slot) {
                (Some(Slot::Single(backward)), Slot::Single(forward))
                    if backward.pass == Pass::Backward && forward.pass == Pass::Forward =>
                {
                    paired.pop();
                    paired.push(Slot::Overlapped { forward, backward });
                }
                _ => paired.push(slot),
            }
        }
        paired
    });
    Order { ranks: ranks.collect(), ..order }
}

fn user_order(w: &WorkloadSpec, micro_batches: u32) -> Result<Order, PlanError> {
    let at = |e: SpecError| e.under("parallelism.pipeline.order_file").hint("see `stepsim schedule --help`");
    let file = w.parallelism.pipeline.order_file.as_ref();
    let content = file.map_or_else(|| Err(SpecError::at("", "no order is given")), |file| file.content());
    let order = schedule::order_from_json(&content.map_err(at)?.to_string())
        .map_err(|e| at(SpecError::at("", e.to_string())))?;
    let unlike = |what: &str, has: u32, step: u32, field: &str, needs: u64| {
        let error = SpecError::at("parallelism.pipeline.order_file", format!("an order of {has} {what}"));
        let allowed = format!("{step} {what}, as the step has");
        Err(error.allowed(allowed).hint(format!("write an order of {step}, or set {field}={needs}")).into())
    };
    let (ranks, of_step) = (order.placement.ranks(), w.parallelism.pipeline.size as u32);
    if ranks != of_step {
        return unlike("ranks", ranks, of_step, "parallelism.pipeline.size", u64::from(ranks));
    }
    if order.micro_batches != micro_batches {
        let sequences = w.batch.global / u64::from(micro_batches.max(1)) * u64::from(order.micro_batches);
        return unlike("micro-batches", order.micro_batches, micro_batches, "batch.global", sequences);
    }
    Ok(order)
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
    // Stages of an encoder hold no layers; a list has their zeros.
    let own = match rule {
        LayerSplit::Explicit(_) => 0,
        _ => w.module_stages() as u32,
    };
    let stages = order.placement.stages().saturating_sub(own);
    let split = split_layers(model.layers as u32, stages, &rule)?;
    Ok((0..own).map(|_| 0..0).chain(split).collect())
}

/// The device of each rank.
fn layout(w: &WorkloadSpec, d: &Degrees, machine: &Machine) -> Result<Layout, SpecError> {
    let order: Vec<Axis> = w.parallelism.order.iter().map(|a| groups::axis(*a)).collect();
    let stages = w.grid_stages() as u32;
    let sizes = [(Axis::Tp, d.tensor), (Axis::Cp, d.context), (Axis::Dp, d.data), (Axis::Pp, stages)];
    let layout = Layout::new(&order, &sizes)?.with_front(d.front);
    match &w.parallelism.rank_map {
        None => Ok(layout),
        Some(map) => {
            let map = map.content().map_err(|e| e.under("parallelism.rank_map"))?;
            let devices = Layout::rank_map(map).map_err(|e| e.under("parallelism"))?;
            layout.with_devices(devices, machine.devices()).map_err(|e| e.under("parallelism"))
        }
    }
}

/// Scale-up domains over which the ranks that share the experts of rank 0 lie.
///
/// # Errors
/// They lie unevenly, and the dispatcher goes by domains.
pub fn expert_domains(
    w: &WorkloadSpec,
    d: &Degrees,
    layout: &Layout,
    machine: &Machine,
) -> Result<u64, SpecError> {
    let mut members = Vec::new();
    d.members(layout, RankId(0), Group::Layer(CommGroup::Expert), &mut members);
    let mut nodes: Vec<u32> = members.iter().map(|r| machine.node_of(layout.device(*r))).collect();
    nodes.sort_unstable();
    let mut sizes: Vec<usize> = nodes.chunk_by(|a, b| a == b).map(<[u32]>::len).collect();
    let domains = sizes.len() as u64;
    sizes.dedup();
    if sizes.len() == 1 {
        return Ok(domains);
    }
    // Without equal shares there are no rails: copies for each expert know nothing of domains.
    match w.expert.dispatcher {
        DispatcherKind::Alltoall | DispatcherKind::Allgather => Ok(1),
        _ => Err(SpecError::at("expert.dispatcher", "the ranks that share experts lie unevenly over nodes")
            .allowed("parallelism.expert that fills whole nodes, or dispatcher alltoall or allgather")
            .hint("choose parallelism.expert so that every node holds equally many of its ranks")),
    }
}

/// The groups of more than one member that the step uses, and its copies: the communicator slots of every program.
pub(super) fn groups_of(w: &WorkloadSpec, model: &ModelSpec, d: &Degrees, p: &TierShares) -> Vec<Group> {
    let moe = model.moe.is_some();
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
    groups.extend(d.dynamic_groups());
    if w.exchanges_images() {
        groups.push(Group::Layer(CommGroup::Data));
    }
    groups.extend(Exchange::ALL.map(Group::Dense));
    if moe {
        groups.extend(Exchange::ALL.map(Group::Experts));
    }
    if w.stack().optimizer.passes.contains(&UpdatePass::Norm) {
        groups.push(Group::Model);
    }
    if w.side_ranks() > 0 && w.trains_modules() {
        groups.push(Group::Pipeline);
    }
    if model.table_at_both_ends() && d.ends.is_some() {
        groups.push(Group::Embedding);
    }
    groups.retain(|g| d.grids().any(|grid| grid.size(*g) > 1));
    let mut add = |group: Group| {
        number_of(&mut groups, group);
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
    groups
}
