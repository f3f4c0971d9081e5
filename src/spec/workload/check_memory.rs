//! Checks of where a workload's bytes are: sharding, recomputation, optimizer state, offload.

use super::{
    Granularity, OptimizerKind, OptimizerPlace, Placement, RecomputeModule, RecomputeSpec, WorkloadSpec,
};
use crate::model::{Mixer, ModelSpec};
use crate::problem::Problems;

impl WorkloadSpec {
    pub(super) fn check_sharding(&self, p: &mut Problems) {
        let (s, kind) = (&self.parallelism.sharding, self.sharding());
        if !kind.cuts_weights() && s.reshard_after_forward.is_some() {
            p.add(
                "parallelism.sharding.reshard_after_forward",
                format!("{:?}", s.reshard_after_forward == Some(true)),
                "nothing, unless kind cuts weights, as zero3 does",
                "only cut weights are gathered in forward",
            );
        }
        let prefetch = &s.prefetch;
        let lists = [("forward", &prefetch.forward), ("backward", &prefetch.backward)];
        if !kind.cuts_weights() && *prefetch != super::ShardingPrefetch::default() {
            let allowed = "nothing, unless kind cuts weights, as zero3 does";
            let hint = "only cut weights are gathered layer by layer";
            p.add("parallelism.sharding.prefetch", "a rule", allowed, hint);
        }
        if prefetch.budgets().is_some() && lists.iter().any(|l| l.1.is_some()) {
            let allowed = "either FSDP's lists or DeepSpeed's budgets";
            let hint = "leave out forward and backward, or the three *_elements";
            p.add("parallelism.sharding.prefetch", "lists and element budgets", allowed, hint);
        }
        for (name, list) in lists {
            for (i, entry) in list.iter().flatten().enumerate() {
                let forward = name == "forward";
                // Layers on the far side of layer i: those before it have been computed.
                let late = |l: &&u64| if forward { **l <= i as u64 } else { **l >= i as u64 };
                if let Some(layer) = entry.iter().find(late) {
                    p.add(
                        format!("parallelism.sharding.prefetch.{name}[{i}]"),
                        layer,
                        format!("layers {} {i}", if forward { "above" } else { "below" }),
                        "a layer is gathered before it is computed, so those computed earlier cannot be prefetched",
                    );
                }
            }
        }
        if !kind.has_groups() && s.group.is_some() {
            let allowed = format!("nothing, where kind is {}", kind.name);
            let hint = "set kind to zero1, zero2 or zero3";
            p.add("parallelism.sharding.group", s.group.unwrap_or(0), allowed, hint);
        }
        let away = |place: &Placement| !place.on_device() && place.fraction > 0.0;
        if kind.keeps_secondary() && self.offload.weights.iter().any(away) {
            let hint = "the second copy of weights stays on the device";
            p.add("offload.weights", "another tier", format!("hbm, where kind is {}", kind.name), hint);
        }
    }

    pub(super) fn check_recompute(&self, p: &mut Problems, model: &ModelSpec) {
        self.recompute.check(p, "recompute", model.layers);
    }

    /// Optimizers of whole matrices need them whole, on the device, and known.
    pub(super) fn check_optimizer(&self, p: &mut Problems, model: &ModelSpec) {
        if self.optimizer.kind != OptimizerKind::Muon {
            return;
        }
        if self.sharding().cuts_gradients() {
            let allowed = "none or zero1, where each rank owns whole matrices";
            let hint = "optimizer.kind muon works on whole matrices";
            p.add("parallelism.sharding.kind", self.sharding().name, allowed, hint);
        }
        if self.offload.optimizer.iter().any(|x| !x.on_device() && x.fraction > 0.0) {
            p.add("offload.optimizer", "another tier", "hbm", "optimizer.kind muon runs on the device");
        }
        if model
            .layer_counts()
            .iter()
            .any(|(layer, _)| !matches!(layer.mixer, Mixer::Attention | Mixer::None))
        {
            let hint = "the matrices of mixers other than attention are not known one by one";
            p.add("optimizer.kind", "\"muon\"", "adam, adam8bit, lion, momentum, sgd, adafactor", hint);
        }
    }

    pub(super) fn check_offload(&self, p: &mut Problems) {
        let state = self.bytes_per_parameter();
        for (class, placements) in self.offload.classes() {
            self.check_placements(p, class, placements);
            let away = placements.iter().any(|x| !x.on_device() && x.fraction > 0.0);
            if away && class == "optimizer" && state.optimizer() == 0.0 {
                let allowed = "nothing: this recipe keeps no master weights and no moments";
                let hint = "see optimizer.kind and precision";
                p.add("offload.optimizer", format!("{} placements", placements.len()), allowed, hint);
            }
        }
        let out = |c: &[Placement]| c.iter().any(|x| !x.on_device() && x.fraction > 0.0);
        if self.offload.optimizer_on == OptimizerPlace::Host && !out(&self.offload.optimizer) {
            let allowed = "device, where all optimizer state is in device memory";
            p.add("offload.optimizer_on", "\"host\"", allowed, "place offload.optimizer on the host");
        }
        let hints = [
            (
                "activations_every_layers",
                self.offload.activations_every_layers,
                "send all layers' activations",
            ),
            ("optimizer_on_device_every", self.offload.optimizer_on_device_every, "update all on the host"),
        ];
        for (field, _, hint) in hints.iter().filter(|(_, said, _)| *said == Some(0)) {
            p.add(format!("offload.{field}"), 0, "1 or more", format!("leave it out to {hint}"));
        }
    }

    fn check_placements(&self, p: &mut Problems, class: &str, placements: &[Placement]) {
        for (i, place) in placements.iter().enumerate() {
            p.range(format!("offload.{class}[{i}].fraction"), place.fraction, 0.0, 1.0);
            if place.tier.is_empty() {
                let hint = "hbm, host, cxl, nvme";
                p.add(format!("offload.{class}[{i}].tier"), "\"\"", "the name of a memory tier", hint);
            }
            let mut stops = vec![&place.tier];
            for (j, via) in place.via.iter().enumerate() {
                if via == Placement::HBM || place.on_device() || stops.contains(&via) {
                    p.add(
                        format!("offload.{class}[{i}].via[{j}]"),
                        format!("{via:?}"),
                        "tiers between the device and the tier, each once, the farthest first",
                        "a share on nvme that passes the host: \"tier\": \"nvme\", \"via\": [\"host\"]",
                    );
                }
                stops.push(via);
            }
            if placements[..i].iter().any(|q| q.tier == place.tier && q.via == place.via) {
                let allowed = "each tier once";
                let hint = "add the fractions up";
                p.add(format!("offload.{class}[{i}].tier"), format!("{:?}", place.tier), allowed, hint);
            }
        }
        let sum: f64 = placements.iter().map(|x| x.fraction).sum();
        if !placements.is_empty() && (sum - 1.0).abs() > 1e-9 {
            let allowed = "fractions whose sum is 1";
            let hint = "name the share that stays in device memory too, as tier hbm";
            p.add(format!("offload.{class}"), format!("fractions with sum {sum}"), allowed, hint);
        }
    }
}

impl RecomputeSpec {
    /// Its problems at a path, in a stack of `layers` layers.
    pub(super) fn check(&self, p: &mut Problems, at: &str, layers: u64) {
        let full = self.granularity == Granularity::Full;
        for (name, value) in [("every_layers", self.every_layers), ("layers", self.layers)] {
            let path = format!("{at}.{name}");
            match value {
                Some(v) if !full => p.add(path, v, "nothing, unless granularity is full", ""),
                Some(v) => p.size(path, v, layers.max(1)),
                None => {}
            }
        }
        if (self.granularity == Granularity::Modules) == self.modules.is_empty() {
            let allowed = "at least one with granularity modules, none with any other";
            let hint = "norm, qkv, attention-core, projection, activation, mlp, moe, every-second-matrix";
            p.add(format!("{at}.modules"), format!("{} modules", self.modules.len()), allowed, hint);
        }
        let named = |module| self.modules.contains(&module);
        if named(RecomputeModule::Projection) && !named(RecomputeModule::AttentionCore) {
            let allowed = "projection beside attention-core";
            let hint = "add attention-core: its output, which the projection reads, is not kept";
            p.add(format!("{at}.modules"), "projection without attention-core", allowed, hint);
        }
    }
}
