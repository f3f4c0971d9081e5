//! The optimizer step.

use super::form::{Form, RankTimes};
use crate::step::model::muon::Held;
use crate::step::model::{Kernel, optimizer};
use crate::step::plan::step::State;
use crate::step::spec::stack::HostRead;
use crate::step::spec::workload::{Dtype, OptimizerKind, OptimizerPlace, ShardingKind};

impl Form<'_> {
    /// Norm and update of the share of weights that one rank updates.
    pub(super) fn optimizer(&self) -> f64 {
        let w = self.workload();
        let bytes = w.bytes_per_parameter();
        let largest = (0..self.ranks.len()).map(|rank| self.state(rank).updated).fold(0.0, f64::max);
        let parameters = (largest * (1.0 - self.updated_on_host())).round() as u64;
        // The slowest class of devices sets the pace.
        let time = |kernel: &Kernel| {
            let of = |&class| self.prices.on(class).time(kernel).s();
            self.classes.iter().map(of).fold(0.0, f64::max)
        };
        let matrices = |rank: &RankTimes| {
            self.shares.matrices(rank.stages.iter().flat_map(|stage| &self.stages[*stage]))
        };
        let whole = matches!(w.optimizer.kind, OptimizerKind::Muon | OptimizerKind::Adafactor);
        if w.stack.is_some() || whole {
            let whole = self.ranks.iter().map(|rank| self.parameters(rank)).max().unwrap_or(0);
            let flops = |held: &[Held]| held.iter().map(|m| m.flops() * m.count as f64).sum::<f64>();
            let of_ranks = self.ranks.iter().map(matrices);
            let owned = of_ranks.max_by(|a, b| flops(a).total_cmp(&flops(b))).unwrap_or_default();
            let update = optimizer::Update {
                matrices: &owned,
                compute: w.precision.compute,
                spec: &w.stack().optimizer,
                kind: w.optimizer.kind,
                parameters,
                held: if w.parallelism.sharding.kind >= ShardingKind::Zero2 { parameters } else { whole },
                state: bytes,
                clips: w.optimizer.clip_gradients,
                scales_loss: w.precision.compute == Dtype::Fp16,
            };
            return update.kernels().iter().map(|(_, kernel)| time(kernel)).sum();
        }
        let norm = if w.optimizer.clip_gradients {
            time(&optimizer::gradient_norm(largest.round() as u64, &bytes))
        } else {
            0.0
        };
        norm + time(&optimizer::step(parameters, &bytes))
    }

    /// What reads of the host add to a step: each ends its lead, so that the next launch is paid in full.
    pub(super) fn host_reads(&self) -> f64 {
        let Some(host) = self.workload().host() else { return 0.0 };
        let each = |read: &HostRead| match read {
            HostRead::Loss => host.synchronise_us + host.step_us,
            HostRead::GradientNorm => host.synchronise_us + host.launch_us.elementwise + host.latency_us,
            HostRead::Batch | HostRead::ExpertCounts | HostRead::Transfers => 0.0,
        };
        let first = host.launch_us.elementwise + host.latency_us;
        let slowness = host.slowness * self.prices.on(0).host_slowness();
        (host.reads.iter().map(each).sum::<f64>() + first) * slowness * 1e-6
    }

    /// Weights that one rank trains, before anything is cut among data-parallel ranks.
    fn parameters(&self, rank: &RankTimes) -> u64 {
        let units = rank.stages.iter().flat_map(|stage| &self.stages[*stage]);
        units.map(|unit| unit.plan.trained.total()).sum()
    }

    /// Share of the weights that the host updates.
    fn updated_on_host(&self) -> f64 {
        let o = &self.workload().offload;
        match o.optimizer_on {
            OptimizerPlace::Device => 0.0,
            OptimizerPlace::Host => o.optimizer.iter().filter(|p| !p.on_device()).map(|p| p.fraction).sum(),
        }
    }

    fn state(&self, rank: usize) -> State {
        self.shares.state(self.ranks[rank].stages.iter().flat_map(|stage| &self.stages[*stage]))
    }
}
