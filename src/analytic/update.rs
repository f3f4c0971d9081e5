//! The optimizer step and copies between tiers.

use super::{Form, memory};
use crate::ids::DeviceId;
use crate::model::{Kernel, optimizer};
use crate::plan::step::{State, Unit};
use crate::spec::stack::HostRead;
use crate::spec::workload::{
    BytesPerParameter, Dtype, OptimizerPlace, Placement, PrefetchUnit, ShardingKind,
};

impl Form<'_> {
    /// Norm and update of the share of weights that one rank updates.
    pub(super) fn optimizer(&self) -> f64 {
        let w = self.workload;
        let bytes = w.bytes_per_parameter();
        let largest = (0..self.ranks.len()).map(|rank| self.state(rank).updated).fold(0.0, f64::max);
        let parameters = (largest * (1.0 - self.updated_on_host())).round() as u64;
        // The slowest class of devices sets the pace.
        let time = |kernel: &Kernel| {
            let of = |&class| self.prices.on(class).time(kernel).s();
            self.classes.iter().map(of).fold(0.0, f64::max)
        };
        if w.stack.is_some() {
            let whole = self.ranks.iter().map(|rank| self.parameters(rank)).max().unwrap_or(0);
            let update = optimizer::Update {
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
        let Some(host) = self.workload.host() else { return 0.0 };
        let each = |read: &HostRead| match read {
            HostRead::Loss => host.synchronise_us + host.step_us,
            HostRead::GradientNorm => host.synchronise_us + host.launch_us.elementwise + host.latency_us,
            HostRead::ExpertCounts => 0.0,
        };
        let first = host.launch_us.elementwise + host.latency_us;
        (host.reads.iter().map(each).sum::<f64>() + first) * host.slowness * 1e-6
    }

    /// Weights that one rank holds, before anything is cut among data-parallel ranks.
    fn parameters(&self, rank: &super::RankTimes) -> u64 {
        let units = rank.stages.iter().flat_map(|stage| &self.stages[*stage]);
        units.map(|unit| unit.plan.parameters.total()).sum()
    }

    /// Share of the weights that the host updates.
    pub(super) fn updated_on_host(&self) -> f64 {
        let o = &self.workload.offload;
        match o.optimizer_on {
            OptimizerPlace::Device => 0.0,
            OptimizerPlace::Host => o.optimizer.iter().filter(|p| !p.on_device()).map(|p| p.fraction).sum(),
        }
    }

    pub(super) fn state(&self, rank: usize) -> State {
        let units = self.ranks[rank].stages.iter().flat_map(|stage| &self.stages[*stage]);
        let cut = memory::cut(self.workload.parallelism.sharding.kind);
        let (dense, expert) = (f64::from(self.degrees.shard), f64::from(self.degrees.expert_replicas()));
        State::of(units, &self.workload.bytes_per_parameter(), dense, expert, cut)
    }

    /// Seconds to copy `bytes` in, out and in place, by where they are placed.
    pub(super) fn copies(&self, placed: &[Placement], bytes: f64) -> [f64; 3] {
        let mut time = [0.0; 3];
        for place in placed.iter().filter(|p| !p.on_device()) {
            let pipes = |name: &str| {
                let tier = self.machine.tier_named(DeviceId(0), name).map(|tier| tier as u8);
                tier.and_then(|tier| self.links.copies.get(&tier))
            };
            let bytes = bytes * place.fraction;
            if let Some([inward, outward, _]) = pipes(&place.tier) {
                time[0] += inward.time(bytes);
                time[1] += outward.time(bytes);
            }
            // Updates happen at the device's end of the way, where there are stops on it.
            if let Some([.., update]) = pipes(place.via.last().unwrap_or(&place.tier)) {
                time[2] += update.time(bytes);
            }
        }
        time
    }

    /// Bytes of a unit's weights that one rank copies: its shard where weights are sharded.
    pub(super) fn copied_weights(&self, unit: &Unit) -> f64 {
        let (dense, expert) = unit.weight_bytes(self.workload.bytes_per_parameter().weights);
        match self.workload.parallelism.sharding.kind {
            ShardingKind::Zero3 => {
                dense as f64 / f64::from(self.degrees.shard)
                    + expert as f64 / f64::from(self.degrees.expert_replicas())
            }
            _ => (dense + expert) as f64,
        }
    }

    /// Weights come in for every pass and kept activations go out and come back, beside the unit's own passes; behind
    /// the last pass the optimizer's state and the gradients come in and the new state goes out, or the host updates
    /// them where they are. The two directions do not disturb each other, nor does any other device. What the last
    /// stage makes last is wanted at once and stays.
    pub(super) fn offload(&self) -> f64 {
        let (w, o) = (self.workload, &self.workload.offload);
        let rank = &self.ranks[self.busiest()];
        let passes = f64::from(self.order.per_direction());
        let bytes = w.bytes_per_parameter();
        let stays = match o.prefetch.unit {
            PrefetchUnit::Layers => o.prefetch.depth.max(1) as usize,
            PrefetchUnit::Ops | PrefetchUnit::Bytes => 1,
        };
        let mut exposed = 0.0;
        for (stage, times) in rank.stages.iter().zip(&rank.chunks) {
            let last = *stage + 1 == self.stages.len();
            let leave = self.stages[*stage].len().saturating_sub(if last { stays } else { 0 });
            for (i, (unit, time)) in self.stages[*stage].iter().zip(times).enumerate() {
                let reused = if o.reuse_across_micro_batches { 1.0 / passes } else { 1.0 };
                let [weights_in, ..] = self.copies(&o.weights, self.copied_weights(unit) * reused);
                let kept = if i < leave { unit.kept_bytes(&w.recompute) } else { 0 };
                let [kept_in, kept_out, _] = self.copies(&o.activations, kept as f64);
                let backward = time.recompute.total() + self.gradients(time).total();
                exposed += (weights_in.max(kept_out) - time.forward.total()).max(0.0);
                exposed += (weights_in + kept_in - backward).max(0.0);
            }
        }
        exposed * passes + self.update_copies(&bytes)
    }

    /// What the update of weights whose state, gradients or copies live elsewhere moves over the links.
    pub(super) fn update_copies(&self, bytes: &BytesPerParameter) -> f64 {
        let o = &self.workload.offload;
        let state = self.state(self.busiest());
        let on_host = self.updated_on_host();
        let [gradients_in, gradients_out, _] = self.copies(&o.gradients, state.gradients);
        if on_host > 0.0 {
            // Half of what the update moves is read, half written, at the same time.
            let moved = optimizer::bytes_moved(state.updated.round() as u64, bytes) / 2.0;
            let [.., update] = self.copies(&o.optimizer, moved);
            let away: f64 = o.weights.iter().filter(|p| !p.on_device()).map(|p| p.fraction).sum();
            let [back, ..] = self.copies(&o.optimizer, state.updated * bytes.weights * (1.0 - away).max(0.0));
            return gradients_out + update + back;
        }
        let [state_in, state_out, _] = self.copies(&o.optimizer, state.optimizer);
        let [_, weights_out, _] = self.copies(&o.weights, state.updated * bytes.weights);
        (state_in + gradients_in).max(state_out + weights_out + gradients_out)
    }
}
