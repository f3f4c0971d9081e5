//! The work of a step on either side, the profile or the plan, and the reasons why nothing is learned of them.

use std::collections::BTreeMap;

use crate::profile::ProfileReport;
use crate::summary::{RankSummary, work_of};
use stepsim_read::analysis::report::Report;
use stepsim_simulate::SimulationError;
use stepsim_spec::SpecError;

/// Works that both sides tell apart; all other kernels count as bound by memory.
pub(super) const WORKS: [&str; 4] = ["gemm", "attention", "optimizer", MEMORY];

pub(super) const MEMORY: &str = "memory-bound";

/// Why nothing is learned.
#[derive(Debug)]
pub enum NotLearned {
    /// The workload cannot be read.
    Spec(SpecError),
    /// It cannot be played.
    Run(SimulationError),
    /// Plan and profile are not the same run.
    Other(String),
}

/// Seconds of a step on either side.
#[derive(Clone, Debug, Default)]
pub(super) struct StepSide {
    pub(super) step_s: f64,
    pub(super) works: BTreeMap<&'static str, f64>,
    /// Kernels by work.
    pub(super) counts: BTreeMap<&'static str, f64>,
    /// FLOPs by work; of a profile, none are known.
    pub(super) flops: BTreeMap<&'static str, f64>,
    pub(super) exchange_s: f64,
}

impl StepSide {
    pub(super) fn of(summary: &RankSummary) -> StepSide {
        let (mut works, mut counts) = (BTreeMap::new(), BTreeMap::new());
        for (work, (count, seconds)) in &summary.kernels {
            let known = WORKS.iter().find(|known| *known == work).copied().unwrap_or(MEMORY);
            *works.entry(known).or_default() += seconds;
            *counts.entry(known).or_default() += count;
        }
        let exchange_s = summary.communication_s[0];
        StepSide { step_s: summary.step_s, works, counts, flops: BTreeMap::new(), exchange_s }
    }

    /// A step as simulated.
    pub(super) fn simulated(report: &Report) -> StepSide {
        let mut side = StepSide::of(&RankSummary::from(report));
        for kernel in &report.kernels {
            let flops = 1e12 * kernel.tflops * kernel.time_s;
            *side.flops.entry(work_of(kernel.class)).or_default() += flops;
        }
        side
    }

    /// The mean of all ranks.
    pub(super) fn mean(profiles: &ProfileReport) -> StepSide {
        let n = profiles.ranks.len().max(1) as f64;
        let mut mean = StepSide::default();
        for side in profiles.ranks.iter().map(|rank| StepSide::of(&RankSummary::from(rank))) {
            mean.step_s += side.step_s / n;
            mean.exchange_s += side.exchange_s / n;
            side.works.iter().for_each(|(work, s)| *mean.works.entry(*work).or_default() += s / n);
            side.counts.iter().for_each(|(work, count)| *mean.counts.entry(*work).or_default() += count / n);
        }
        mean
    }

    /// Seconds of a work.
    pub(super) fn work(&self, work: &str) -> f64 {
        self.works.get(work).copied().unwrap_or(0.0)
    }
    /// Kernels of a work.
    pub(super) fn count(&self, work: &str) -> f64 {
        self.counts.get(work).copied().unwrap_or(0.0)
    }
    /// FLOPs of a work.
    pub(super) fn flops(&self, work: &str) -> f64 {
        self.flops.get(work).copied().unwrap_or(0.0)
    }

    /// The same without an optimizer of its own.
    pub(super) fn merged(mut self) -> StepSide {
        let optimizer = self.works.remove("optimizer").unwrap_or(0.0);
        *self.works.entry(MEMORY).or_default() += optimizer;
        self
    }
}
