//! The report: all readings of one run as one value, for JSON and for the table.
//!
//! ```text
//! MFU = model FLOPs of the step / (step time × devices × dense peak of a device)
//! HFU = the same with the FLOPs that ran, recomputation included
//! ```
//! Means over ranks weigh each simulated rank by how many ranks it stands for, so a folded and an unfolded run have
//! the same report. For every rank, stage and mean, `busy_s` and the stalls sum to `run_time_s`, which is `step_time_s`
//! unless several steps were simulated.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Causes;
use super::critical;
pub use super::critical_report::CriticalPathReport;
use super::critical_report::critical_path;
use super::head::{Head, Status};
use super::idle::IdleTimes;
use super::kernel_classes::{KernelClassReport, kernel_classes};
use super::kind::OpKind;
use super::layers::{LayerReport, layers};
use super::links;
use super::memory::{self, ByClass};
use super::overlap::{self, ByKind};
use super::prefetch::{self, PrefetchReport};
use super::rounds::round_times;
use super::samples::SamplesReport;
use super::slack::{self, Slack, SlackReport};
use super::stalls::{self, RankTime, StallCause};
use super::waterfall::{self, Counted, Reading};
use super::waterfall_report::WaterfallReport;
use crate::engine::Record;
use crate::ids::{RankId, ResourceId};
use crate::program::{MemoryClass, World};
use crate::units::{Bandwidth, FlopRate, Flops, PS_PER_S, Time};

/// Up to so many ranks, the report lists each; above, ranks that are alike share an entry.
pub const LIST_ALL_RANKS: usize = 64;
/// How many of the busiest links are listed.
pub const LISTED_LINKS: usize = 16;

/// What a report needs to know beside the run.
pub struct RunInfo<'a> {
    /// Name of the workload.
    pub workload: &'a str,
    /// Name of the machine.
    pub topology: &'a str,
    /// FLOPs of the step that the model calls for, over all devices: recomputation is not counted.
    pub model_flops: Flops,
    /// The same with attention by half where its mask is causal.
    pub model_flops_causal: Flops,
    /// FLOPs of the step that are executed, over all devices, with attention in full.
    pub hardware_flops: Flops,
    /// FLOPs of the step that are executed, over all devices.
    pub hardware_flops_causal: Flops,
    /// Tokens that the run trains on.
    pub tokens: u64,
    /// Steps of the run, one after the other.
    pub steps: u32,
    /// Dense peak of one device in the precision of its matrix multiplications.
    pub peak: FlopRate,
    /// `model_flops` by sort.
    pub counted: Counted,
    /// Bandwidth of a device's memory; infinite where none is stated.
    pub memory: Bandwidth,
    /// Devices.
    pub devices: u64,
    /// One for each simulated rank.
    pub ranks: &'a [RankInfo],
    /// The name of a rank of the job: its stage and coordinates.
    pub rank_name: &'a dyn Fn(u32) -> String,
    /// The resources of the machine that a resource of the world stands for: the first, and how many.
    pub resources: &'a dyn Fn(ResourceId) -> (ResourceId, u64),
    /// The name of a resource of the machine.
    pub resource_name: &'a dyn Fn(ResourceId) -> String,
    /// Wall-clock seconds of the simulation; `None` keeps the report reproducible.
    pub simulation_wall_s: Option<f64>,
    /// How FLOPs are counted, in words.
    pub conventions: Vec<String>,
}

/// Which ranks of the job a simulated rank stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankInfo {
    /// Their numbers in the job, ascending; one unless the world is folded.
    pub members: Vec<u32>,
    /// Their pipeline stage.
    pub stage: u32,
}

impl RankInfo {
    /// One for each class of a folding: `class_of[rank]` is the class of each rank of the job (`Folded::ranks.of`),
    /// `stage_of` its pipeline stage.
    pub fn of_classes(class_of: &[u32], stage_of: impl Fn(u32) -> u32) -> Vec<RankInfo> {
        let classes = class_of.iter().max().map_or(0, |c| *c as usize + 1);
        let mut infos = vec![RankInfo { members: Vec::new(), stage: 0 }; classes];
        for (rank, &class) in class_of.iter().enumerate() {
            let info = &mut infos[class as usize];
            if info.members.is_empty() {
                info.stage = stage_of(rank as u32);
            }
            info.members.push(rank as u32);
        }
        infos
    }
}

fn one_step() -> u32 {
    1
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

fn one_link() -> u64 {
    1
}

/// All readings of one run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// How the run ended; a run without a result has a `FailedReport` instead.
    #[serde(default)]
    pub status: Status,
    /// What the run was.
    #[serde(default)]
    pub run: Head,
    /// Name of the workload.
    pub workload: String,
    /// Name of the machine.
    pub topology: String,
    /// Steps that were simulated one after the other: 1 but with `--steps`. Stalls, kernels and bytes below are of all.
    #[serde(default = "one_step")]
    pub steps: u32,
    /// The time of a step: mean of all.
    pub step_time_s: f64,
    /// From the start of the first step until the last op of the last rank has ended: the sum of all steps.
    #[serde(default)]
    pub run_time_s: f64,
    /// The time of each step, from the end of the one before; of several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub step_times_s: Vec<f64>,
    /// Tokens that one step trains on.
    pub tokens_per_step: u64,
    /// Tokens of all steps over their time.
    pub tokens_per_s: f64,
    /// Model FLOP utilisation: a fraction of the devices' dense peak. Attention counts in full, as Megatron and PaLM do.
    pub mfu: f64,
    /// The same with attention by half where its mask is causal, as Llama 3 counts.
    #[serde(default)]
    pub mfu_causal: f64,
    /// Hardware FLOP utilisation: recomputation counts as work, attention in full as in `mfu`.
    pub hfu: f64,
    /// The same with what a causal mask skips left out, as in `mfu_causal`: the FLOPs executed.
    #[serde(default)]
    pub hfu_causal: f64,
    /// Model FLOPs per device and second, in 10¹².
    pub model_tflops_per_device: f64,
    /// Devices.
    pub devices: u64,
    /// Op executions of the step on all ranks.
    pub ops: u64,
    /// Completions that the event loop handled.
    pub events: u64,
    /// Wall-clock seconds of the simulation, unless the output is to be reproducible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub simulation_wall_s: Option<f64>,
    /// How many ranks were simulated for all.
    pub classes: Classes,
    /// Where the time went: mean over all ranks.
    pub mean: Breakdown,
    /// Where the time went: mean over the ranks of each pipeline stage.
    pub stages: Vec<StageReport>,
    /// From the peak to MFU; absent where kernels have no FLOPs of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waterfall: Option<WaterfallReport>,
    /// Kernels by class, longest first: means over all ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelClassReport>,
    /// Time of ops by layer of the model and kind: means over all ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerReport>,
    /// Each rank of the job, or (of more than 64) one of each group of ranks that are alike.
    pub ranks: Vec<RankReport>,
    /// By kind of communication: means over all ranks.
    pub communication: BTreeMap<OpKind, CommunicationReport>,
    /// By name of the tier: the fullest instance.
    pub memory: BTreeMap<String, TierReport>,
    /// The busiest links, ports and tier bandwidths.
    pub links: Vec<LinkReport>,
    /// For each layer that waits for copies to the device: how far ahead they were issued, and should have been.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefetch: Vec<PrefetchReport>,
    /// What the step's length hangs on.
    pub critical_path: CriticalPathReport,
    /// How much later ops could end without moving the step, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slack: BTreeMap<OpKind, SlackReport>,
    /// How the step time spreads over seeds, if samples were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<SamplesReport>,
    /// How FLOPs are counted.
    pub conventions: Vec<String>,
}

/// How far folding got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Classes {
    /// Ranks that were simulated: one of each class.
    pub simulated_ranks: u64,
    /// Ranks of the job.
    pub ranks: u64,
}

/// `busy_s` and the stalls sum to the step time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breakdown {
    /// Kernels on the compute stream.
    pub busy_s: f64,
    /// The part of it for which device memory gave kernels less than they use: copies share its bandwidth.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slowed_by_memory_s: f64,
    /// Why the compute stream stood still, by cause; causes that do not occur are left out.
    pub stalls_s: BTreeMap<StallCause, f64>,
}

/// A pipeline stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageReport {
    /// Which.
    pub stage: u32,
    /// Ranks in it.
    pub ranks: u64,
    /// Mean over them.
    #[serde(flatten)]
    pub time: Breakdown,
    /// By kind of communication: means over them.
    #[serde(default)]
    pub communication: BTreeMap<OpKind, CommunicationReport>,
    /// By name of the tier: the fullest instance that ranks of the stage use.
    pub memory: BTreeMap<String, TierReport>,
}

/// A rank, or ranks that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankReport {
    /// Its number in the job; of several the lowest.
    pub rank: u32,
    /// Stage and coordinates in words.
    pub name: String,
    /// Its pipeline stage.
    pub stage: u32,
    /// How many ranks the entry stands for.
    pub count: u64,
    /// Where its time went.
    #[serde(flatten)]
    pub time: Breakdown,
}

/// Communication of one kind, mean over ranks. `under_kernels_s`, `while_idle_s` and `exposed_s` sum to `ran_s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicationReport {
    /// Time during which at least one op of the kind ran.
    pub ran_s: f64,
    /// The part during which a kernel ran: overlap.
    pub under_kernels_s: f64,
    /// The part during which the compute stream stood still for something else.
    pub while_idle_s: f64,
    /// The part during which the compute stream stood still for it.
    pub exposed_s: f64,
    /// The sum over the ops: more than `ran_s` where they ran side by side.
    pub op_seconds: f64,
    /// Bytes of the messages of one rank.
    pub bytes: f64,
    /// Operations of one rank.
    pub ops: f64,
}

/// A memory tier at its fullest.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TierReport {
    /// The highest level.
    pub peak_bytes: u64,
    /// What it can hold.
    pub capacity_bytes: u64,
    /// When the peak is first reached.
    pub peak_at_s: f64,
    /// What is resident then: weights, gradients, optimizer, activations, workspace.
    pub by_class: BTreeMap<String, u64>,
}

/// A shared capacity, or several that carried alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkReport {
    /// Its name in the machine; of several the first.
    pub name: String,
    /// How many have its capacity and carried as much.
    #[serde(default = "one_link")]
    pub count: u64,
    /// Bytes through one.
    pub bytes: f64,
    /// Its capacity in 10⁹ bytes per second.
    #[serde(rename = "capacity_GBps")]
    pub capacity_gbps: f64,
    /// Bytes over what it could have carried in the step, 0 to 1.
    pub utilisation: f64,
}

/// The readings of one simulated rank.
struct RankReading {
    time: RankTime,
    communication: ByKind,
    bars: Reading,
}

/// Reads a run. `idle` gives the times of actions on an idle machine (of the unfolded world, for a folded one), `slacks`
/// are those of the run.
///
/// # Panics
/// If `info.ranks` has not one entry for each rank of the world.
pub fn report(
    world: &World,
    record: &Record,
    idle: &mut IdleTimes,
    slacks: &Slack,
    info: &RunInfo,
) -> Report {
    assert_eq!(info.ranks.len(), world.ranks.len(), "one RankInfo for each simulated rank");
    let mut causes = Causes::new(world, record);
    let mut pieces = Vec::new();
    let mut readings: Vec<RankReading> = (0..record.ranks())
        .map(|r| {
            pieces.clear();
            let mut time = stalls::stalls_of(&mut causes, idle, RankId(r), &mut pieces);
            time.slowed_by_memory = record.slowed_by_memory.get(r as usize).copied().unwrap_or_default();
            RankReading {
                time,
                communication: overlap::overlap(&causes, RankId(r), &pieces),
                bars: waterfall::reading(&causes, idle, RankId(r), &time, &pieces, info.peak),
            }
        })
        .collect();
    let path = critical::critical_path(&mut causes, idle);
    let run_time_s = record.step_end.s();
    let rate = |flops: Flops| {
        if run_time_s > 0.0 { flops.0 / run_time_s / info.devices as f64 } else { 0.0 }
    };
    let several = || round_times(world, record).into_iter().map(Time::s).collect();
    let peaks = memory::peaks(&causes);
    let weights: Vec<u64> = info.ranks.iter().map(|r| r.members.len() as u64).collect();
    let bars = readings.iter_mut().map(|r| std::mem::take(&mut r.bars)).collect();
    let waterfall = waterfall::waterfalls(bars, &weights, info.counted, info.peak).map(|of_ranks| {
        let weighed = of_ranks.into_iter().zip(info.ranks);
        let weighed: Vec<_> = weighed.map(|(w, r)| (w, r.members.len() as u64, r.stage)).collect();
        WaterfallReport::of(&weighed)
    });
    Report {
        status: Status::Ok,
        run: Head::default(),
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
        ops: (0..world.ranks.len())
            .map(|r| world.program_of(RankId(r as u32)).ops.len() as u64 * info.ranks[r].members.len() as u64)
            .sum(),
        events: record.events,
        simulation_wall_s: info.simulation_wall_s,
        classes: Classes {
            simulated_ranks: world.ranks.len() as u64,
            ranks: info.ranks.iter().map(|r| r.members.len() as u64).sum(),
        },
        mean: mean(&readings, info.ranks, |_| true),
        stages: stages(world, &readings, info.ranks, &peaks),
        waterfall,
        kernels: kernel_classes(&causes, &weights, info.peak, info.memory),
        layers: layers(&causes, &weights),
        ranks: ranks(&readings, info),
        communication: communication(&readings, info.ranks, |_| true),
        memory: tiers(world, &peaks, |_| true),
        links: busiest_links(world, record, info),
        prefetch: prefetch::prefetch(&causes, |rank| info.ranks[rank.index()].members.len() as u64),
        critical_path: critical_path(&path, world, |r| {
            info.ranks[r.index()].members.first().map_or(0, |m| *m)
        }),
        slack: slack::by_kind(&causes, slacks, &weights),
        samples: None,
        conventions: info.conventions.clone(),
    }
}

/// The mean of the ranks that `wanted` picks by stage, each as often as it stands for.
fn mean(readings: &[RankReading], ranks: &[RankInfo], wanted: impl Fn(u32) -> bool) -> Breakdown {
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
    readings: &[RankReading],
    ranks: &[RankInfo],
    peaks: &[memory::Peak],
) -> Vec<StageReport> {
    let mut counts = BTreeMap::new();
    for info in ranks {
        *counts.entry(info.stage).or_insert(0) += info.members.len() as u64;
    }
    let users = memory::users(world);
    let of_stage = |(&stage, &count): (&u32, &u64)| StageReport {
        stage,
        ranks: count,
        time: mean(readings, ranks, |s| s == stage),
        communication: communication(readings, ranks, |s| s == stage),
        memory: tiers(world, peaks, |tier| users[tier].iter().any(|u| ranks[u.rank.index()].stage == stage)),
    };
    counts.iter().map(of_stage).collect()
}

/// By name, the fullest of the tiers that `wanted` picks.
fn tiers(
    world: &World,
    peaks: &[memory::Peak],
    wanted: impl Fn(usize) -> bool,
) -> BTreeMap<String, TierReport> {
    let mut tiers: BTreeMap<String, TierReport> = BTreeMap::new();
    for (t, (tier, peak)) in world.tiers.iter().zip(peaks).enumerate() {
        let fuller = tiers.get(&tier.name).is_none_or(|known| peak.bytes.0 > known.peak_bytes);
        if wanted(t) && fuller {
            let report = TierReport {
                peak_bytes: peak.bytes.0,
                capacity_bytes: tier.capacity.0,
                peak_at_s: peak.at.s(),
                by_class: by_class(&peak.by_class),
            };
            tiers.insert(tier.name.clone(), report);
        }
    }
    tiers
}

fn by_class(bytes: &ByClass) -> BTreeMap<String, u64> {
    MemoryClass::ALL.iter().map(|&c| (c.name().to_string(), bytes[c as usize])).collect()
}

/// Every rank of a small job; of a large one, each group of alike ranks.
fn ranks(readings: &[RankReading], info: &RunInfo) -> Vec<RankReport> {
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
        let each = |(reading, of): (&RankReading, &RankInfo)| {
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
    readings: &[RankReading],
    ranks: &[RankInfo],
    wanted: impl Fn(u32) -> bool,
) -> BTreeMap<OpKind, CommunicationReport> {
    let read = || readings.iter().zip(ranks).filter(|(_, info)| wanted(info.stage));
    let all: f64 = read().map(|(_, info)| info.members.len() as f64).sum();
    let mut kinds = BTreeMap::new();
    for kind in OpKind::ALL {
        let (mut times, mut ops, mut bytes) = ([0u128; 4], 0u64, 0.0);
        for (reading, of) in read() {
            let (k, weight) = (&reading.communication[kind as usize], of.members.len() as u64);
            for (sum, time) in times.iter_mut().zip([k.ran, k.under_kernels, k.exposed, k.op_time]) {
                *sum += u128::from(weight) * u128::from(time.0);
            }
            ops += weight * k.ops;
            bytes += weight as f64 * k.bytes;
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
                bytes: bytes / all,
                ops: ops as f64 / all,
            };
            kinds.insert(kind, report);
        }
    }
    kinds
}

fn busiest_links(world: &World, record: &Record, info: &RunInfo) -> Vec<LinkReport> {
    let busiest = links::alike(world, record, info.resources).into_iter().take(LISTED_LINKS);
    let report = |link: links::Alike| LinkReport {
        name: (info.resource_name)(link.first),
        count: link.count,
        // Whole bytes: a fraction depends on the order of summing.
        bytes: link.used.bytes.round(),
        capacity_gbps: world.resources[link.used.resource.index()].capacity.gbps(),
        utilisation: links::utilisation(world, record, link.used.resource, link.used.bytes.round()),
    };
    busiest.map(report).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::analysis::random_world;
    use proptest::prelude::*;

    /// A report of a random world in which rank `r` stands for `weight(r)` ranks of stage `r`.
    pub(crate) fn of_random(seed: u64, weight: impl Fn(u32) -> u32) -> Report {
        let s = random_world::random(seed);
        let mut next = 0;
        let ranks: Vec<RankInfo> = (0..s.record.ranks())
            .map(|stage| {
                let members = (next..next + weight(stage)).collect();
                next += weight(stage);
                RankInfo { members, stage }
            })
            .collect();
        let info = RunInfo {
            workload: "a workload",
            topology: "a machine",
            model_flops: Flops(3e15),
            model_flops_causal: Flops(2.5e15),
            hardware_flops: Flops(4e15),
            hardware_flops_causal: Flops(3.5e15),
            tokens: 4096,
            steps: 1,
            peak: FlopRate::from_tflops(1e9),
            counted: Counted { matrices: 2e15, mixing: 1e15 },
            memory: Bandwidth(1e12),
            devices: u64::from(next),
            ranks: &ranks,
            rank_name: &|r| format!("rank {r}"),
            resources: &|r| (r, 1),
            resource_name: &|r| format!("link {}", r.0),
            simulation_wall_s: None,
            conventions: vec!["A multiply-add counts two.".into()],
        };
        let slacks = slack::slack(&Causes::new(&s.world, &s.record));
        report(&s.world, &s.record, &mut IdleTimes::new(&s.world), &slacks, &info)
    }

    fn sum(b: &Breakdown) -> f64 {
        b.busy_s + b.stalls_s.values().sum::<f64>()
    }

    proptest! {
        #[test]
        fn every_breakdown_sums_to_the_step(seed in any::<u64>(), weight in 1u32..40) {
            let r = of_random(seed, |stage| weight + stage);
            let close = |b: &Breakdown| (sum(b) - r.step_time_s).abs() <= 1e-12 * r.step_time_s;
            prop_assert!(close(&r.mean));
            prop_assert!(r.stages.iter().all(|s| close(&s.time)));
            prop_assert!(r.ranks.iter().all(|s| close(&s.time)));
            prop_assert_eq!(r.ranks.iter().map(|r| r.count).sum::<u64>(), r.classes.ranks);
            let path: f64 = r.critical_path.by_kind_s.values().sum();
            let path = path + r.critical_path.contention_s + r.critical_path.memory_s;
            prop_assert!((path - r.step_time_s).abs() <= 1e-12 * r.step_time_s);
        }

        #[test]
        fn json_holds_the_whole_report(seed in any::<u64>()) {
            let r = of_random(seed, |_| 1);
            let text = serde_json::to_string(&r).expect("serialisable");
            prop_assert_eq!(serde_json::from_str::<Report>(&text).expect("readable"), r);
        }
    }

    #[test]
    fn field_names_are_those_of_the_documentation() {
        let json = serde_json::to_value(of_random(7, |_| 20)).expect("serialisable");
        for field in ["step_time_s", "tokens_per_s", "mfu", "hfu", "model_tflops_per_device", "ops", "events"]
        {
            assert!(json[field].is_number(), "{field}");
        }
        assert!(json["memory"]["hbm"]["peak_bytes"].is_number());
        assert!(json["memory"]["hbm"]["by_class"]["weights"].is_number());
        assert!(json["ranks"][0]["busy_s"].is_number() && json["ranks"][0]["stalls_s"].is_object());
        assert!(json.get("simulation_wall_s").is_none());
        let schema = serde_json::to_string(&schemars::schema_for!(Report)).expect("a schema");
        assert!(schema.contains("pipeline_bubble") || schema.contains("stalls_s"));
    }

    #[test]
    fn classes_list_their_members() {
        let infos = RankInfo::of_classes(&[0, 1, 0, 2, 1], |rank| rank * 10);
        let expected = [(vec![0, 2], 0), (vec![1, 4], 10), (vec![3], 30)];
        assert_eq!(infos, expected.map(|(members, stage)| RankInfo { members, stage }));
    }

    #[test]
    fn utilisation_counts_devices_and_time() {
        let r = of_random(11, |_| 2);
        let expected = 3e15 / (r.step_time_s * r.devices as f64 * 1e21);
        assert!((r.mfu - expected).abs() < 1e-12 * expected);
        assert!((r.hfu / r.mfu - 4.0 / 3.0).abs() < 1e-12);
        assert!((r.tokens_per_s * r.step_time_s - 4096.0).abs() < 1e-9);
    }
}
