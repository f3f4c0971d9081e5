//! How a report is made of a run.

use std::collections::{BTreeMap, BTreeSet};

use super::readings::{RankReadings, Readings};
use super::{
    Breakdown, Classes, CommunicationReport, LIST_ALL_RANKS, LISTED_LINKS, LinkReport, RankInfo, RankReport,
    Report, RunInfo, StageReport, TierReport,
};
use crate::core::engine::Record;
use crate::core::ids::RankId;
use crate::core::kernel_class::KernelClass;
use crate::core::program::{MemoryClass, Program, World};
use crate::core::units::{Flops, PS_PER_S, Time};
use crate::read::analysis::cause::Causes;
use crate::read::analysis::critical_report::{CriticalPathReport, critical_path};
use crate::read::analysis::head::{Head, Status};
use crate::read::analysis::idle::IdleTimes;
use crate::read::analysis::kernel_classes::kernel_classes;
use crate::read::analysis::kind::OpKind;
use crate::read::analysis::layers::layers;
use crate::read::analysis::links::BySlot;
use crate::read::analysis::memory::ByClass;
use crate::read::analysis::prefetch::prefetch;
use crate::read::analysis::slack::{Slack, by_kind};
use crate::read::analysis::slow_ranks::slow_ranks;
use crate::read::analysis::stalls::{RankTime, StallCause};
use crate::read::analysis::turns::Recurring;
use crate::read::analysis::waterfall_report::WaterfallReport;
use crate::read::analysis::{critical, hangs_on, links, memory, waterfall};
use crate::step::model::MODULE_INPUT;

/// Reads a run. `idle` gives the times of actions on an idle machine (of the unfolded world, for a folded one), `slacks`
/// are those of the run. Without them the report is what one screen shows: communication, layers, links and slack are left out,
/// which take the longest.
///
/// # Panics
/// If `info.ranks` has not one entry for each rank of the world.
pub fn report(
    world: &World,
    record: &Record,
    idle: &mut IdleTimes,
    slacks: Option<&Slack>,
    info: &RunInfo,
) -> Report {
    let mut causes = Causes::new(world, record);
    let readings = Readings::of(&mut causes, idle, slacks, info.ranks, &Recurring::default());
    let path = critical::critical_path(&mut causes, idle);
    let path = critical_path(&path, world, None, |r| info.place(r));
    report_of(world, readings, path, info)
}

/// Makes a report of what was read and of the critical path.
pub(crate) fn report_of(
    world: &World,
    mut readings: Readings,
    path: CriticalPathReport,
    info: &RunInfo,
) -> Report {
    let run_time_s = readings.end.s();
    let rate = |flops: Flops| {
        if run_time_s > 0.0 { flops.0 / run_time_s / info.devices as f64 } else { 0.0 }
    };
    let several = || readings.rounds.iter().copied().map(Time::s).collect();
    let weights = info.weights();
    let ranks_of_job = weights.iter().sum();
    let bars = readings.ranks.iter_mut().map(|r| std::mem::take(&mut r.bars)).collect();
    let waterfall = waterfall::waterfalls(bars, &weights, info.counted, info.peak).map(|of_ranks| {
        let weighed = of_ranks.into_iter().zip(info.ranks);
        let weighed: Vec<_> = weighed.map(|(w, r)| (w, r.members.len() as u64, r.stage)).collect();
        WaterfallReport::of(&weighed)
    });
    let mut report = Report {
        status: Status::Ok,
        run: Head::default(),
        hangs_on: String::new(),
        workload: info.workload.to_string(),
        topology: info.topology.to_string(),
        steps: info.steps,
        step_time_s: run_time_s / f64::from(info.steps.max(1)),
        run_time_s,
        step_times_s: if info.steps > 1 { several() } else { Vec::new() },
        tokens_per_step: info.tokens / u64::from(info.steps.max(1)),
        tokens_per_s: if run_time_s > 0.0 { info.tokens as f64 / run_time_s } else { 0.0 },
        mfu: rate(info.model_flops) / info.peak.0,
        mfu_causal: rate(info.model_flops_causal) / info.peak.0,
        hfu: rate(info.hardware_flops) / info.peak.0,
        hfu_causal: rate(info.hardware_flops_causal) / info.peak.0,
        model_tflops_per_device: rate(info.model_flops) / 1e12,
        devices: info.devices,
        ops: readings.ranks.iter().zip(&weights).map(|(rank, weight)| rank.ops * weight).sum(),
        events: readings.events,
        simulation_wall_s: info.simulation_wall_s,
        jumped: None,
        classes: Classes { simulated_ranks: world.ranks.len() as u64, ranks: ranks_of_job },
        mean: mean(&readings.ranks, info.ranks, |_| true),
        stages: stages(world, &readings.ranks, info.ranks, &readings.peaks),
        dynamic_context: None,
        waterfall,
        kernels: kernel_classes(readings.kernels, ranks_of_job, readings.end, info.peak, info.memory),
        layers: Vec::new(),
        ranks: ranks(&readings.ranks, info),
        blame: Vec::new(),
        slow_ranks: slow_ranks(world, info.ranks.iter().map(|r| r.members.as_slice())),
        communication: communication(&readings.ranks, info.ranks, |_| true),
        memory: tiers(world, &readings.peaks, |_| true),
        links: Vec::new(),
        prefetch: prefetch(readings.copies),
        critical_path: path,
        slack: BTreeMap::new(),
        samples: None,
        conventions: info.conventions.clone(),
    };
    if let Some(more) = readings.more {
        report.layers = layers(more.layers, ranks_of_job);
        report.links = busiest_links(world, &more.transfers, readings.end, info);
        report.slack = by_kind(more.slack, ranks_of_job);
    }
    report.hangs_on = hangs_on::sentence(&report);
    report
}

/// The mean of the ranks that `wanted` picks by stage, each as often as it stands for.
fn mean(readings: &[RankReadings], ranks: &[RankInfo], wanted: impl Fn(u32) -> bool) -> Breakdown {
    let (mut busy, mut slowed, mut stalls, mut count) = (0u128, 0u128, [0u128; StallCause::COUNT], 0u128);
    for (reading, info) in readings.iter().zip(ranks).filter(|(_, info)| wanted(info.stage)) {
        let weight = info.members.len() as u128;
        count += weight;
        busy += weight * u128::from(reading.time.busy.0);
        slowed += weight * u128::from(reading.time.slowed_by_memory.0);
        for (sum, stall) in stalls.iter_mut().zip(reading.time.stalls) {
            *sum += weight * u128::from(stall.0);
        }
    }
    let seconds = |sum: u128| sum as f64 / count.max(1) as f64 / PS_PER_S;
    let present = StallCause::ALL.into_iter().zip(stalls).filter(|s| s.1 > 0);
    Breakdown {
        busy_s: seconds(busy),
        slowed_by_memory_s: seconds(slowed),
        stalls_s: present.map(|(cause, sum)| (cause, seconds(sum))).collect(),
    }
}

fn breakdown(time: &RankTime) -> Breakdown {
    let present = StallCause::ALL.into_iter().map(|c| (c, time.stall(c))).filter(|s| s.1 > Time::ZERO);
    Breakdown {
        busy_s: time.busy.s(),
        slowed_by_memory_s: time.slowed_by_memory.s(),
        stalls_s: present.map(|(cause, t)| (cause, t.s())).collect(),
    }
}

fn stages(
    world: &World,
    readings: &[RankReadings],
    ranks: &[RankInfo],
    peaks: &[memory::Peak],
) -> Vec<StageReport> {
    let mut counts = BTreeMap::new();
    for info in ranks {
        *counts.entry(info.stage).or_insert(0) += info.members.len() as u64;
    }
    let users = memory::users(world);
    let first = |stage| ranks.iter().position(|info| info.stage == stage).unwrap_or(0) as u32;
    let of_stage = |(&stage, &count): (&u32, &u64)| StageReport {
        stage,
        ranks: count,
        layers: layers_of(world.program_of(RankId(first(stage)))),
        ends: ends_of(world.program_of(RankId(first(stage)))),
        time: mean(readings, ranks, |s| s == stage),
        communication: communication(readings, ranks, |s| s == stage),
        memory: tiers(world, peaks, |tier| users[tier].iter().any(|u| ranks[u.rank.index()].stage == stage)),
    };
    counts.iter().map(of_stage).collect()
}

/// How many layers a program computes.
fn layers_of(program: &Program) -> u64 {
    let kernels = program.infos.iter().filter(|info| info.class.is_some());
    kernels.filter_map(|info| info.layer).collect::<BTreeSet<_>>().len() as u64
}

/// What a program computes of the ends of a model, and of modules in front of it.
fn ends_of(program: &Program) -> Vec<String> {
    let has = |class| program.infos.iter().any(|info| info.class == Some(class));
    let ends = [("embedding", KernelClass::Embedding), ("head", KernelClass::Loss)];
    let of_model = ends.into_iter().filter(|(_, class)| has(*class)).map(|(name, _)| name.to_owned());
    let modules = program.infos.iter().filter_map(|info| info.name.strip_suffix(MODULE_INPUT));
    let modules: BTreeSet<&str> = modules.map(str::trim_end).collect();
    modules.into_iter().map(str::to_owned).chain(of_model).collect()
}

/// By name, the fullest of the tiers that `wanted` picks.
fn tiers(
    world: &World,
    peaks: &[memory::Peak],
    wanted: impl Fn(usize) -> bool,
) -> BTreeMap<String, TierReport> {
    let mut tiers: BTreeMap<String, TierReport> = BTreeMap::new();
    for (t, (tier, peak)) in world.tiers.iter().zip(peaks).enumerate() {
        let fuller = tiers.get(&*tier.name).is_none_or(|known| peak.bytes.0 > known.peak_bytes);
        if wanted(t) && fuller {
            let report = TierReport {
                peak_bytes: peak.bytes.0,
                capacity_bytes: tier.capacity.0,
                peak_at_s: peak.at.s(),
                by_class: by_class(&peak.by_class),
            };
            tiers.insert(tier.name.to_string(), report);
        }
    }
    tiers
}

fn by_class(bytes: &ByClass) -> BTreeMap<String, u64> {
    MemoryClass::ALL.iter().map(|&c| (c.name().to_string(), bytes[c as usize])).collect()
}

/// Every rank of a small job; of a large one, each group of alike ranks.
fn ranks(readings: &[RankReadings], info: &RunInfo) -> Vec<RankReport> {
    let entry = |rank: u32, stage: u32, count: u64, time: Breakdown| RankReport {
        rank,
        name: (info.rank_name)(rank),
        stage,
        count,
        time,
    };
    let simulated = || readings.iter().zip(info.ranks);
    let all: usize = info.ranks.iter().map(|r| r.members.len()).sum();
    let mut ranks: Vec<RankReport> = if all <= LIST_ALL_RANKS {
        let each = |(reading, of): (&RankReadings, &RankInfo)| {
            let list = of.members.iter().map(|&m| entry(m, of.stage, 1, breakdown(&reading.time)));
            list.collect::<Vec<_>>()
        };
        simulated().flat_map(each).collect()
    } else {
        /// Stage, busy and end time, stalls.
        type Alike = (u32, [Time; 2], [Time; StallCause::COUNT]);
        let mut groups: BTreeMap<Alike, (u32, u64)> = BTreeMap::new();
        for (reading, of) in simulated() {
            let Some(&lowest) = of.members.first() else {
                continue;
            };
            let RankTime { busy, slowed_by_memory, stalls } = reading.time;
            let key = (of.stage, [busy, slowed_by_memory], stalls);
            let group = groups.entry(key).or_insert((lowest, 0));
            *group = (group.0.min(lowest), group.1 + of.members.len() as u64);
        }
        let of_group = |((stage, times, stalls), (lowest, count)): ((u32, [Time; 2], _), (u32, u64))| {
            let [busy, slowed_by_memory] = times;
            entry(lowest, stage, count, breakdown(&RankTime { busy, slowed_by_memory, stalls }))
        };
        groups.into_iter().map(of_group).collect()
    };
    ranks.sort_by_key(|r| r.rank);
    ranks
}

/// By kind, the mean over the ranks that `wanted` picks by stage, each as often as it stands for.
fn communication(
    readings: &[RankReadings],
    ranks: &[RankInfo],
    wanted: impl Fn(u32) -> bool,
) -> BTreeMap<OpKind, CommunicationReport> {
    let read = || readings.iter().zip(ranks).filter(|(_, info)| wanted(info.stage));
    let all: f64 = read().map(|(_, info)| info.members.len() as f64).sum();
    let mut kinds = BTreeMap::new();
    for kind in OpKind::ALL {
        let (mut times, mut ops, mut bytes) = ([0u128; 4], 0u64, 0u128);
        for (reading, of) in read() {
            let (k, weight) = (&reading.communication[kind as usize], of.members.len() as u64);
            for (sum, time) in times.iter_mut().zip([k.ran, k.under_kernels, k.exposed, k.op_time]) {
                *sum += u128::from(weight) * u128::from(time.0);
            }
            ops += weight * k.ops;
            bytes += u128::from(weight) * k.bytes;
        }
        if ops > 0 {
            let seconds = |sum: u128| sum as f64 / all / PS_PER_S;
            let [ran, under_kernels, exposed, op_time] = times;
            let report = CommunicationReport {
                ran_s: seconds(ran),
                under_kernels_s: seconds(under_kernels),
                while_idle_s: seconds(ran - under_kernels - exposed),
                exposed_s: seconds(exposed),
                op_seconds: seconds(op_time),
                bytes: bytes as f64 / all,
                ops: ops as f64 / all,
            };
            kinds.insert(kind, report);
        }
    }
    kinds
}

fn busiest_links(world: &World, transfers: &[BySlot], end: Time, info: &RunInfo) -> Vec<LinkReport> {
    let busiest = links::alike_of(world, transfers, end, info.resources).into_iter().take(LISTED_LINKS);
    let report = |link: links::Alike| LinkReport {
        name: (info.resource_name)(link.first),
        count: link.count,
        // Whole bytes: a fraction depends on the order of summing.
        bytes: link.used.bytes.round(),
        capacity_gbps: world.resources[link.used.resource.index()].capacity.gbps(),
        utilisation: links::utilisation(world, end, link.used.resource, link.used.bytes.round()),
    };
    busiest.map(report).collect()
}
