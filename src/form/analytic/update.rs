//! The optimizer step.

use super::form::{RankTimes, StepForm};
use stepsim_price::model::{Kernel, optimizer};
use stepsim_spec::stack::HostRead;
use stepsim_spec::workload::{Dtype, OptimizerPlace};

impl StepForm<'_> {
    /// Norm and update of what the ranks with least and with most of it update.
    pub(super) fn optimizer(&self) -> [f64; 2] {
        // A rank with the same units as one before it takes as long.
        let mut known: Vec<(&[usize], u32, f64)> = Vec::new();
        for (rank, class) in self.ranks.iter().zip(&self.parts.classes) {
            if !known.iter().any(|k| k.0 == rank.kinds && k.1 == *class) {
                known.push((&rank.kinds, *class, self.update(rank, *class)));
            }
        }
        let times = || known.iter().map(|k| k.2);
        [times().fold(f64::INFINITY, f64::min), times().fold(0.0, f64::max)]
    }

    /// The update of a rank: pass by pass of the stack over all that is on the device, or unit by unit where any of
    /// it streams through.
    fn update(&self, rank: &RankTimes, class: u32) -> f64 {
        let (w, prices) = (self.workload(), self.parts.prices.on(class));
        let bytes = w.bytes_per_parameter();
        let time = |kernel: &Kernel| prices.time(kernel).s();
        let units = || rank.stages.iter().flat_map(|stage| &self.stages[*stage]);
        let o = &w.offload;
        let stays = [&o.weights, &o.gradients, &o.optimizer].into_iter().flatten().all(|p| p.on_device());
        if !stays {
            return self.unit_updates(rank, class).sum();
        }
        let parameters = self.parts.shares.updated(units());
        let matrices = self.parts.shares.matrices(units());
        let update = optimizer::Update {
            matrices: &matrices,
            compute: w.precision.compute,
            spec: &w.stack().optimizer,
            kind: w.optimizer.kind,
            parameters,
            held: self.parts.shares.gradients_kept(units()),
            state: bytes,
            clips: w.optimizer.clip_gradients,
            scales_loss: w.precision.compute == Dtype::Fp16,
        };
        // Launch after launch, as they are played: a product would round otherwise.
        let launched = |(_, kernel, launches)| std::iter::repeat_n(time(&kernel), launches);
        let made = || update.kernels().into_iter().flat_map(launched).sum();
        self.parts.known.update(&update, class, made)
    }

    /// The updates of the units of a rank, one after the other.
    pub(super) fn unit_updates(&self, rank: &RankTimes, class: u32) -> impl Iterator<Item = f64> {
        let (prices, bytes) = (self.parts.prices.on(class), self.workload().bytes_per_parameter());
        let here = 1.0 - self.updated_on_host();
        let share =
            move |unit| (self.parts.shares.updated(std::iter::once(unit)) as f64 * here).round() as u64;
        let units = rank.stages.iter().flat_map(|stage| &self.stages[*stage]);
        units.map(move |unit| prices.time(&optimizer::step(share(unit), &bytes)).s())
    }

    /// The time that reads of the host add to a step: each ends its lead, so that the next launch is paid in full.
    pub(super) fn host_reads(&self) -> f64 {
        let Some(host) = self.workload().host() else { return 0.0 };
        let each = |read: &HostRead| match read {
            HostRead::Loss => host.synchronise_us + host.step_us,
            HostRead::GradientNorm => host.synchronise_us + host.launch_us.elementwise + host.latency_us,
            HostRead::Batch | HostRead::Passes | HostRead::ExpertCounts | HostRead::Transfers => 0.0,
        };
        host.reads.iter().map(each).sum::<f64>() * self.host_scale(host)
    }

    /// Share of the weights that the host updates.
    fn updated_on_host(&self) -> f64 {
        let o = &self.workload().offload;
        match o.optimizer_on {
            OptimizerPlace::Device => 0.0,
            OptimizerPlace::Host => o.optimizer.iter().filter(|p| !p.on_device()).map(|p| p.fraction).sum(),
        }
    }
}
