//! Fields that have no effect: when each acts, and what to say where it does not.
//!
//! A field acts where every row of [`RULES`] that names it, or an object around it, says so. A row is wrong if a step
//! changes with a field that the row calls inert (`tests/laws/inert.rs` tries them on random steps). A field without
//! a row always acts, or acts by a cause that shows only when the step is played (an all-gather that nothing runs
//! beside).

use std::fmt;

use super::{
    ComputeFidelity, ContextKind, ExpertBalance, ModuleParallelism, ModuleUseSpec, Placement, WorkloadSpec,
};
use crate::json::within;
use crate::model::ModelSpec;
use stepsim_schedule::sharding::ShardingFacts;

/// A statement without effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoEffect {
    /// The field, an object whose stated fields have none, or a setting as it was given.
    pub field: String,
    /// Why.
    pub why: String,
}

impl fmt::Display for NoEffect {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} ({})", self.field, self.why)
    }
}

/// The facts that decide whether a field acts.
struct Situation<'a> {
    w: &'a WorkloadSpec,
    model: &'a ModelSpec,
    devices: u64,
}

impl Situation<'_> {
    fn data(&self) -> u64 {
        self.w.data_parallel(self.devices)
    }
    /// True if several ranks hold the same weights, of experts or all others.
    fn shares_weights(&self) -> bool {
        let p = &self.w.parallelism;
        let holders = self.data() * p.context.size * p.pipeline.copies();
        let of_experts = holders * p.tensor / (p.expert * p.expert_tensor()).max(1);
        let by_image = |usage: &ModuleUseSpec| usage.parallelism == ModuleParallelism::Data;
        let of_module = self.w.module_devices().is_some_and(|own| own.data > 1)
            || self.w.side_ranks() > 1
            || p.tensor > 1 && self.w.modules.values().any(by_image);
        holders > 1 || of_module || (self.model.moe.is_some() && of_experts > 1)
    }
    /// True if a rank has several micro-batches, of samples dealt anew too.
    fn repeats(&self) -> bool {
        self.w.micro_batches(self.devices) > 1 || self.w.parallelism.context.dynamic.is_some()
    }
    fn sharding(&self) -> &'static ShardingFacts {
        self.w.sharding()
    }
    fn stages(&self) -> u64 {
        self.w.parallelism.pipeline.size
    }
    fn is_away(placements: &[Placement]) -> bool {
        placements.iter().any(|place| !place.on_device() && place.fraction > 0.0)
    }
    /// True if weights come to the device from somewhere before they are used, or gradients leave it.
    fn moves_state(&self) -> bool {
        let offload = &self.w.offload;
        let cut = self.sharding().cuts_gradients() && self.shares_weights();
        cut || Self::is_away(&offload.weights) || Self::is_away(&offload.gradients)
    }
    fn axes_cut(&self) -> usize {
        let p = &self.w.parallelism;
        [p.tensor, p.context.size, self.data(), p.pipeline.size].iter().filter(|degree| **degree > 1).count()
    }
}

/// Fields, when they act, and what is the case where they do not.
type InertRule = (&'static [&'static str], fn(&Situation) -> bool, &'static str);

const RULES: [InertRule; 40] = [
    (
        &["parallelism.sequence_parallel", "parallelism.tensor_overlap"],
        |s| s.w.parallelism.tensor > 1,
        "tensor 1",
    ),
    (&["parallelism.tensor_overlap"], |s| s.w.parallelism.sequence_parallel, "no sequence_parallel"),
    (&["parallelism.order"], |s| s.axes_cut() > 1, "one axis is cut at most"),
    (
        &[
            "parallelism.context.kind",
            "parallelism.context.zigzag",
            "parallelism.context.ulysses_size",
            "parallelism.context.per_document",
        ],
        |s| s.w.parallelism.context.size > 1 || s.w.parallelism.context.dynamic.is_some(),
        "context 1",
    ),
    (
        &["parallelism.context.zigzag", "parallelism.context.per_document", "documents.order"],
        |s| s.w.parallelism.context.dynamic.is_none(),
        "dynamic context parallelism deals documents, and cuts each by itself",
    ),
    (
        &["parallelism.context.ulysses_size"],
        |s| s.w.parallelism.context.kind == ContextKind::TwoLevel,
        "context.kind is not two-level",
    ),
    (
        &["parallelism.context.zigzag"],
        |s| s.w.parallelism.context.kind != ContextKind::Ulysses,
        "ulysses cuts heads",
    ),
    (&["parallelism.context.zigzag"], |s| s.model.attention.causal, "attention is not causal"),
    (&["parallelism.expert_tensor", "expert", "expert_load"], |s| s.model.moe.is_some(), "no experts"),
    (&["expert.dispatcher", "expert.units", "expert.overlap"], |s| s.w.parallelism.expert > 1, "expert 1"),
    (
        &["expert_load.max_over_mean"],
        |s| matches!(s.w.expert_load.balance, ExpertBalance::Factor | ExpertBalance::Seeded),
        "balance is neither factor nor seeded",
    ),
    (&["expert_load.seed"], |s| s.w.expert_load.balance == ExpertBalance::Seeded, "balance is not seeded"),
    (
        &[
            "parallelism.pipeline.schedule",
            "parallelism.pipeline.group_size",
            "parallelism.pipeline.activation_limit",
            "parallelism.pipeline.layer_split",
        ],
        |s| s.stages() > 1 || s.w.parallelism.pipeline.chunks() > 1,
        "one stage",
    ),
    (&["parallelism.pipeline.p2p", "parallelism.pipeline.scatter_gather"], |s| s.stages() > 1, "one stage"),
    (
        &["parallelism.pipeline.scatter_gather"],
        |s| s.w.parallelism.tensor > 1 && (!s.w.parallelism.sequence_parallel || s.w.cuts_encoder_borders()),
        "tensor ranks send different messages",
    ),
    (
        &["parallelism.keep_gathered"],
        |s| s.w.parallelism.sequence_parallel && s.w.parallelism.tensor > 1,
        "no input is gathered",
    ),
    (
        &["parallelism.sharding", "gradient_buckets.bucket_bytes", "gradient_buckets.overlap"],
        |s| s.shares_weights() || Situation::is_away(&s.w.offload.gradients),
        "one rank holds each weight",
    ),
    (
        &[
            "gradient_buckets.all_reduce",
            "gradient_buckets.overlap_weight_gather",
            "precision.weight_communication",
        ],
        |s| s.shares_weights(),
        "one rank holds each weight",
    ),
    (
        &["precision.gradient_communication"],
        // First and last stage sum the gradients of a table that they share.
        |s| s.shares_weights() || s.model.table_at_both_ends() && s.stages() > 1,
        "one rank holds each weight",
    ),
    (
        &["parallelism.sharding.gather_bucket_bytes", "precision.weight_communication"],
        |s| s.sharding().cuts_optimizer(),
        "nothing is sharded",
    ),
    (
        &[
            "parallelism.sharding.prefetch",
            "parallelism.sharding.reshard_after_forward",
            "parallelism.sharding.by_matrix",
        ],
        |s| s.sharding().cuts_weights(),
        "sharding.kind cuts no weights",
    ),
    (
        &["parallelism.sharding.by_matrix"],
        |s| s.w.parallelism.sharding.reshard_after_forward != Some(false),
        "a layer stays gathered until its backward pass",
    ),
    (
        &["gradient_buckets.all_reduce"],
        |s| s.sharding().cuts_optimizer() && !s.sharding().cuts_gradients(),
        "sharding.kind does not cut optimizer state alone",
    ),
    (
        &["gradient_buckets.overlap_weight_gather"],
        |s| s.sharding().renews_weights(),
        "sharding.kind does not cut updates of whole weights",
    ),
    (
        &["gradient_buckets.reduce_every_micro_batch"],
        |s| s.repeats() || s.sharding().cuts_gradients(),
        "one micro-batch",
    ),
    (
        &[
            "offload.activations_every_layers",
            "offload.activations_at_least_bytes",
            "offload.activations_stay_visits",
        ],
        |s| Situation::is_away(&s.w.offload.activations),
        "activations stay on the device",
    ),
    (
        &["offload.optimizer_on_device_every"],
        |s| s.w.offload.optimizer_on == super::OptimizerPlace::Host,
        "the host updates nothing",
    ),
    (
        &["offload.prefetch"],
        |s| s.w.offload.classes().iter().any(|(_, placements)| Situation::is_away(placements)),
        "everything stays on the device",
    ),
    (&["offload.reuse_across_micro_batches"], |s| s.repeats(), "one micro-batch"),
    (
        &["offload.reuse_across_micro_batches"],
        |s| s.moves_state() || s.w.reduces_every_micro_batch(),
        "weights and gradients stay on the device, and gradients are reduced once",
    ),
    (
        &["fidelity.constant_fraction"],
        |s| s.w.fidelity.compute == ComputeFidelity::Constant,
        "fidelity.compute is not constant",
    ),
    (&["fidelity.launch_overhead"], |s| s.w.stack().host.is_some(), "the stack launches at no cost"),
    (&["noise.stragglers"], |s| s.w.noise.stragglers.iter().any(|r| r.slowness > 1.0), "nobody is slower"),
    (&["modules.*.order"], |s| s.w.has_uneven_images(), "all sequences have equally many images"),
    (&["modules.*.exchange"], |s| s.w.has_uneven_images(), "all sequences have equally many images"),
    (&["modules.*.exchange"], |s| s.w.data_parallel(s.devices) > 1, "one data-parallel rank"),
    (&["modules.*.parallelism"], |s| s.w.parallelism.tensor > 1, "tensor 1"),
    (
        &["modules.*.parallelism", "modules.*.stages"],
        |s| s.w.module_devices().is_none(),
        "the module has devices of its own",
    ),
    (&["modules.*.recompute"], |s| s.w.trains_modules(), "the encoder runs forward alone"),
    (&["noise.slow_links"], |s| s.w.noise.slow_links.iter().any(|l| l.slowness > 1.0), "no link is slower"),
];

/// The field that a rule names, where a path is in it: `*` stands for any name.
fn field_of(path: &str, rule: &str) -> Option<String> {
    let Some((map, field)) = rule.split_once(".*.") else { return within(path, rule).then(|| rule.into()) };
    let (name, rest) = path.strip_prefix(map)?.strip_prefix('.')?.split_once('.')?;
    within(rest, field).then(|| format!("{map}.{name}.{field}"))
}

impl WorkloadSpec {
    /// The stated fields without effect on `devices`, each once, in the order in which they are stated.
    pub fn inert(&self, stated: &[String], model: &ModelSpec, devices: u64) -> Vec<NoEffect> {
        let situation = Situation { w: self, model, devices };
        let silent: Vec<_> = RULES.iter().filter(|(_, acts, _)| !acts(&situation)).collect();
        let mut found: Vec<NoEffect> = Vec::new();
        for path in stated {
            let rule = silent
                .iter()
                .find_map(|(fields, _, why)| Some((fields.iter().find_map(|f| field_of(path, f))?, why)));
            let Some((field, why)) = rule else { continue };
            let alone = stated.iter().filter(|other| within(other, &field)).count() == 1;
            let named = if alone { path.as_str() } else { &field };
            if !found.iter().any(|inert| inert.field == named) {
                found.push(NoEffect { field: named.to_string(), why: (*why).to_string() });
            }
        }
        found
    }
}
