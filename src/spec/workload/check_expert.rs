//! Checks of a workload's expert traffic.

use super::{
    DispatcherKind, ExpertBalance, ExpertOverlap, ExpertSpec, Granularity, RecomputeModule, WorkloadSpec,
};
use crate::model::{ModelSpec, MoeSpec};
use crate::problem::Problems;
use stepsim_schedule::{BackwardSplit, ScheduleChoice};

impl WorkloadSpec {
    /// Everything wrong with `expert` and `expert_load`.
    pub(super) fn check_expert_traffic(&self, p: &mut Problems, model: &ModelSpec) {
        let load = &self.expert_load;
        p.range("expert_load.max_over_mean", load.max_over_mean, 1.0, 1e6);
        p.range("expert_load.rows_cv", load.rows_cv, 0.0, 10.0);
        if load.rows_cv > 0.0 && load.balance != ExpertBalance::Spread {
            p.add("expert_load.rows_cv", load.rows_cv, "0 but with balance spread", "");
        }
        if (load.balance == ExpertBalance::File) != load.counts_file.is_some() {
            p.add(
                "expert_load.counts_file",
                load.counts_file.as_ref().map_or("nothing".into(), ToString::to_string),
                "a path with balance file, nothing with any other",
                "",
            );
        }
        match &model.moe {
            None if self.expert != ExpertSpec::default() => {
                let hint = "the model has no moe part";
                p.add("expert", "what it says", "nothing for a model without experts", hint);
            }
            None => {}
            Some(moe) => self.check_exchange(p, moe),
        }
    }

    /// Choices of experts are counted one by one; a number that would take minutes belongs to no model ever trained.
    fn check_choices(&self, p: &mut Problems, moe: &MoeSpec) {
        const MOST: f64 = 2e9;
        let (parts, groups) = (self.parallelism.expert, moe.groups.max(1));
        let limit = moe.group_limit.unwrap_or(groups) as f64;
        let counted = |top_k: u64| {
            let states = (limit + 1.0) * (top_k + 1) as f64 * (top_k.min(parts) + 1) as f64;
            states * (parts + groups) as f64 * top_k.min(moe.experts / parts.max(1)) as f64
        };
        let fits = std::iter::successors(Some(moe.top_k), |k| Some(k / 2)).find(|k| counted(*k) <= MOST);
        if let Some(fits) = fits.filter(|fits| *fits < moe.top_k) {
            let allowed = format!("some {fits} of {} experts on {parts} ranks", moe.experts);
            let hint = "no published model sends a token to more than some tens";
            p.add("model.moe.top_k", moe.top_k, allowed, hint);
        }
    }

    fn check_exchange(&self, p: &mut Problems, moe: &MoeSpec) {
        self.check_choices(p, moe);
        let e = &self.expert;
        if let Some(units) = e.units {
            p.size("expert.units", u64::from(units), 1000);
            if matches!(
                e.dispatcher,
                DispatcherKind::Alltoall
                    | DispatcherKind::AlltoallPxn
                    | DispatcherKind::Allgather
                    | DispatcherKind::RankDedup
            ) {
                p.add(
                    "expert.units",
                    units,
                    "nothing with a dispatcher that runs the machine's collectives",
                    "their units follow the machine; dispatcher two-stage or hybridep has kernels of its own",
                );
            }
        }
        p.size("expert.pad_rows_to", e.pad_rows_to, 4096);
        self.check_overlap(p, moe);
    }

    fn check_overlap(&self, p: &mut Problems, moe: &MoeSpec) {
        let overlap = self.expert.overlap;
        let name = stepsim_located::to_value(overlap).unwrap_or_default();
        let mut refuse = |allowed: &str, hint: &str| p.add("expert.overlap", &name, allowed, hint);
        match overlap {
            ExpertOverlap::SharedExpert if moe.shared_experts == 0 && moe.shared_ffn.unwrap_or(0) == 0 => {
                return refuse("another overlap", "the model has no shared expert");
            }
            ExpertOverlap::None | ExpertOverlap::SharedExpert => return,
            ExpertOverlap::MicroBatches | ExpertOverlap::MicroBatchesFusedGradients => {}
        }
        let recompute = &self.recompute;
        let repeats = recompute.granularity == Granularity::Full
            || (recompute.granularity == Granularity::Modules
                && recompute.modules.contains(&RecomputeModule::Moe));
        if repeats {
            refuse(
                "none where exchanges are repeated",
                "recompute neither whole layers nor the module moe: their exchanges would run again",
            );
        } else if self.parallelism.expert < 2 {
            refuse("none with parallelism.expert 1", "there is nothing to exchange");
        } else if self.expert.dispatcher == DispatcherKind::Allgather {
            refuse("none or shared-expert with dispatcher allgather", "choose another dispatcher");
        } else if self.pairs_or_splits() {
            refuse(
                "micro-batches with a parallelism.pipeline.schedule of whole, unpaired backward passes (1f1b, \
                 interleaved)",
                "DualPipe pairs passes by itself: leave it out there",
            );
        }
    }

    /// True if the schedule pairs passes itself, or cuts backward passes.
    fn pairs_or_splits(&self) -> bool {
        match self.parallelism.pipeline.choice() {
            ScheduleChoice::Named(schedule) => {
                schedule.facts().pairs || schedule.facts().backward != BackwardSplit::Whole
            }
            ScheduleChoice::File => false,
        }
    }
}
