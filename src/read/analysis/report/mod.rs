//! The report: all readings of one run as one value, for JSON and for the table.
//!
//! ```text
//! MFU = model FLOPs of the step / (step time × devices × dense peak of a device)
//! HFU = the same with the FLOPs that ran, recomputation included
//! ```
//! Means over ranks weigh each simulated rank by how many ranks it stands for, so a folded and an unfolded run have
//! the same report. For every rank, stage and mean, `busy_s` and the stalls sum to `run_time_s`.

mod guard;
mod made;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer::Answer;
use super::candidates::Candidate;
pub use super::cost::CostReport;
pub use super::critical::CriticalPathReport;
pub use super::dynamic_context::DynamicContextReport;
use super::gaps::{GapLength, GapReport};
use super::head::{Head, RunStatus};
use super::kernel_classes::KernelClassReport;
use super::kind::OpKind;
use super::layers::LayerReport;
pub use super::links::LinkReport;
pub use super::memory::TierReport;
pub use super::overlap::CommunicationReport;
use super::prefetch::PrefetchReport;
use super::samples::SamplesReport;
use super::slack::SlackReport;
use super::slow_ranks::SlowRanks;
pub use super::stages::{RankReport, StageReport};
pub use super::stalls::Breakdown;
use super::waterfall::{MfuFlops, WaterfallReport};
pub use made::report;
use stepsim_core::ids::{RankId, ResourceId};
use stepsim_core::power::PowerAndPrice;
use stepsim_core::units::{Bandwidth, FlopRate, Flops};

/// How much of a report is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All of it.
    Whole,
    /// One screen, and communication.
    Overlap,
    /// One screen: communication, layers, links and slack, which take longest, stay empty.
    Screen,
}

/// The facts that a report needs beside the run.
pub struct RunInfo<'a> {
    /// How much of the report is asked for.
    pub extent: Extent,
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
    /// Dense peak of one device in the precision of its matrix multiplications.
    pub peak: FlopRate,
    /// `model_flops` by sort.
    pub counted: MfuFlops,
    /// Bandwidth of a device's memory; infinite where none is stated.
    pub memory: Bandwidth,
    /// Devices.
    pub devices: u64,
    /// Their power draw and price.
    pub rates: PowerAndPrice,
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

impl RunInfo<'_> {
    /// The lowest rank that a simulated one stands for, and its stage.
    pub(crate) fn place(&self, rank: RankId) -> (u32, u32) {
        let info = &self.ranks[rank.index()];
        (info.members.first().map_or(0, |member| *member), info.stage)
    }
}

/// The ranks of the job that a simulated rank stands for.
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

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// All readings of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Report {
    /// How the run ended; a run without a result has a `FailedReport` instead.
    #[serde(default)]
    pub status: RunStatus,
    /// The head of the run.
    #[serde(default)]
    pub run: Head,
    /// The answer, which every screen, page and file says.
    #[serde(default)]
    pub answer: Answer,
    /// The sentence of the answer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hangs_on: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the machine.
    pub topology: String,
    /// The time of the step.
    pub step_time_s: f64,
    /// From its start until the last op of the last rank has ended.
    #[serde(default)]
    pub run_time_s: f64,
    /// Tokens that one step trains on.
    pub tokens_per_step: u64,
    /// Tokens of all steps over their time.
    pub tokens_per_s: f64,
    /// Model FLOP utilisation: a fraction of the devices' dense peak. Attention counts in full, as Megatron and PaLM
    /// do.
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
    /// Turns of the schedule that were counted and not played; absent where all were played.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jumped: Option<JumpedReport>,
    /// How many ranks were simulated for all.
    pub classes: FoldedRanks,
    /// Where the time went: mean over all ranks.
    pub mean: Breakdown,
    /// Where the time went: mean over the ranks of each pipeline stage.
    pub stages: Vec<StageReport>,
    /// Documents with a degree of context parallelism of their own, where they have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dynamic_context: Option<DynamicContextReport>,
    /// From the peak to MFU; absent where kernels have no FLOPs of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waterfall: Option<WaterfallReport>,
    /// Kernels by class, longest first: means over all ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<KernelClassReport>,
    /// Time of ops by layer of the model and kind: means over all ranks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub layers: Vec<LayerReport>,
    /// Idle gaps of compute streams by their length: means over all ranks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub gaps: BTreeMap<GapLength, GapReport>,
    /// Each rank of the job, or (of more than 64) one of each group of ranks that are alike.
    pub ranks: Vec<RankReport>,
    /// The possible changes, dearest first, by the step played with each: all faults and unevenness, and as many
    /// limits and choices as were asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<Candidate>,
    /// Limits and choices that were not played.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub candidates_left_out: u64,
    /// Ranks whose kernels take longer than the device needs, slowest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_ranks: Vec<SlowRanks>,
    /// By kind of communication: means over all ranks.
    pub communication: BTreeMap<OpKind, CommunicationReport>,
    /// By name of the tier: the fullest instance.
    pub memory: BTreeMap<String, TierReport>,
    /// Dollars and energy; absent where devices state neither a price nor their power.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostReport>,
    /// The busiest links, ports and tier bandwidths.
    pub links: Vec<LinkReport>,
    /// For each layer that waits for copies to the device: how far ahead they were issued, and should have been.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefetch: Vec<PrefetchReport>,
    /// The critical path, which decides the step's length.
    pub critical_path: CriticalPathReport,
    /// How much later ops could end without moving the step, by kind.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub slack: BTreeMap<OpKind, SlackReport>,
    /// How the step time spreads over seeds, if samples were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<SamplesReport>,
    /// Sections of readings that have no field here, as a caller's own, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub own: BTreeMap<String, Value>,
    /// How FLOPs are counted.
    pub conventions: Vec<String>,
}

/// The jumped turns of a step whose schedule repeats itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JumpedReport {
    /// Micro-batches that were counted and not played.
    pub micro_batches: u32,
    /// Micro-batches of the step.
    pub of: u32,
    /// Turns that they are: after each the run would have been in the same state again.
    pub turns: u64,
}

/// How far folding got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FoldedRanks {
    /// Ranks that were simulated: one of each class.
    pub simulated_ranks: u64,
    /// Ranks of the job.
    pub ranks: u64,
}
