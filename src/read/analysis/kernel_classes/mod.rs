//! Kernels by class: how many, how long, at which rates, and what bounds them.

pub mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Causes;
use super::turns::Recurring;
pub use reading::KernelsReading;
use stepsim_core::declare::named;
use stepsim_core::ids::RankId;
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::units::{Bandwidth, FlopRate, PS_PER_S, Time};

named! {
    /// The bound of a class's kernels: the larger of the parts that they use of the peak and of the memory's
    /// bandwidth.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum KernelBound {
        /// Matrix units.
        Matrix = "matrix",
        /// Bandwidth of device memory.
        Memory = "memory",
        /// Neither: they use less than a quarter of both, and are short, few or serial.
        Neither = "neither",
    }
}

/// Below this part of the peak and of the bandwidth, neither bounds.
const USED: f64 = 0.25;

/// The kernels of one class, mean of a rank.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct KernelClassReport {
    /// The class.
    pub class: KernelClass,
    /// Kernels of one rank.
    pub count: f64,
    /// Their time.
    pub time_s: f64,
    /// The part of it by which they took longer than on an undisturbed device.
    pub disturbed_s: f64,
    /// Their time over the step's.
    pub share: f64,
    /// 10¹² FLOP/s on matrix units while they ran.
    #[serde(rename = "TFLOPs")]
    pub tflops: f64,
    /// 10⁹ bytes/s to and from device memory while they ran, every operand touched once.
    #[serde(rename = "GBps")]
    pub gbps: f64,
    /// Their bound.
    pub bound: KernelBound,
}

/// The kernels of one class on all ranks.
#[derive(Clone, Copy, Debug, Default)]
pub struct OfClass {
    /// Its kernels.
    pub count: u64,
    /// Picoseconds that they ran.
    pub ran: u128,
    /// Picoseconds that they would take alone.
    pub alone: u128,
    /// FLOP of them.
    pub flops: u128,
    /// Bytes that they move.
    pub bytes: u128,
}

/// The sums of all classes. Rank `r` of the world stands for `weights[r]`.
pub(crate) fn sums(
    causes: &Causes,
    weights: &[u64],
    recurring: &Recurring,
) -> BTreeMap<KernelClass, OfClass> {
    let world = causes.world();
    let mut sums: BTreeMap<KernelClass, OfClass> = BTreeMap::new();
    for (rank, &weight) in (0..).map(RankId).zip(weights) {
        let program = world.program_of(rank);
        let times = recurring.of_rank(rank, program);
        // Micro-batches share infos, so there are few of them: how often, and the times.
        let mut of_info = vec![(0u64, 0u64, 0u64); program.infos.len()];
        for &kernel in &causes.index_of(rank).kernels {
            let ((start, end), times) = (causes.span(rank, kernel), times(kernel));
            let alone = stepsim_core::engine::undisturbed_time(world, rank, kernel);
            let (count, ran, undisturbed) = &mut of_info[program.ops[kernel.index()].info as usize];
            *count += times;
            *ran += times * (end - start).0;
            *undisturbed += times * alone.0;
        }
        for (info, (count, ran, alone)) in program.infos.iter().zip(of_info).filter(|(_, sums)| sums.0 > 0) {
            let Some(class) = info.class else { continue };
            let sum = sums.entry(class).or_default();
            let times = u128::from(weight * count);
            sum.count += weight * count;
            sum.ran += u128::from(weight) * u128::from(ran);
            sum.alone += u128::from(weight) * u128::from(alone);
            // Whole ones: sums are then the same in any order.
            sum.flops += times * info.flops.round() as u128;
            sum.bytes += times * info.bytes.round() as u128;
        }
    }
    sums
}

/// All classes, longest first, of `ranks` ranks in a step that ends at `end`.
pub fn kernel_classes(
    sums: BTreeMap<KernelClass, OfClass>,
    ranks: u64,
    end: Time,
    peak: FlopRate,
    memory: Bandwidth,
) -> Vec<KernelClassReport> {
    let ranks = ranks.max(1) as f64;
    let step = end.s().max(f64::MIN_POSITIVE);
    let report = |(class, sum): (KernelClass, OfClass)| {
        let seconds = sum.ran as f64 / PS_PER_S;
        let rate = |amount: u128| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let (of_peak, of_memory) = (rate(sum.flops) / peak.0, rate(sum.bytes) / memory.0);
        KernelClassReport {
            class,
            count: sum.count as f64 / ranks,
            time_s: seconds / ranks,
            disturbed_s: (sum.ran as f64 - sum.alone as f64) / PS_PER_S / ranks,
            share: seconds / ranks / step,
            tflops: rate(sum.flops) / 1e12,
            gbps: rate(sum.bytes) / 1e9,
            bound: match of_peak.max(of_memory) {
                used if used < USED => KernelBound::Neither,
                _ if of_peak >= of_memory => KernelBound::Matrix,
                _ => KernelBound::Memory,
            },
        }
    };
    let mut classes: Vec<KernelClassReport> = sums.into_iter().map(report).collect();
    classes.sort_by(|a, b| b.time_s.total_cmp(&a.time_s));
    classes
}
