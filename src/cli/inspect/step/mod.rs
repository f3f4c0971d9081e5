//! The expansion of a workload on its machine: groups, programs, memory, collectives.

mod modules;
mod text;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use serde::Serialize;

use modules::ModuleView;

use super::documents::DocumentsView;
use crate::Failure;
use stepsim_core::fold::fold;
use stepsim_core::ids::{DeviceId, RankId};
use stepsim_core::program::{MemoryClass, MemoryWhen, Program, StreamKind, Work};
use stepsim_fabric::collective::Lowering;
use stepsim_plan::step::Plan;
use stepsim_price::model::{ParameterCount, trained_parameters};
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_schedule::ScheduleChoice;
use stepsim_simulate::Inputs;
use stepsim_spec::workload::WorkloadSpec;

/// A step for readers.
#[derive(Debug, Serialize)]
pub(super) struct StepView {
    workload: String,
    model: String,
    parameters: u64,
    trained_parameters: u64,
    layers: u64,
    sequence: u64,
    global_batch: u64,
    micro_batch: u64,
    micro_batches: u32,
    schedule: ScheduleChoice,
    chunks: u32,
    ranks: u32,
    /// Ranks that remain when those that must behave alike are simulated once.
    simulated_ranks: u64,
    ops: u64,
    /// Axis and size, fastest first.
    layout: Vec<(&'static str, u32)>,
    rank: u32,
    rank_name: String,
    groups: Vec<GroupView>,
    programs: Vec<ProgramView>,
    collectives: Vec<CollectiveView>,
    /// Encoders in front of the model.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    modules: Vec<ModuleView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    documents: Option<DocumentsView>,
    /// Troubles that the step will suffer from, though it is allowed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<&'static str>,
    /// True if a rank map says which device a rank is on.
    #[serde(skip)]
    mapped: bool,
    /// True if matrices have adapters.
    #[serde(skip)]
    adapted: bool,
}

/// Ranks that one rank communicates with on one stream.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct GroupView {
    stream: &'static str,
    members: Vec<u32>,
}

/// The work of one pipeline stage's ranks.
#[derive(Debug, Serialize)]
struct ProgramView {
    stage: u32,
    ranks: u32,
    /// Modules that it runs a part of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    modules: Vec<String>,
    layers: Vec<u32>,
    /// Ops by stream.
    ops: BTreeMap<&'static str, u64>,
    flops: f64,
    communication_bytes: f64,
    memory: Vec<MemoryView>,
}

/// The bytes of one tier for one rank.
#[derive(Debug, Serialize)]
struct MemoryView {
    tier: String,
    capacity_bytes: u64,
    /// There from the start.
    resident_bytes: u64,
    /// In program order.
    peak_bytes: u64,
    /// At that peak.
    by_class: BTreeMap<&'static str, u64>,
}

/// Transfers that are alike.
#[derive(Debug, Serialize)]
struct CollectiveView {
    stream: &'static str,
    name: String,
    bytes: u64,
    group: u32,
    algorithm: String,
    protocol: String,
    /// Who decided on it.
    chosen_by: String,
    /// On an idle machine.
    expected_s: f64,
    /// Of one rank in a step: least and most of all stages that have it.
    times: (u64, u64),
}

/// The note on layers that a step without images leaves out.
const LEFT_OUT: &str = "layers that attend to images are left out, as the step has none: their weights are \
                        held, not trained (modules.NAME.items gives it images)";
/// Megatron-LM refuses it: `virtual_pipeline_model_parallel_size must be specified` (`transformer_config.py`).
const PAIRS_WAIT: &str = "expert.overlap pairs passes, but without chunks too few micro-batches are under \
                          way: the pairs of each stage wait for those of the next; Megatron-LM refuses it \
                          (parallelism.pipeline.chunks=2 or more)";

/// True if paired passes go round a pipeline whose stages have one chunk each: a micro-batch then takes two pairs a
/// stage there and back, and one a stage is under way.
fn pairs_wait(w: &WorkloadSpec, plan: &Plan) -> bool {
    w.expert.overlap.pairs() && plan.order.placement.ranks() > 1 && plan.order.placement.parts() == 1
}

impl StepView {
    pub(super) fn of(inputs: &Inputs, rank: u32) -> Result<StepView, Failure> {
        let mut lowering = inputs.lowering();
        let plan = inputs.plan_with(&mut lowering, 1).map_err(Failure::input)?;
        let (w, model, layout) = (&inputs.workload.value, &inputs.model, &plan.layout);
        if rank >= layout.ranks() {
            return Err(Failure::input(format!(
                "--rank {rank} is not in the step\n  allowed: 0 to {}",
                layout.ranks() - 1
            )));
        }
        let shown = RankId(rank);
        let pipeline = &w.parallelism.pipeline;
        let modules = ModuleView::of_step(inputs);
        Ok(StepView {
            workload: inputs.workload.name.clone(),
            model: model.name.clone(),
            parameters: ParameterCount::of(model).total()
                + modules.iter().map(ModuleView::parameters).sum::<u64>(),
            trained_parameters: trained_parameters(model, w),
            layers: model.layers,
            sequence: w.sequence(model),
            global_batch: w.batch.global,
            micro_batch: w.batch.micro_batch,
            micro_batches: plan.micro_batches,
            schedule: pipeline.schedule,
            chunks: u32::from(plan.order.placement.chunks(0)) - u32::from(plan.order.placement.has_sides()),
            ranks: layout.ranks(),
            simulated_ranks: fold(&plan.world).world.ranks.len() as u64,
            ops: plan.world.op_instances(),
            layout: layout.order().iter().map(|a| (a.name(), layout.size(*a))).filter(|a| a.1 > 1).collect(),
            rank,
            rank_name: plan.rank_name(shown),
            groups: groups(&plan, shown),
            programs: programs(&plan, w),
            collectives: collectives(&plan, &lowering),
            modules,
            documents: DocumentsView::of(inputs).map_err(Failure::input)?,
            notes: [(pairs_wait(w, &plan), PAIRS_WAIT), (model.leaves_out_layers(), LEFT_OUT)]
                .into_iter()
                .filter_map(|(holds, note)| holds.then_some(note))
                .collect(),
            mapped: inputs.workload.value.parallelism.rank_map.is_some(),
            adapted: w.training.adapters.is_some(),
        })
    }
}

/// The distinct groups of a rank in the order of streams.
fn groups(plan: &Plan, rank: RankId) -> Vec<GroupView> {
    let program = plan.world.program_of(rank);
    let mut found: BTreeMap<(StreamKind, Vec<u32>), ()> = BTreeMap::new();
    for op in &program.ops {
        let Work::Comm { slot, .. } = op.work else { continue };
        let members = plan.world.members_of(plan.world.slots_of(rank)[usize::from(slot)]);
        if members.len() > 1 {
            let stream = program.streams[usize::from(op.stream)].kind;
            found.insert((stream, members.iter().map(|m| m.0).collect()), ());
        }
    }
    let view = |(stream, members): (StreamKind, Vec<u32>)| GroupView { stream: stream.name(), members };
    found.into_keys().map(view).collect()
}

fn programs(plan: &Plan, w: &WorkloadSpec) -> Vec<ProgramView> {
    let world = &plan.world;
    let mut ranks = vec![0; world.programs.len()];
    world.ranks.iter().for_each(|r| ranks[r.program.index()] += 1);
    let first = |p: usize| world.ranks.iter().position(|r| r.program.index() == p);
    let view = |(p, program): (usize, &std::sync::Arc<Program>)| {
        let mut layers: Vec<u32> = program.infos.iter().filter_map(|i| i.layer).collect();
        layers.sort_unstable();
        layers.dedup();
        let mut ops = BTreeMap::new();
        let (mut flops, mut communication_bytes) = (0.0, 0.0);
        for op in &program.ops {
            *ops.entry(program.streams[usize::from(op.stream)].kind.name()).or_insert(0) += 1;
            let info = &program.infos[op.info as usize];
            flops += info.flops;
            if matches!(op.work, Work::Comm { .. }) {
                communication_bytes += info.bytes;
            }
        }
        let rank = RankId(first(p).unwrap_or(0) as u32);
        let (stage, memory) = (plan.stage(rank), memory(plan, rank));
        let modules = w.modules.keys().filter(|name| runs(program, name)).cloned().collect();
        ProgramView { stage, ranks: ranks[p], modules, layers, ops, flops, communication_bytes, memory }
    };
    let mut programs: Vec<ProgramView> = world.programs.iter().enumerate().map(view).collect();
    programs.sort_by(|a, b| (a.stage, a.flops).partial_cmp(&(b.stage, b.flops)).unwrap_or(Ordering::Equal));
    // Of each stage those with least and most to do.
    let of_stages = programs.chunk_by(|a, b| a.stage == b.stage).map(<[_]>::len);
    let kept: Vec<bool> = of_stages.flat_map(|n| (0..n).map(move |i| i == 0 || i + 1 == n)).collect();
    programs.into_iter().zip(kept).filter(|p| p.1).map(|p| p.0).collect()
}

/// True if a program has kernels of a module, whose names begin with its own.
fn runs(program: &Program, module: &str) -> bool {
    let of_module = |name: &str| name.strip_prefix(module).is_some_and(|rest| rest.starts_with(' '));
    program.infos.iter().any(|info| info.class.is_some() && of_module(&info.name))
}

/// Levels of each tier of a rank, op by op in program order.
fn memory(plan: &Plan, rank: RankId) -> Vec<MemoryView> {
    let (world, program) = (&plan.world, plan.world.program_of(rank));
    let tiers = world.tiers_of(rank);
    let mut now = vec![[0_i128; MemoryClass::ALL.len()]; tiers.len()];
    for effect in &program.resident {
        now[usize::from(effect.tier)][effect.class as usize] += i128::from(effect.bytes);
    }
    let total = |level: &[i128; MemoryClass::ALL.len()]| level.iter().sum::<i128>();
    let resident: Vec<i128> = now.iter().map(total).collect();
    let mut peaks = now.clone();
    for op in &program.ops {
        let effects = &program.memory[op.memory.range()];
        let mut apply = |when: MemoryWhen, sign: i128| {
            for e in effects.iter().filter(|e| e.when == when) {
                now[usize::from(e.tier)][e.class as usize] += sign * i128::from(e.bytes);
            }
            for (peak, now) in peaks.iter_mut().zip(&now) {
                if total(now) > total(peak) {
                    *peak = *now;
                }
            }
        };
        apply(MemoryWhen::FreeAtStart, -1);
        apply(MemoryWhen::AllocAtStart, 1);
        apply(MemoryWhen::FreeAtEnd, -1);
    }
    let bytes = |x: i128| u64::try_from(x).unwrap_or(0);
    let view = |t: usize| {
        let tier = &world.tiers[tiers[t].tier.index()];
        MemoryView {
            tier: tier.name.to_string(),
            capacity_bytes: tier.capacity.0,
            resident_bytes: bytes(resident[t]),
            peak_bytes: bytes(total(&peaks[t])),
            by_class: MemoryClass::ALL.iter().map(|c| (c.name(), bytes(peaks[t][*c as usize]))).collect(),
        }
    };
    (0..tiers.len()).map(view).filter(|m| m.peak_bytes > 0).collect()
}

/// Transfers of the first rank of each stage, those that are alike in one row.
fn collectives(plan: &Plan, lowering: &Lowering<'_>) -> Vec<CollectiveView> {
    type ModuleKey = (StreamKind, String, u64, u32, String, String, String, u64);
    let world = &plan.world;
    let mut idle = IdleTimes::new(world);
    let mut rows: BTreeMap<ModuleKey, (u64, u64)> = BTreeMap::new();
    for p in 0..world.programs.len() {
        let Some(rank) = world.ranks.iter().position(|r| r.program.index() == p) else { continue };
        let rank = RankId(rank as u32);
        let program = world.program_of(rank);
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        for op in &program.ops {
            if let Work::Comm { slot, transfer } = op.work {
                let name = program.infos[op.info as usize].name.as_ref();
                *counts
                    .entry((program.streams[usize::from(op.stream)].kind, slot, transfer, name))
                    .or_default() += 1;
            }
        }
        let mut of_stage: BTreeMap<ModuleKey, u64> = BTreeMap::new();
        for ((stream, slot, transfer, name), n) in counts {
            let comm = world.slots_of(rank)[usize::from(slot)];
            let members = world.members_of(comm);
            let what = lowering.transfer_of(transfer);
            let devices: Vec<DeviceId> = members.iter().map(|m| plan.layout.device(*m)).collect();
            let (algorithm, protocol, chosen_by) = match lowering.explain(&what, &devices) {
                Ok((_, choice)) if members.len() > 1 => {
                    (choice.algorithm.name().to_string(), choice.protocol.clone(), choice.reason())
                }
                _ => ("copy".to_string(), "-".to_string(), "-".to_string()),
            };
            let time = idle.get(comm, transfer);
            let name = name.to_string();
            let key =
                (stream, name, what.bytes, members.len() as u32, algorithm, protocol, chosen_by, time.0);
            *of_stage.entry(key).or_default() += n;
        }
        for (key, n) in of_stage {
            let (least, most) = rows.entry(key).or_insert((n, n));
            (*least, *most) = ((*least).min(n), (*most).max(n));
        }
    }
    let view = |((stream, name, bytes, group, algorithm, protocol, chosen_by, ps), times): (
        ModuleKey,
        (u64, u64),
    )| {
        let expected_s = stepsim_core::units::Time(ps).s();
        let stream = stream.name();
        CollectiveView { stream, name, bytes, group, algorithm, protocol, chosen_by, expected_s, times }
    };
    rows.into_iter().map(view).collect()
}
