//! A training step of a transformer: workload and machine in, a world of rank programs out.
//!
//! 1. The rank grid (tensor, context, data, pipeline) is laid over the devices ([`Layout`]; `asked` reads it and all
//!    else from the workload).
//! 2. The schedule says in which order each pipeline rank runs its passes ([`stepsim_schedule`]).
//! 3. For each pipeline rank one program is written: `stage` pushes kernels and communication layer by layer,
//!    [`residency`] brings weights, gradients, optimizer state and activations in and out, `pipeline` sends and
//!    receives.
//! 4. Every rank gets its program and its communicators (`assembly` and `groups`, lowered by [`Lowering`]).
//!
//! Steps that differ in prices alone share what 3 has written (`templates`).
//!
//! Hazards:
//! * What decides what 3 writes must stand in the origin of `templates`, and a kernel gets its price from
//!   `Writer::price` alone.
//! * All devices are taken to be of the class of the first: kernels are priced once.
//! * Ranks of one pipeline stage share a program, so what differs inside a stage (a causal ring without zigzag, an
//!   uneven load on experts) is priced for the rank that has most to do.

mod asked;
mod assembly;
pub mod border;
mod chain;
mod error;
pub mod expert_load;
mod forming;
pub mod groups;
mod layers;
pub mod layout_copies;
mod messages;
mod modules;
pub mod overlap;
mod packs;
mod paired;
mod pass_share;
mod prices;
mod profile;
pub mod residency;
mod setup;
mod stage;
mod templates;
mod unit;
mod writer;

pub use asked::{expert_domains, fewest_micro_batches, laid_out, layer_split, order};
pub use error::PlanError;
pub use forming::Forming;
pub use layers::{Layers, units_of_stages};
pub use messages::{Border, borders, side_border};
pub use packs::Packs;
pub use pass_share::share_of_pass;
pub use prices::{PriceList, Prices};
pub use profile::transfer_of;
pub use templates::Templates;
pub use unit::{FullRecompute, ResidentState, Unit};

use crate::launch::Setting;
use crate::pipeline;
use crate::pipeline::{PipelineOptions, Sends};
use assembly::Assembly;
use groups::Degrees;
use messages::Messages;
use residency::StateShares;
use setup::{Setup, Variant};
use stage::Stage;
use stepsim_core::ids::{DeviceId, OpId, RankId, TransferId};
use stepsim_core::kernel_class::KernelKind;
use stepsim_core::program::{OpInfo, Program, World};
use stepsim_fabric::collective::Lowering;
use stepsim_fabric::topology::{Axis, Layout, Machine};
use stepsim_price::documents::DynamicContext;
use stepsim_price::model::Shard;
use stepsim_price::model::flops::StepFlops;
use stepsim_schedule as schedule;
use stepsim_schedule::{Data, Order, ScheduleChoice, Slot};
use stepsim_spec::SpecError;
use stepsim_spec::model::{AttentionKernel, AttentionSpec, ModelSpec};
use stepsim_spec::stack::HostSpec;
use stepsim_spec::workload::{NoiseSpec, PointToPoint, WorkloadSpec};
use templates::{OnDevice, ProgramOrigin, Programs, TransfersByRank, VariantPrograms};
use writer::Writer;

/// The same prices on all devices.
impl<P: Prices> PriceList for P {
    fn on(&self, _: u32) -> &dyn Prices {
        self
    }
}

/// A step, ready to run.
#[derive(Debug)]
pub struct Plan {
    /// The world that the engine plays.
    pub world: World,
    /// The device of each rank.
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
    pub hardware_flops: u128,
    /// The FLOPs that a causal mask skips: executed attention is half of attention in full.
    pub skipped_flops: u128,
    /// Sizes of the groups.
    pub degrees: Degrees,
    /// The documents on groups of ranks, where each has a degree of context parallelism of its own.
    pub dynamic: Option<DynamicContext>,
}

impl Plan {
    /// The name of a rank for readers: `rank 0017 · stage 3 · tp 1 dp 4`; of a slow one `rank 0017 ×2.85 · stage 3 …`.
    pub fn rank_name(&self, rank: RankId) -> String {
        let width = self.layout.ranks().saturating_sub(1).to_string().len();
        let slow = self.world.ranks[rank.index()].slow().map_or(String::new(), |by| format!(" {by}"));
        let mut name = format!("rank {:0width$}{slow} · stage {}", rank.0, self.stage(rank));
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
    prices: &dyn PriceList,
    steps: u32,
) -> Result<Plan, PlanError> {
    let run = StepSeries { workload, model, machine, devices: u64::from(machine.devices()), steps };
    plan_on(&run, lowering, prices, None)
}

/// Steps of a workload on some devices of a machine.
#[derive(Clone, Copy, Debug)]
pub struct StepSeries<'a> {
    /// The step.
    pub workload: &'a WorkloadSpec,
    /// Its model.
    pub model: &'a ModelSpec,
    /// The machine.
    pub machine: &'a Machine,
    /// So many of its devices, which the workload's rank map names.
    pub devices: u64,
    /// So many steps, one after the other.
    pub steps: u32,
}

/// The same on some of the machine's devices; programs of steps that differ in prices alone are written once for all
/// that have `templates` in common.
///
/// # Errors
/// As [`plan`].
pub fn plan_on(
    run: &StepSeries<'_>,
    lowering: &mut Lowering<'_>,
    prices: &dyn PriceList,
    templates: Option<&Templates>,
) -> Result<Plan, PlanError> {
    let StepSeries { workload, model, machine, devices, .. } = *run;
    let steps = run.steps.max(1);
    let packs = Packs::new(workload, model, devices)?;
    let micro_batches = packs.most_passes().unwrap_or(workload.micro_batches(devices) as u32);
    let mut order = order(workload, micro_batches)?;
    let split = layer_split(workload, model, &order)?;
    let (degrees, layout) = laid_out(workload, (devices, &order.placement), machine)?;
    let domains = expert_domains(workload, &degrees, &layout, machine)?;
    let shard = packs.onto(Shard::over_domains(workload, model, domains));
    let loads = expert_load::of_layers(workload, model)?;
    let split = (split.as_slice(), degrees.ends.is_some());
    let stages = units_of_stages(model, &shard, workload, split, &loads);
    check_size(workload, &order, &stages, packs.count())?;
    check_trained(workload, &stages)?;
    let borders = borders(workload, model, &shard, &stages);
    let mut searched = false;
    if let ScheduleChoice::Named(schedule) = workload.parallelism.pipeline.choice()
        && schedule.facts().searched
    {
        searched = true;
        let (degrees, layout) = (&degrees, &layout);
        let asked = profile::ProfileContext { workload, machine, degrees, layout, lowering, prices };
        let widest = borders.iter().map(|border| border.message_bytes(Data::Activations)).max();
        let profile = asked.profile(&order.placement, &stages, widest.unwrap_or(0))?;
        order = schedule.order_for(&workload.parallelism.pipeline.shape(micro_batches), &profile)?;
    }
    let pipeline = &workload.parallelism.pipeline;
    let setup = Setup {
        updates_unasked: pipeline.size > 1 && pipeline.cuts_backward().unwrap_or_else(|| order.splits()),
        shares: StateShares::of(workload, model, degrees, machine)?,
        stages,
        steps,
        messages: Messages::new(borders, side_border(workload, model), lowering),
        tied_embeddings: model.tied_embeddings,
        table_parameters: model.vocabulary.div_ceil(u64::from(degrees.tensor)) * model.hidden,
        forming: packs.dynamic().and_then(Forming::of),
    };
    let sends = sends(workload.parallelism.pipeline.p2p);
    check_exchanges(workload, &order)?;
    let first_slot = setup.shares.groups.len() as u16;
    let (launched, blocks) = (workload.host().is_some(), workload.host().is_some_and(|host| host.blocking));
    let options = PipelineOptions { sends, lanes: 1, first_slot, steps, launched, blocks };
    // Every class of devices runs programs of its own, and so do ranks whose documents differ.
    let variant = |rank| Variant {
        class: machine.device_class(layout.device(rank)),
        documents: packs.of(&layout, rank),
    };
    let variants = variants(&layout, &variant);
    let write = |lowering: &mut Lowering<'_>| -> Result<Vec<VariantPrograms>, PlanError> {
        let written = variants.iter().map(|kind| {
            let packed = packs.units(kind.documents, model, &shard, workload, split, &loads);
            let own = packs.passes(kind.documents).map(|passes| self::order(workload, passes)).transpose()?;
            let order = own.as_ref().unwrap_or(&order);
            let mut stage = Stage::new(&setup, order, prices.on(kind.class), lowering, packed);
            let pipeline = pipeline::programs(order, options, &mut stage);
            let Writer { used, reads, kernels, .. } = stage.w;
            Ok(VariantPrograms { variant: *kind, pipeline, used, reads, kernels })
        });
        written.collect()
    };
    let crosses = workload.host().is_some() && border::leaves_node(machine, &layout);
    let on = |class| {
        let prices = prices.on(class);
        let launches = workload.host().map(|host| {
            let of_rank = |experts| experts / workload.parallelism.expert.max(1);
            let groups = model.experts_by_layer().into_iter().map(of_rank).collect();
            let tensor_us = if crosses { host.crossing_us * f64::from(degrees.tensor) } else { 0.0 };
            let (gap, slowness) = (prices.gap(), prices.host_slowness());
            let layers = host.layers(&workload.recompute);
            (host, Setting { gap, slowness, groups, tensor_us, layers })
        });
        OnDevice { prices, launches, bandwidth: machine.device_classes()[class as usize].memory_bandwidth() }
    };
    let programs = match templates.filter(|_| packs.are_alike() && !searched) {
        None => Programs::of(write(lowering)?, &on),
        Some(templates) => {
            // Noise is put on a plan that is finished.
            let workload = WorkloadSpec { noise: NoiseSpec::default(), ..workload.clone() };
            let tiers = machine.tiers_of(DeviceId(0)).map(|tier| machine.tier(tier).0.to_string()).collect();
            let (model, layout, variants) = (model.clone(), layout.clone(), variants.clone());
            let origin =
                ProgramOrigin { workload, model, devices, steps, degrees, layout, domains, tiers, variants };
            templates.programs(origin, lowering, &on, write)?
        }
    };
    let used = programs
        .written
        .iter()
        .fold(TransfersByRank::new(), |used, written| united(written.used.clone(), used));
    let world =
        Assembly { machine, layout: &layout, setup: &setup, used: &used, lowering, variant: &variant }
            .world(programs)?;
    let sequence = workload.sequence(model);
    let [hardware_flops, skipped_flops] = executed_by_all(&world, workload, model);
    let model_flops = packs.flops(workload, model, workload.batch.global).times(f64::from(steps));
    let executed = (hardware_flops + skipped_flops) as f64;
    if executed < model_flops.model * (1.0 - ROUNDING) {
        return Err(PlanError::NotExecuted(model_flops.model, executed));
    }
    Ok(Plan {
        world,
        layout,
        micro_batches,
        tokens: workload.batch.global * sequence * u64::from(steps),
        model_flops,
        steps,
        hardware_flops,
        skipped_flops,
        degrees,
        dynamic: packs.into_dynamic(),
        order,
    })
}

/// FLOPs of kernels are whole.
const ROUNDING: f64 = 1e-6;

/// FLOPs of all ranks as [`executed`] counts them.
fn executed_by_all(world: &World, workload: &WorkloadSpec, model: &ModelSpec) -> [u128; 2] {
    let mut ranks_of = vec![0u128; world.programs.len()];
    world.ranks.iter().for_each(|rank| ranks_of[rank.program.index()] += 1);
    world.programs.iter().zip(&ranks_of).fold([0; 2], |sums, (p, ranks)| {
        let Executed(of_one) = *p.facts.of(|| Executed(executed(p, workload, model, |_| 1)));
        [sums[0] + of_one[0] * ranks, sums[1] + of_one[1] * ranks]
    })
}

/// FLOPs of a program as [`executed`] counts them, each op once.
struct Executed([u128; 2]);

/// FLOPs that a program executes, and the part that a causal mask skips, each op as often as `times` says.
pub fn executed(
    program: &Program,
    workload: &WorkloadSpec,
    model: &ModelSpec,
    times: impl Fn(OpId) -> u64,
) -> [u128; 2] {
    // Of keys that an indexer chose none is skipped.
    let masks = |attention: &AttentionSpec| {
        attention.kernel == AttentionKernel::Flash && attention.causal && attention.indexer.is_none()
    };
    let of_layers: Vec<bool> = match model.layer_kinds.is_empty() {
        true => Vec::new(),
        false => (0..model.layers).map(|layer| masks(&model.layer(layer).attention)).collect(),
    };
    let of_model = masks(&model.attention);
    let skips = |info: &OpInfo| {
        let of_module = || workload.modules.keys().any(|name| unit::names(name, &info.name));
        let of_layer = info.layer.and_then(|layer| of_layers.get(layer as usize));
        *of_layer.unwrap_or(&of_model)
            && info.class.is_some_and(|class| class.kind() == KernelKind::Attention)
            && !of_module()
    };
    // Whole ones: sums are then the same in any order.
    let mut counts = vec![0u64; program.infos.len()];
    (0..).map(OpId).zip(&program.ops).for_each(|(id, op)| counts[op.info as usize] += times(id));
    program.infos.iter().zip(counts).fold([0; 2], |sums, (info, count)| {
        let flops = info.flops.round() as u128 * u128::from(count);
        [sums[0] + flops, sums[1] + if count > 0 && skips(info) { flops } else { 0 }]
    })
}

/// The transfers of two variants: messages of unequal micro-batches have unequal bytes.
fn united(mut used: TransfersByRank, more: TransfersByRank) -> TransfersByRank {
    for (groups, more) in used.iter_mut().flatten().zip(more.into_iter().flatten()) {
        let new: Vec<TransferId> = more.into_iter().filter(|id| !groups.contains(id)).collect();
        groups.extend(new);
    }
    used
}

/// The variants that there are, in order.
fn variants(layout: &Layout, of: &dyn Fn(RankId) -> Variant) -> Vec<Variant> {
    let all: std::collections::BTreeSet<Variant> = (0..layout.ranks()).map(|rank| of(RankId(rank))).collect();
    all.into_iter().collect()
}

/// Refuses stages of the language model without a backward pass: the gradients that the schedule sends to them are not
/// asked for. To stages of an encoder nothing is sent then.
fn check_trained(w: &WorkloadSpec, stages: &[Vec<Unit>]) -> Result<(), SpecError> {
    let alone = |units: &Vec<Unit>| !units.is_empty() && units.iter().all(|u| !u.plan.has_backward());
    let own = w.module_stages() as usize;
    let of_model = &stages[own..stages.len() - w.side_ranks()];
    let Some(stage) = of_model.iter().position(alone) else { return Ok(()) };
    let stage = own + stage;
    let frozen = w.training.frozen_layers;
    let modules = if stage == 0 && !w.modules.is_empty() { " and frozen modules" } else { "" };
    let problem = format!("{frozen} frozen layers{modules} fill stage {stage}");
    Err(SpecError::at("training.frozen_layers", problem)
        .allowed("frozen layers that leave every pipeline stage one that is trained")
        .hint("give the first stage more layers (parallelism.pipeline.layer_split), or use fewer stages or chunks"))
}

fn sends(p2p: PointToPoint) -> Sends {
    match p2p {
        PointToPoint::Async => Sends::Asynchronous,
        PointToPoint::Blocking => Sends::Blocking,
        PointToPoint::Batched => Sends::Batched,
    }
}

/// True if a host may stop with a send that its neighbour does not await yet: it waits for every kernel, or passes
/// forward alone fill its queue.
fn stops(host: &HostSpec, order: &Order) -> bool {
    let forward = |slot: &&Slot| slot.parts().all(|part| part.pass == schedule::Pass::Forward);
    let ahead = order.ranks.iter().map(|slots| slots.iter().take_while(forward).count());
    host.blocking || ahead.max() > Some(host.queue as usize)
}

/// Lines of a cycle of waits that a message shows.
const SHOWN: usize = 6;

/// Refuses exchanges in which ranks would wait for each other in a ring, before anything is played. The shortest
/// order of the schedule has all that the whole one has, but for hosts that stop.
fn check_exchanges(w: &WorkloadSpec, order: &Order) -> Result<(), PlanError> {
    let pipeline = &w.parallelism.pipeline;
    let stops = w.host().is_some_and(|host| stops(host, order));
    if pipeline.p2p == PointToPoint::Async && !stops || pipeline.size < 2 {
        return Ok(());
    }
    let shortest = fewest_micro_batches(w, order.micro_batches);
    let short = (!stops && shortest < order.micro_batches).then(|| self::order(w, shortest)).transpose()?;
    let order = short.as_ref().unwrap_or(order);
    let stands_still = |p2p| pipeline::standstill(order, sends(p2p), w.host());
    let Some(cycle) = stands_still(pipeline.p2p) else { return Ok(()) };
    let others = [PointToPoint::Async, PointToPoint::Batched, PointToPoint::Blocking];
    let run = others.into_iter().filter(|other| *other != pipeline.p2p && stands_still(*other).is_none());
    let name = |p2p: PointToPoint| serde_json::to_value(p2p).ok().and_then(|v| v.as_str().map(str::to_owned));
    let mut allowed: Vec<String> = run.filter_map(name).collect();
    if allowed.is_empty() {
        allowed.push("stack.host.blocking=false and a larger stack.host.queue".into());
    }
    let lines = cycle
        .iter()
        .take(SHOWN)
        .map(|at| format!("\n  rank {} {}: {} waits for {}", at.rank.0, at.stream, at.op, at.waits_for));
    let more = cycle.len().saturating_sub(SHOWN);
    let rest = if more > 0 {
        format!("\n  and {more} more, of which the last waits for the first")
    } else {
        String::new()
    };
    let problem = format!(
        "{} comes to a standstill with schedule {}: each of these waits for the next{}{rest}",
        name(pipeline.p2p).unwrap_or_default(),
        pipeline.choice().name(),
        lines.collect::<String>(),
    );
    let error = SpecError::at("parallelism.pipeline.p2p", problem);
    Err(error.allowed(format!("{} with this schedule and stack", allowed.join(" or "))).into())
}

/// Most ops of all programs together: about 6 GB.
const MOST_OPS: u64 = 1 << 26;

/// Refuses a step whose programs would not fit in memory, before they are written.
fn check_size(w: &WorkloadSpec, order: &Order, stages: &[Vec<Unit>], packs: u32) -> Result<(), SpecError> {
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
    ops = ops.saturating_mul(u64::from(packs));
    if ops <= MOST_OPS {
        return Ok(());
    }
    Err(SpecError::at("batch.global", format!("{} sequences make programs of {ops} ops", w.batch.global))
        .allowed(format!("at most {MOST_OPS} ops, which take about 6 GB"))
        .hint(match packs {
            1 => "lower batch.global (later micro-batches repeat earlier ones), or raise batch.micro_batch",
            _ => "lower parallelism.data or batch.global: ranks with other documents or images run other programs",
        }))
}
