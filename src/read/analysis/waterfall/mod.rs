//! From a device's peak to MFU: what took the rest, bar by bar.
//!
//! For every rank, in integer picoseconds,
//! ```text
//! step time = model FLOPs of the rank / peak + Σ bars          MFU = (step time − Σ bars) / step time
//! ```
//! Busy time gives the bars of kernels. A kernel that ran t had a nominal time n on an undisturbed device and would
//! take n' on this one (slow device, jitter): n' − n is *stragglers*, t − n' is *interference* (units that
//! communication kernels take, or memory bandwidth that copies take). n is *recomputation* or *optimizer* by its
//! phase, else n − FLOPs/peak is *kernel efficiency* where it multiplies matrices, and n is *memory-bound kernels*
//! where not. Stalls give the others ([`super::stalls`]); communication that was waited for is cut into latency and
//! bandwidth as on an idle machine, what sharing added is contention, a member that had not arrived is *late peer*.
//!
//! A pipeline bubble is *imbalance* as far as this rank idles longer than the rank that idles least, and else the
//! order's own. Transfers that were waited for are its *transfer*.
//!
//! MFU does not count the work that ran: attention is counted in full, a mask skips half of it, and its backward pass
//! computes the scores again. Two bars close the books: *attention as counted* (negative where more is counted than
//! ran) and *beyond the model* (padding, experts that get more than their share). Both are spread over the ranks in
//! proportion.
//!
//! A rank of a folded world weighs as many as it stands for. Without FLOPs on its kernels a run has no waterfall.

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Causes;
use super::idle::IdleTimes;
use super::kind::OpKind;
use super::stalls::{RankTime, Stall, WaitKind};
use super::turns::Recurring;
pub use reading::{Bars, chart};
use stepsim_core::declare::named;
use stepsim_core::engine::undisturbed_time;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::program::{Phase, Work};
use stepsim_core::units::{FlopRate, PS_PER_S, Time};

/// Why a rank did less than its peak: one bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaterfallBar {
    /// A class of matrix kernels ran below the peak.
    Efficiency(KernelClass),
    /// Kernels that multiply nothing, by class.
    MemoryBound(KernelClass),
    /// Kernels repeated before the backward pass.
    Recomputation,
    /// Kernels beside communication kernels, which take compute units.
    InterferenceUnits,
    /// Kernels beside copies, which take memory bandwidth.
    InterferenceMemory,
    /// Kernels of a slow device, and jitter.
    SlowDevice,
    /// The host had not launched.
    Host,
    /// Communication of a kind that was waited for.
    Exposed(OpKind, CommunicationPart),
    /// A copy that was needed stood behind another.
    Queued,
    /// The needed bytes waited for room on a full tier.
    FullTier,
    /// Idle as the order of passes has it, were all stages equally long.
    BubbleOrder,
    /// Idle because other stages are longer.
    BubbleImbalance,
    /// Transfers between stages that were waited for.
    BubbleTransfer(CommunicationPart),
    /// Kernels of the optimizer, and waiting for it elsewhere.
    Optimizer,
    /// The rank had finished, others had not.
    Tail,
    /// Products that ran and that the model does not call for.
    BeyondModel,
    /// Attention that ran less attention that is counted.
    AttentionCounted,
}

named! {
    /// A part of communication that was waited for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum CommunicationPart {
        /// Bytes over bandwidth, alone on an idle machine.
        Bandwidth = "bandwidth",
        /// The part that no bandwidth shortens.
        Latency = "latency",
        /// The part that shared links added.
        Contention = "contention",
        /// A member had not arrived.
        LatePeer = "late peer",
    }
}

impl WaterfallBar {
    /// The group that it is shown in.
    pub fn group(self) -> &'static str {
        match self {
            WaterfallBar::Efficiency(_) => "kernel efficiency",
            WaterfallBar::MemoryBound(_) => "memory-bound kernels",
            WaterfallBar::Recomputation => "recomputation",
            WaterfallBar::InterferenceUnits | WaterfallBar::InterferenceMemory => "interference",
            WaterfallBar::SlowDevice => "stragglers",
            WaterfallBar::Host => "host",
            WaterfallBar::Exposed(..) | WaterfallBar::Queued | WaterfallBar::FullTier => {
                "exposed communication"
            }
            WaterfallBar::BubbleOrder | WaterfallBar::BubbleImbalance | WaterfallBar::BubbleTransfer(_) => {
                "bubble"
            }
            WaterfallBar::Optimizer => "optimizer",
            WaterfallBar::Tail => "tail",
            WaterfallBar::BeyondModel => "beyond the model",
            WaterfallBar::AttentionCounted => "attention as counted",
        }
    }
    /// The subject within the group, and its part; empty where the group says all.
    pub fn names(self) -> (&'static str, &'static str) {
        match self {
            WaterfallBar::Efficiency(class) | WaterfallBar::MemoryBound(class) => (class.name(), ""),
            WaterfallBar::InterferenceUnits => ("compute units", ""),
            WaterfallBar::InterferenceMemory => ("memory bandwidth", ""),
            WaterfallBar::Exposed(kind, part) => (kind.name(), part.name()),
            WaterfallBar::Queued => ("copies", "queued"),
            WaterfallBar::FullTier => ("copies", "full tier"),
            WaterfallBar::BubbleOrder => ("order", ""),
            WaterfallBar::BubbleImbalance => ("imbalance", ""),
            WaterfallBar::BubbleTransfer(part) => ("transfer", part.name()),
            _ => ("", ""),
        }
    }
}

/// FLOPs that MFU counts, over all devices of the job.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MfuFlops {
    /// Products with weights.
    pub matrices: f64,
    /// Products of tokens with one another: attention in full, scans.
    pub mixing: f64,
}

/// The bars of one rank, or of several together: they sum to `peak − model`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waterfall {
    /// Ranks.
    pub ranks: u64,
    /// Their step times, in picoseconds.
    pub peak: i128,
    /// The model's work at the peak, in picoseconds.
    pub model: i128,
    /// By cause, in picoseconds. Those that are zero are left out.
    pub bars: BTreeMap<WaterfallBar, i128>,
}

impl Waterfall {
    /// Adds a waterfall that stands for `weight` ranks.
    pub fn add(&mut self, other: &Waterfall, weight: u64) {
        let times = i128::from(weight);
        self.ranks += other.ranks * weight;
        self.peak += other.peak * times;
        self.model += other.model * times;
        other.bars.iter().for_each(|(&bar, &ps)| self.put(bar, ps * times));
    }
    /// A part of the peak.
    pub fn share(&self, ps: i128) -> f64 {
        if self.peak > 0 { ps as f64 / self.peak as f64 } else { 0.0 }
    }
    /// Mean seconds of a rank.
    pub fn seconds(&self, ps: i128) -> f64 {
        ps as f64 / self.ranks.max(1) as f64 / PS_PER_S
    }
    fn put(&mut self, bar: WaterfallBar, ps: i128) {
        if ps != 0 {
            *self.bars.entry(bar).or_default() += ps;
        }
    }
}

/// The reading of one rank so far: all but the part that other ranks decide.
#[derive(Clone, Debug, Default)]
pub struct RankWaterfall {
    step: Time,
    /// Kernels by class and phase.
    kernels: BTreeMap<(Option<KernelClass>, Phase), PhaseKernels>,
    bars: BTreeMap<WaterfallBar, i128>,
    bubble: Time,
    tail: Time,
}

/// Kernels of one class in one phase.
#[derive(Clone, Copy, Debug, Default)]
struct PhaseKernels {
    /// Nominal picoseconds.
    nominal: i128,
    flops: i128,
}

/// The waterfall of a rank as it comes together.
#[derive(Default)]
struct WaterfallBuilder {
    waterfall: Waterfall,
    /// FLOPs on products with weights that count, and what they take at the peak.
    matrices: (i128, i128),
    /// The same of products of tokens with one another.
    mixing: (i128, i128),
    bubble: Time,
    tail: Time,
}

/// Reads one rank. `time` and `pieces` are its stalls.
pub fn of_rank(
    causes: &Causes,
    idle: &mut IdleTimes,
    rank: RankId,
    recurring: &Recurring,
    (time, pieces): (&RankTime, &[Stall]),
) -> RankWaterfall {
    let step = causes.record().step_end + recurring.longer();
    let mut reading = RankWaterfall { step, ..RankWaterfall::default() };
    let times = recurring.of_rank(rank, causes.world().program_of(rank));
    kernels(&mut reading, causes, rank, time, times);
    for stall in pieces {
        stalled(&mut reading, causes, idle, stall, stall.waiting.map_or(1, times));
    }
    reading
}

/// Busy time by what the kernels were.
fn kernels(
    reading: &mut RankWaterfall,
    causes: &Causes,
    rank: RankId,
    time: &RankTime,
    times: impl Fn(OpId) -> u64,
) {
    let world = causes.world();
    let program = world.program_of(rank);
    let index = causes.index_of(rank);
    let (mut on_this_device, mut undisturbed) = (0, 0);
    // Micro-batches share infos, so there are few of them: how often, and the time.
    let mut of_info = vec![(0u64, 0u64); program.infos.len()];
    for &kernel in &index.kernels {
        let op = &program.ops[kernel.index()];
        let Work::Compute { time } = op.work else { continue };
        let times = times(kernel);
        on_this_device += i128::from(times * undisturbed_time(world, rank, kernel).0);
        undisturbed += i128::from(times * time.0);
        let (count, sum) = &mut of_info[op.info as usize];
        (*count, *sum) = (*count + times, *sum + times * time.0);
    }
    for (info, (count, time)) in program.infos.iter().zip(of_info).filter(|(_, sums)| sums.0 > 0) {
        let sum = reading.kernels.entry((info.class, info.phase)).or_default();
        sum.nominal += i128::from(time);
        sum.flops += info.flops.round() as i128 * i128::from(count);
    }
    let memory = i128::from(time.slowed_by_memory.0);
    reading.put(WaterfallBar::SlowDevice, on_this_device - undisturbed);
    reading.put(WaterfallBar::InterferenceMemory, memory);
    // Kernels of several compute streams may run side by side; the time that they share counts once, and is taken off
    // here.
    reading.put(WaterfallBar::InterferenceUnits, i128::from(time.busy.0) - on_this_device - memory);
}

impl RankWaterfall {
    fn put(&mut self, bar: WaterfallBar, ps: i128) {
        *self.bars.entry(bar).or_default() += ps;
    }

    /// Its kernels held against the peak.
    fn against(self, peak: FlopRate) -> WaterfallBuilder {
        let mut coming =
            WaterfallBuilder { bubble: self.bubble, tail: self.tail, ..WaterfallBuilder::default() };
        let bars = &mut coming.waterfall;
        (bars.ranks, bars.peak) = (1, i128::from(self.step.0));
        self.bars.into_iter().for_each(|(bar, ps)| bars.put(bar, ps));
        for ((class, phase), PhaseKernels { nominal, flops }) in self.kernels {
            let class = class.unwrap_or(KernelClass::Other);
            match phase {
                Phase::Recompute => bars.put(WaterfallBar::Recomputation, nominal),
                Phase::Optimizer => bars.put(WaterfallBar::Optimizer, nominal),
                _ if flops == 0 => bars.put(WaterfallBar::MemoryBound(class), nominal),
                _ => {
                    let ideal = at_peak(flops as f64, peak);
                    bars.put(WaterfallBar::Efficiency(class), nominal - ideal);
                    let of = if class.mixes() { &mut coming.mixing } else { &mut coming.matrices };
                    *of = (of.0 + flops, of.1 + ideal);
                }
            }
        }
        coming
    }
}

fn at_peak(flops: f64, peak: FlopRate) -> i128 {
    (flops / peak.0 * PS_PER_S).round() as i128
}

/// A piece of a gap that comes `times` times.
fn stalled(reading: &mut RankWaterfall, causes: &Causes, idle: &mut IdleTimes, stall: &Stall, times: u64) {
    let time = stall.time() * times;
    let ps = i128::from(time.0);
    let kind = stall.waited_for.map(|(r, op)| causes.kind(r, op));
    let exposed = |part: CommunicationPart| match kind {
        Some(OpKind::Pipeline) => WaterfallBar::BubbleTransfer(part),
        Some(kind) => WaterfallBar::Exposed(kind, part),
        None => WaterfallBar::Host,
    };
    match stall.cause.waiting() {
        WaitKind::Bubble => reading.bubble += time,
        WaitKind::Tail => reading.tail += time,
        WaitKind::Optimizer => reading.put(WaterfallBar::Optimizer, ps),
        WaitKind::Host => reading.put(WaterfallBar::Host, ps),
        WaitKind::Queued => reading.put(WaterfallBar::Queued, ps),
        WaitKind::Full => reading.put(WaterfallBar::FullTier, ps),
        WaitKind::Shared => reading.put(exposed(CommunicationPart::Contention), ps),
        WaitKind::Late => reading.put(exposed(CommunicationPart::LatePeer), ps),
        WaitKind::Running => {
            let latency = latency_share(causes, idle, stall) * i128::from(times);
            reading.put(exposed(CommunicationPart::Latency), latency);
            reading.put(exposed(CommunicationPart::Bandwidth), ps - latency);
        }
    }
}

/// The part of a piece of running communication that is latency: as much of it as of the whole on an idle machine.
fn latency_share(causes: &Causes, idle: &mut IdleTimes, stall: &Stall) -> i128 {
    let Some((rank, op)) = stall.waited_for else { return 0 };
    let Work::Comm { transfer, .. } = causes.world().program_of(rank).ops[op.index()].work else { return 0 };
    let Some(comm) = causes.comm(rank, op) else { return 0 };
    let (alone, latency) = (idle.get(comm, transfer), idle.latency(comm, transfer));
    if alone == Time::ZERO {
        return 0;
    }
    i128::from(stall.time().0) * i128::from(latency.min(alone).0) / i128::from(alone.0)
}

/// The waterfalls of all ranks, with their `weights`; `None` where kernels have no FLOPs.
pub fn waterfalls(
    readings: Vec<RankWaterfall>,
    weights: &[u64],
    counted: MfuFlops,
    peak: FlopRate,
) -> Option<Vec<Waterfall>> {
    let readings: Vec<WaterfallBuilder> = readings.into_iter().map(|r| r.against(peak)).collect();
    let sum = |of: &dyn Fn(&WaterfallBuilder) -> i128| {
        readings.iter().zip(weights).map(|(r, w)| of(r) * i128::from(*w)).sum::<i128>() as f64
    };
    let (matrices, mixing) = (sum(&|r| r.matrices.0), sum(&|r| r.mixing.0));
    if matrices + mixing <= 0.0 {
        return None;
    }
    // Where one sort is counted and none of it ran, both are spread together.
    let apart = (matrices > 0.0 || counted.matrices <= 0.0) && (mixing > 0.0 || counted.mixing <= 0.0);
    let together = (counted.matrices + counted.mixing) / (matrices + mixing);
    let factor = |counted: f64, ran: f64| match apart {
        true if ran > 0.0 => counted / ran,
        true => 1.0,
        false => together,
    };
    let factors = (factor(counted.matrices, matrices), factor(counted.mixing, mixing));
    let idle = |r: &WaterfallBuilder| r.bubble + r.tail;
    let least = readings.iter().map(idle).min().unwrap_or_default();
    let finish = |r: WaterfallBuilder| {
        let imbalance = r.bubble.min(idle(&r) - least);
        let mut w = r.waterfall;
        w.put(WaterfallBar::BubbleImbalance, i128::from(imbalance.0));
        w.put(WaterfallBar::BubbleOrder, i128::from((r.bubble - imbalance).0));
        w.put(WaterfallBar::Tail, i128::from(r.tail.0));
        let [of_matrices, of_mixing] = [r.matrices.0 as f64 * factors.0, r.mixing.0 as f64 * factors.1]
            .map(|flops| at_peak(flops, peak));
        w.put(WaterfallBar::BeyondModel, r.matrices.1 - of_matrices);
        w.put(WaterfallBar::AttentionCounted, r.mixing.1 - of_mixing);
        w.model = of_matrices + of_mixing;
        w
    };
    Some(readings.into_iter().map(finish).collect())
}

/// From the peak to MFU, mean over all ranks and by stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WaterfallReport {
    /// Mean over all ranks.
    pub mean: BarsReport,
    /// Mean over the ranks of each pipeline stage, in order.
    pub stages: Vec<BarsReport>,
}

/// One waterfall: `mfu` and the shares of all bars sum to 1, the peak.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BarsReport {
    /// The rest of the peak.
    pub mfu: f64,
    /// The losses, in the order of the waterfall.
    pub bars: Vec<BarReport>,
}

/// One bar.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BarReport {
    /// `kernel efficiency`, `memory-bound kernels`, `recomputation`, `interference`, `stragglers`, `host`, `exposed
    /// communication`, `bubble`, `optimizer`, `tail`, `beyond the model`, `attention as counted`.
    pub group: String,
    /// Class of kernels, kind of communication, sort of bubble; empty where the group says all.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub what: String,
    /// Of communication: `bandwidth`, `latency`, `contention`, `late peer`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub part: String,
    /// Seconds of a rank. Negative where MFU counts more than ran.
    pub time_s: f64,
    /// Of the peak over the step, and so of the step.
    pub share: f64,
}

impl From<&Waterfall> for BarsReport {
    fn from(w: &Waterfall) -> BarsReport {
        let bar = |(bar, &ps): (&WaterfallBar, &i128)| {
            let (what, part) = bar.names();
            BarReport {
                group: bar.group().into(),
                what: what.into(),
                part: part.into(),
                time_s: w.seconds(ps),
                share: w.share(ps),
            }
        };
        BarsReport { mfu: w.share(w.model), bars: w.bars.iter().filter(|b| *b.1 != 0).map(bar).collect() }
    }
}

impl WaterfallReport {
    /// Means of the waterfalls of ranks, each with its weight and stage.
    pub fn of(ranks: &[(Waterfall, u64, u32)]) -> WaterfallReport {
        let mean = |wanted: &dyn Fn(u32) -> bool| {
            let mut sum = Waterfall::default();
            ranks.iter().filter(|r| wanted(r.2)).for_each(|(w, weight, _)| sum.add(w, *weight));
            BarsReport::from(&sum)
        };
        let mut stages: Vec<u32> = ranks.iter().map(|r| r.2).collect();
        stages.sort_unstable();
        stages.dedup();
        WaterfallReport {
            mean: mean(&|_| true),
            stages: stages.into_iter().map(|stage| mean(&|s| s == stage)).collect(),
        }
    }
}

impl BarsReport {
    /// The groups in the order of the waterfall, each with its share and its bars.
    pub fn groups(&self) -> Vec<(&str, f64, &[BarReport])> {
        let group = |bars: &'_ [BarReport]| bars.iter().map(|b| b.share).sum::<f64>();
        self.bars.chunk_by(|a, b| a.group == b.group).map(|g| (g[0].group.as_str(), group(g), g)).collect()
    }
}
