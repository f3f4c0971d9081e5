//! Settings that dynamic context parallelism excludes.

use super::{ContextKind, WorkloadSpec};
use crate::model::{AttentionKernel, ModelSpec};
use crate::problem::Problems;

const AT: &str = "parallelism.context.dynamic";
/// Most layers that all ranks together pass through in a step: each is planned by itself, in some 3 kB.
const LAYERS: u64 = 1 << 20;

impl WorkloadSpec {
    /// Everything beside a degree for each document that it does not go with: ranks make unequal numbers of passes of
    /// unequal sizes.
    pub(super) fn check_dynamic(&self, p: &mut Problems, model: &ModelSpec) {
        let Some(dynamic) = self.parallelism.context.dynamic else { return };
        p.size(format!("{AT}.tokens_per_rank"), dynamic.tokens_per_rank, 1_000_000_000);
        let tokens = self.batch.global.saturating_mul(self.sequence(model));
        let least = tokens.saturating_mul(model.layers).div_ceil(LAYERS);
        if let Some(tokens_per_rank) = dynamic.tokens_per_rank.filter(|own| *own < least) {
            let hint =
                "fewer tokens a rank make more passes, and each is planned: lower batch.global instead";
            let at = format!("{AT}.tokens_per_rank");
            p.add(at, tokens_per_rank, format!("at least {least} with {tokens} tokens a step"), hint);
        }
        if self.documents.is_none() {
            let hint = "describe them: documents={\"drawn\": {\"median\": 1024, \"sigma\": 1.5}}";
            p.add(AT, "no documents", "documents, which each get a degree", hint);
        }
        self.check_dynamic_model(p, model);
        self.check_dynamic_parallelism(p);
    }

    fn check_dynamic_model(&self, p: &mut Problems, model: &ModelSpec) {
        let hint = "leave parallelism.context.dynamic out: a static degree cuts every model";
        let mut add = |is: bool, value: &str, allowed: &str| {
            if is {
                p.add(AT, value, allowed, hint);
            }
        };
        let mixes = model.layer_counts().iter().any(|(layer, _)| !layer.mixer.is_attention());
        let standard = model.attention.kernel == AttentionKernel::Standard;
        add(model.moe.is_some(), "a model with experts", "a dense model");
        add(mixes, "a model with scans", "attention in every layer");
        add(
            model.attention.indexer.is_some(),
            "attention with an indexer",
            "attention to all keys or a window",
        );
        add(standard, "attention.kernel standard", "attention.kernel flash, which knows documents");
        add(!self.modules.is_empty(), "modules", "a language model alone (modules={})");
    }

    fn check_dynamic_parallelism(&self, p: &mut Problems) {
        let par = &self.parallelism;
        if !matches!(par.context.kind, ContextKind::Ring | ContextKind::AllGather) {
            let hint = "an all-to-all over heads would need a cut of the heads for each degree";
            p.add("parallelism.context.kind", "all-to-all beside dynamic", "ring or all-gather", hint);
        }
        if par.pipeline.size > 1 || par.pipeline.chunks() > 1 {
            let hint = "set parallelism.pipeline.size=1, or leave parallelism.context.dynamic out";
            p.add("parallelism.pipeline.size", par.pipeline.size, "1 beside dynamic", hint);
        }
        if self.sharding().cuts_gradients() || self.reduces_every_micro_batch() {
            p.add(
                "parallelism.sharding.kind",
                "gradients or weights that travel in every micro-batch",
                "none or zero1 without gradient_buckets.reduce_every_micro_batch, beside dynamic",
                "ranks make unequal numbers of passes and meet once a step: set parallelism.sharding.kind=zero1",
            );
        }
        if self.offload.activations.iter().any(|place| !place.on_device() && place.fraction > 0.0) {
            let hint = "passes keep unequal activations: recompute them instead (recompute.granularity=full)";
            let allowed = "activations on the device, beside dynamic";
            p.add("offload.activations", "activations on a tier", allowed, hint);
        }
    }

    /// Groups of powers of two fill the ranks of data × context.
    pub(super) fn check_dynamic_ranks(&self, p: &mut Problems, ranks: u64) {
        if self.parallelism.context.dynamic.is_some() && !ranks.is_power_of_two() {
            let hint = "Megatron-LM asks for the same: change parallelism.tensor, or the number of devices";
            p.add(AT, format!("{ranks} ranks of data × context"), "a power of two of them", hint);
        }
    }
}
