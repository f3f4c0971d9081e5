//! One rank's share of a model.

use std::sync::Arc;

use super::KernelClass;
use super::item::{CommGroup, Item, Kernel};
use crate::documents::AttentionPairs;
use crate::moe::Travel;
use stepsim_core::declare::defaults;
use stepsim_spec::facts::facts;
use stepsim_spec::kernel::{AttentionGeneration, Scaling};
use stepsim_spec::model::ModelSpec;
use stepsim_spec::recipe::Recipe;
use stepsim_spec::stack::FusedPart;
use stepsim_spec::workload::{
    ContextSpec, Dtype, ExpertOverlap, Fp8Gemm, Fp8Spec, FrozenFormat, KernelFusion, LossSpec,
    TrainedWeights, WorkloadSpec,
};

defaults! {
    /// The work of one rank: its share of the model and the micro-batch.
    ///
    /// Degrees are taken as given: `WorkloadSpec::validate` has checked that they divide what they cut.
    #[derive(Clone, Debug, PartialEq)]
    pub struct Shard {
        /// Sequences of one micro-batch.
        pub micro_batch: u64 = 1,
        /// Tokens of one sequence, before context parallelism cuts it.
        pub sequence: u64,
        /// Tensor-parallel degree.
        pub tensor: u64 = 1,
        /// True if the tensors between tensor-parallel parts are cut along the sequence.
        pub sequence_parallel: bool,
        /// True if products keep their gathered input.
        pub keep_gathered: bool,
        /// Context parallelism.
        pub context: ContextSpec,
        /// Among whom the keys of a sequence travel.
        pub context_group: CommGroup = CommGroup::Context,
        /// Position in the context-parallel group; matters for causal rings without zigzag.
        pub context_rank: u64,
        /// The attention work where the sequences hold documents; `None`: one document each.
        pub documents: Option<Arc<AttentionPairs>>,
        /// Images of a micro-batch by module, where they differ between micro-batches.
        pub images: Option<Arc<[u64]>>,
        /// Expert-parallel degree.
        pub expert: u64 = 1,
        /// Tensor-parallel degree inside an expert.
        pub expert_tensor: u64 = 1,
        /// Tokens that this rank's experts receive over the mean.
        pub expert_load: f64 = 1.0,
        /// How tokens travel to experts; `None` in a model without.
        pub travel: Option<Travel>,
        /// The work that runs beside the exchanges with experts.
        pub expert_overlap: ExpertOverlap,
        /// True if the shared expert runs between dispatch and combine (DualPipe), not before the dispatch (where
        /// passes are not paired, and in the pairs of Megatron's `overlap_moe_expert_parallel_comm`).
        pub shared_between: bool,
        /// Rows of an expert are padded to a multiple of this.
        pub pad_rows_to: u64 = 1,
        /// True if a kernel of its own copies rows into padded ones and back.
        pub pads_by_copy: bool,
        /// Format of activations and of GEMMs that `fp8` does not name.
        pub compute: Dtype,
        /// Bytes in which gradients are accumulated.
        pub gradient_bytes: f64 = 4.0,
        /// Narrow formats where they are used.
        pub fp8: Option<Fp8Spec>,
        /// How operands get into narrow formats; `None`: at no cost.
        pub recipe: Option<Recipe>,
        /// The element-wise work that runs in kernels of its own.
        pub fusion: KernelFusion,
        /// How the loss is computed.
        pub loss: LossSpec,
        /// Generation of fused attention kernels; `None`: the best that the device has.
        pub attention: Option<AttentionGeneration>,
        /// Parts with one kernel each, regardless of `fusion`.
        pub fused: Vec<FusedPart>,
        /// Parts that run operation by operation, regardless of `fusion`.
        pub eager: Vec<FusedPart>,
        /// Logits are cast and shifted before the loss.
        pub copies_logits: bool,
        /// The logits stay beside these copies.
        pub logits_stay: bool,
        /// True if heads are copied between the layout of their projection and the layout of attention.
        pub copies_heads: bool,
        /// True if attention reads its mask as a tensor and works on the whole square.
        pub mask_is_tensor: bool,
        /// True if a window is such a mask.
        pub window_is_mask: bool,
        /// Share of the micro-batches whose gradients are added to those before: the first one's are kept as they come.
        pub accumulated: f64 = 1.0,
        /// True if rows of experts are masked and weighed by operations of their own.
        pub masks_expert_rows: bool,
        /// True if `torch.autocast` works beside fp32 weights.
        pub autocast: bool,
        /// True if backward waits for each message between tensor-parallel ranks.
        pub waits_for_tensor: bool,
        /// True if what is computed again ends with the last tensor that a backward pass reads.
        pub stops_early: bool,
        /// True if image tokens need a gradient: something in front of the language model is trained.
        pub image_gradients: bool = true,
        /// True if the layer keeps the image tokens that it reads: the first of its stage that reads them.
        pub keeps_images: bool,
        /// The trained part of the layer.
        pub trained: TrainedWeights,
        /// How frozen matrices of layers are kept.
        pub frozen_format: Option<FrozenFormat>,
        /// True if nothing below the layer is trained: then its input needs no gradient.
        pub lowest: bool,
    }
}

impl Shard {
    /// The share of every rank under a workload; the last rank of the context-parallel group, which has the most to
    /// do where shares differ, with an even load on experts.
    pub fn new(workload: &WorkloadSpec, model: &ModelSpec) -> Shard {
        Shard::over_domains(workload, model, 1)
    }
    /// The same where the ranks that share experts lie on `domains` scale-up domains.
    pub fn over_domains(workload: &WorkloadSpec, model: &ModelSpec, domains: u64) -> Shard {
        let shard = Shard::without_travel(workload, model);
        let travel = |moe| Travel::new(workload, model, moe, shard.local_tokens(), domains);
        Shard { travel: model.moe.as_ref().map(travel), ..shard.clone() }
    }
    fn without_travel(workload: &WorkloadSpec, model: &ModelSpec) -> Shard {
        let par = &workload.parallelism;
        Shard {
            micro_batch: workload.batch.micro_batch,
            sequence: workload.sequence(model),
            tensor: par.tensor,
            sequence_parallel: par.sequence_parallel && par.tensor > 1,
            keep_gathered: par.keep_gathered,
            context: par.context,
            context_rank: par.context.size.saturating_sub(1),
            expert: par.expert,
            expert_tensor: par.expert_tensor(),
            // Without exchanges nothing runs beside them.
            expert_overlap: if par.expert > 1 { workload.expert.overlap } else { ExpertOverlap::None },
            shared_between: par.pipeline.pairs() && !workload.expert.overlap.pairs(),
            pad_rows_to: workload.expert.pad_rows_to.unwrap_or(match workload.precision.recipe() {
                Some(recipe) => recipe.pad_rows_to,
                None => 1,
            }),
            pads_by_copy: workload.precision.recipe().is_some_and(|recipe| recipe.pads_by_copy),
            compute: workload.precision.compute,
            gradient_bytes: workload.precision.gradients.bytes(),
            fp8: workload.precision.narrow(),
            recipe: workload.precision.recipe().cloned(),
            fusion: workload.fusion,
            loss: workload.loss,
            attention: workload.stack().attention,
            fused: workload.stack().fused.clone(),
            eager: workload.stack().eager.clone(),
            frozen_format: workload.training.frozen_format,
            copies_logits: workload.stack().copies.logits,
            logits_stay: workload.stack().copies.logits_stay,
            copies_heads: workload.stack().copies.heads,
            mask_is_tensor: workload.stack().compiled_mask && workload.fusion == KernelFusion::Compiled,
            window_is_mask: workload.stack().compiled_mask,
            accumulated: workload.accumulated_share(),
            masks_expert_rows: workload.stack().copies.expert_rows,
            autocast: workload.autocasts(),
            waits_for_tensor: workload.stack().waits_for_tensor,
            stops_early: workload.stack().stops_early,
            image_gradients: workload.trains_modules(),
            ..Shard::default()
        }
    }
    /// One device that holds everything: micro-batch 1, the model's sequence, bf16.
    pub fn whole(model: &ModelSpec) -> Shard {
        Shard { sequence: model.sequence, ..Shard::default() }
    }

    /// The share of `tokens` image tokens of each sequence: whole on every rank of a replica.
    pub(super) fn of_images(&self, tokens: u64) -> Shard {
        Shard {
            sequence: tokens,
            sequence_parallel: false,
            context: ContextSpec::default(),
            context_rank: 0,
            ..self.clone()
        }
    }
    /// True if frozen weights are converted again in a backward pass: PyTorch's product keeps what operations of its
    /// own have made of GPTQ's.
    pub fn converts_frozen_again(&self) -> bool {
        self.frozen_format != Some(FrozenFormat::Gptq)
    }
    /// Tokens of one micro-batch on this rank where tensor-parallel parts work: b·s over the context degree.
    pub fn tokens(&self) -> u64 {
        self.micro_batch * self.sequence / self.context.size.max(1)
    }
    /// Tokens between tensor-parallel parts: cut once more with sequence parallelism.
    pub fn local_tokens(&self) -> u64 {
        if self.sequence_parallel { self.tokens() / self.tensor } else { self.tokens() }
    }
    /// Tokens of the input that a product cut by columns keeps.
    pub(super) fn kept_tokens(&self) -> u64 {
        if self.keep_gathered { self.tokens() } else { self.local_tokens() }
    }
    /// How many of the ranks that cut an expert have the same tokens: tensor-parallel ranks, where the sequence is
    /// not cut among them.
    pub fn alike_in_expert(&self) -> u64 {
        if self.sequence_parallel { 1 } else { self.tensor.min(self.expert_tensor) }
    }
    /// Query heads of this rank.
    pub fn heads(&self, model: &ModelSpec) -> u64 {
        model.heads / self.tensor
    }
    /// Key–value heads of this rank: replicated where there are fewer than tensor-parallel ranks.
    pub fn kv_heads(&self, model: &ModelSpec) -> u64 {
        model.kv_heads().div_ceil(self.tensor)
    }
    /// Bytes of one activation element.
    pub fn act(&self) -> f64 {
        self.compute.bytes()
    }
    /// Bytes of the activations that cross a layer or pipeline border.
    pub fn boundary_bytes(&self, model: &ModelSpec) -> f64 {
        self.local_tokens() as f64 * model.hidden as f64 * self.stream()
    }

    /// A kernel bound by memory on the rank's activations, which moves `bytes`.
    pub(super) fn elementwise(
        &self,
        class: KernelClass,
        name: &'static str,
        elements: u64,
        bytes: f64,
    ) -> Item {
        Item::Kernel(Kernel::elementwise(class, name, elements, bytes, self.compute))
    }
    /// The same for a kernel that reads and writes each element `times` times, together.
    pub(super) fn pass(&self, class: KernelClass, name: &'static str, elements: u64, times: f64) -> Item {
        self.elementwise(class, name, elements, times * elements as f64 * self.act())
    }

    /// True if the gradients of norms, biases and residuals are added up where they are made.
    pub(super) fn fuses_gradients(&self) -> bool {
        self.fusion <= KernelFusion::Compiled
    }
    /// True if GEMMs add weight gradients to the gradients of the micro-batches before.
    pub(super) fn fuses_accumulation(&self) -> bool {
        self.fusion <= KernelFusion::PartialAccumulating
    }
    /// The sum of a gradient over micro-batches, by itself; under autocast behind a cast.
    pub(super) fn accumulate(&self, weights: u64) -> Option<Item> {
        let gradient = self.gradient_bytes;
        let each = match self.works_in_fp32() {
            true => *facts().wider_casts * (self.act() + gradient) + self.accumulated * 3.0 * gradient,
            false => self.accumulated * (self.act() + 2.0 * gradient),
        };
        let bytes = weights as f64 * each;
        let item = || self.elementwise(KernelClass::Accumulate, "accumulate gradient", weights, bytes);
        (each > 0.0 && !self.fuses_accumulation()).then(item)
    }
    /// True if element-wise operations in a row are one kernel.
    pub(super) fn fuses_chains(&self) -> bool {
        self.fusion != KernelFusion::None
    }
    /// One kernel computes an activation and its product with the gate.
    pub(super) fn fuses_activation(&self) -> bool {
        let eager = self.eager.contains(&FusedPart::Activation);
        self.fuses_chains() && !eager || self.has_kernel_of(FusedPart::Activation)
    }
    /// The stack has a library kernel for this part.
    pub(super) fn has_kernel_of(&self, part: FusedPart) -> bool {
        self.fused.contains(&part)
    }
    /// The same pass, by a library's kernel where the stack has one for this part.
    pub(super) fn made(&self, part: FusedPart, item: Item) -> Item {
        match item {
            Item::Kernel(kernel) => Item::Kernel(Kernel { tuned: self.has_kernel_of(part), ..kernel }),
            comm => comm,
        }
    }

    /// Format in which a GEMM multiplies in forward and for its input gradient.
    pub fn gemm_dtype(&self, gemm: Fp8Gemm) -> Dtype {
        match &self.fp8 {
            Some(f) if f.gemms.contains(&gemm) => self.recipe.as_ref().map_or(Dtype::Fp8, |r| r.dtype),
            _ => self.compute,
        }
    }
    /// Format in which fused attention multiplies: 8 bits, where it is narrow at all.
    pub(super) fn attention_dtype(&self) -> Dtype {
        match self.gemm_dtype(Fp8Gemm::Attention) {
            Dtype::Fp4 => Dtype::Fp8,
            dtype => dtype,
        }
    }
    /// How elements of a format are scaled.
    pub(super) fn scaling(&self, dtype: Dtype) -> Scaling {
        match &self.recipe {
            Some(recipe) if recipe.dtype == dtype => recipe.scaling,
            _ => Scaling::Tensor,
        }
    }
    /// Bytes of one element of a GEMM's input as it is saved for backward.
    pub(super) fn saved_input(&self, gemm: Fp8Gemm) -> f64 {
        match &self.fp8 {
            Some(f) if f.gemms.contains(&gemm) => {
                self.recipe.as_ref().map_or(Dtype::Fp8.bytes(), |r| r.saved_bytes)
            }
            _ => self.act(),
        }
    }
    /// Bytes of one element of an activation function's input as it is saved for backward.
    pub(super) fn saved_activation(&self) -> f64 {
        match &self.fp8 {
            Some(f) if f.saved_activations => {
                self.recipe.as_ref().map_or(Dtype::Fp8.bytes(), |r| r.saved_bytes)
            }
            _ => self.act(),
        }
    }
    /// Bytes of one element of a GEMM's input as it is gathered between tensor-parallel ranks.
    pub(super) fn gathered_input(&self, gemm: Fp8Gemm) -> f64 {
        let narrow = self.narrow_recipe(gemm).and_then(|r| r.input_gather_bytes);
        narrow.unwrap_or(self.act())
    }
    /// The same of the gradient of its output.
    pub(super) fn gathered_gradient(&self, gemm: Fp8Gemm) -> f64 {
        self.narrow_recipe(gemm).and_then(|r| r.gradient_gather_bytes).unwrap_or(self.act())
    }
    /// The recipe of a GEMM that multiplies in its narrow format.
    pub(super) fn narrow_recipe(&self, gemm: Fp8Gemm) -> Option<&Recipe> {
        self.recipe.as_ref().filter(|r| self.gemm_dtype(gemm) == r.dtype && r.is_narrow())
    }
    /// True if a GEMM keeps a narrow copy of an input that is kept in a wide format beside it.
    pub(super) fn keeps_copy(&self, gemm: Fp8Gemm) -> bool {
        self.narrow_recipe(gemm).is_some_and(|r| !r.keeps_original && r.saved_bytes < self.act())
    }
}
