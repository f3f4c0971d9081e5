//! A layer on one rank: blocks put together forward, and in reverse for backward.

use super::item::Item;
use stepsim_spec::workload::{Granularity, RecomputeModule, RecomputeSpec};

/// The work of one layer on one rank for one micro-batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LayerPlan {
    /// The kind of layer.
    pub kind: LayerKind,
    /// The forward pass.
    pub forward: Vec<Item>,
    /// The gradient of the layer's input.
    pub input_grad: Vec<Item>,
    /// The gradient of its weights; needs what `input_grad` left behind.
    pub weight_grad: Vec<Item>,
    /// Both gradients in one pass, as implementations without zero-bubble schedules order them.
    pub backward: Vec<Item>,
    /// Tensors that forward keeps for backward where nothing is recomputed.
    pub saved: Vec<SavedTensor>,
    /// Bytes of the layer's input on this rank: what full recomputation keeps, and what a pipeline border sends.
    pub boundary_bytes: u64,
    /// Bytes of the image tokens that it reads on this rank; 0: it reads none.
    pub image_bytes: u64,
    /// Bytes of short-lived tensors while one of its kernels runs, at most: gathered inputs, outputs and their
    /// gradients.
    pub workspace_bytes: u64,
    /// Bytes held between input gradient and weight gradient: saved GEMM inputs and gradients of GEMM outputs.
    pub weight_grad_bytes: u64,
    /// Weights of the layer on this rank.
    pub parameters: Parameters,
    /// True if a unit before or behind it holds the same weights.
    pub held_elsewhere: bool,
    /// Those that are kept in the format of frozen weights, and the bytes of one.
    pub quantised: (Parameters, f64),
    /// Those that are trained.
    pub trained: Parameters,
    /// Its weight matrices on this rank, for optimizers that work on whole ones.
    pub matrices: Vec<super::muon::MatrixBatch>,
    /// True if tensor-parallel ranks hold the same weights and each has gradients of its own images, which are summed
    /// over them.
    pub sums_over_tensor: bool,
    /// True if every pipeline rank holds the same weights and has gradients of its own images, which are summed over
    /// them.
    pub sums_over_pipeline: bool,
    /// True if it belongs to a module with devices of its own, whose state other ranks share than the state of the
    /// language model.
    pub is_apart: bool,
    /// Kernels that cast its weights once a step.
    pub weight_casts: Vec<Item>,
    /// True if what is computed again ends before the MLP's last product.
    pub stops_early: bool,
    /// Kernels of `weight_grad` that belong to what lies between dispatch and combine; they come first.
    pub expert_weight_grads: u32,
    pub(super) modules: Vec<(Vec<RecomputeModule>, Vec<Item>)>,
    /// Blocks that hold dispatch and combine.
    pub(super) between: Option<(usize, usize)>,
}

/// Kinds of layers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LayerKind {
    /// Token embedding, before the first transformer layer.
    Embedding,
    /// A transformer layer with a dense MLP.
    #[default]
    Dense,
    /// A transformer layer with experts.
    Moe,
    /// A multi-token-prediction module: a layer like the last with an embedding before and a head behind.
    Prediction,
    /// Final norm, LM head and loss, after the last transformer layer.
    Head,
    /// The patch embedding of a module, before its layers.
    ModuleInput,
    /// The projector, which makes a module's tokens at the language model's width.
    Projector,
    /// The arrival of a module's tokens from stages of its own.
    Tokens,
}

/// Weights of one layer on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Weights that every data-parallel and context-parallel rank has alike.
    pub dense: u64,
    /// Weights of experts: alike only among ranks that hold the same experts.
    pub expert: u64,
}

impl Parameters {
    /// All of them.
    pub fn total(&self) -> u64 {
        self.dense + self.expert
    }
    /// Bytes at `each` a parameter: (dense, expert).
    pub fn bytes(&self, each: f64) -> (u64, u64) {
        ((self.dense as f64 * each).round() as u64, (self.expert as f64 * each).round() as u64)
    }
}

/// A tensor that forward keeps for backward.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedTensor {
    /// Its name.
    pub name: &'static str,
    /// Its size on this rank in bytes.
    pub bytes: f64,
    /// The recomputation that makes it again.
    pub by: SavedBy,
    /// True if a weight gradient reads it (the rest is freed after the input gradient).
    pub for_weight_grad: bool,
}

/// The recomputation that makes a saved tensor again, beside recomputation of the whole layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SavedBy(pub Vec<RecomputeModule>);

impl LayerPlan {
    /// Bytes of its weights where one takes so many: (dense, expert); what is kept in a format of its own takes that
    /// one's, on its way too.
    pub fn weight_bytes(&self, each: f64) -> (u64, u64) {
        let (quantised, own) = self.quantised;
        let of = |all: u64, narrow: u64| (all as f64 * each - narrow as f64 * (each - own)).round() as u64;
        (of(self.parameters.dense, quantised.dense), of(self.parameters.expert, quantised.expert))
    }
    /// The plan where the layer is left out: its weights are held, nothing is computed and nothing trained.
    pub(super) fn left_out(self) -> LayerPlan {
        LayerPlan {
            kind: self.kind,
            parameters: self.parameters,
            quantised: self.quantised,
            ..LayerPlan::default()
        }
    }
    /// The items recomputed before this layer's backward under a policy, in order.
    ///
    /// Full recomputation repeats the whole forward, collectives included, as a checkpointed function does; with
    /// `every_layers` above 1 the planner repeats the layers since the last kept input.
    pub fn recompute(&self, policy: &RecomputeSpec) -> Vec<Item> {
        if policy.granularity == Granularity::Full && self.is_transformer() {
            return self.until_needed(self.forward.clone());
        }
        let repeated = self.repeated_modules(policy);
        let hit = |m: &Vec<RecomputeModule>| m.iter().any(|x| repeated.contains(x));
        let again =
            self.modules.iter().filter(|(m, _)| hit(m)).flat_map(|(_, items)| items.clone()).collect();
        if repeated.contains(&RecomputeModule::Mlp) { self.until_needed(again) } else { again }
    }
    /// Without the MLP's last product and what is behind it, where the software stops there: nothing reads its output.
    fn until_needed(&self, mut items: Vec<Item>) -> Vec<Item> {
        let is_last = |item: &Item| item.kernel().is_some_and(|kernel| kernel.name == "mlp down");
        if let Some(last) = items.iter().position(is_last).filter(|_| self.stops_early) {
            items.truncate(last);
        }
        items
    }
    /// The items recomputed before this layer's backward under a policy, module by module: of the part before the
    /// dispatch (and behind the combine), and of the experts.
    pub fn recompute_parts(&self, policy: &RecomputeSpec) -> (Vec<Item>, Vec<Item>) {
        let repeated = self.repeated_modules(policy);
        let (mut rest, mut experts) = (Vec::new(), Vec::new());
        for (block, (modules, items)) in self.modules.iter().enumerate() {
            let between = self.between.is_some_and(|(first, last)| (first..=last).contains(&block));
            if modules.iter().any(|module| repeated.contains(module)) {
                if between { &mut experts } else { &mut rest }.extend(items.iter().cloned());
            }
        }
        (rest, experts)
    }
    /// Bytes kept from forward to backward under a policy.
    pub fn saved_bytes(&self, policy: &RecomputeSpec) -> u64 {
        if policy.granularity == Granularity::Full && self.is_transformer() {
            return self.boundary_bytes;
        }
        let repeated = self.repeated_modules(policy);
        let kept = self.saved.iter().filter(|s| !s.by.0.iter().any(|m| repeated.contains(m)));
        kept.map(|s| s.bytes).sum::<f64>().round() as u64
    }
    /// Bytes kept from forward to backward where nothing is recomputed; also what lives while the layer is recomputed
    /// in full.
    pub fn all_saved_bytes(&self) -> u64 {
        self.saved.iter().map(|s| s.bytes).sum::<f64>().round() as u64
    }
    /// FLOPs on matrix units of a list.
    pub fn flops(items: &[Item]) -> f64 {
        items.iter().filter_map(Item::kernel).map(|k| k.flops).sum()
    }

    /// The parts that a policy repeats one by one.
    fn repeated_modules(&self, policy: &RecomputeSpec) -> Vec<RecomputeModule> {
        match policy.granularity {
            Granularity::None | Granularity::Full => Vec::new(),
            Granularity::Selective => vec![RecomputeModule::AttentionCore],
            Granularity::Modules => policy.modules.clone(),
        }
    }
    /// True if gradients come to it; a frozen layer with nothing to train before it runs forward alone.
    pub fn has_backward(&self) -> bool {
        !self.backward.is_empty()
    }
    /// True if it is a transformer layer of the model.
    pub fn is_transformer(&self) -> bool {
        matches!(self.kind, LayerKind::Dense | LayerKind::Moe)
    }
}
