//! Transformers as layers and kernels: what one rank computes, sends and keeps for one micro-batch.
//!
//! A [`Shard`] says which share of the model a rank has: its micro-batch, and its tensor-, context- and
//! expert-parallel degrees. [`LayerPlan::transformer`], [`LayerPlan::embedding`] and [`LayerPlan::head`] turn it into
//! ordered lists of kernels and communication points, apart for forward, input gradient and weight gradient
//! (zero-bubble schedules delay the last), and once more fused for schedules that run both gradients as one backward.
//!
//! Formulas (b sequences of s tokens, hidden h, FFN f, heads a of width d, vocabulary V, t tensor-parallel ranks):
//! * GEMMs: 2mnk FLOPs forward, the same for each of the two gradients.
//! * Attention: 4·b·s²·a·d forward; a flash kernel skips what a causal mask hides (half) and its backward does 2.5
//!   times its forward; the standard kernels compute the whole square and twice it in backward.
//! * Saved activations: Korthikanti et al. 2022 (arXiv 2205.05198), per layer s·b·h·(34 + 5as/h)/t with sequence
//!   parallelism, in bytes of 16-bit activations, for f = 4h, dropout and standard attention. Here they are a list of
//!   tensors ([`SavedTensor`]), each with what would compute it again, so any model and any policy follows.
//! * Tensor-parallel communication: Megatron-LM's `core/tensor_parallel/layers.py`: forward 2 all-gathers and 2
//!   reduce-scatters, backward the same and 2 more all-gathers of saved inputs, beside the input-gradient GEMMs.
//!
//! Hazards:
//! * FLOPs of a [`Kernel`] are those executed. For MFU use [`flops::StepFlops`], which counts the model's, causal
//!   attention in full or by half, as said there.
//! * Element-wise kernels are assumed fused as in Transformer Engine: dropout with the residual, bias with its GEMM,
//!   casts to fp8 with the kernel before.
//! * A communication point's bytes are the full size S of the collective conventions (all-gather and
//!   reduce-scatter: the gathered tensor; all-to-all and send: the buffer of one rank).

mod adapters;
mod attention;
mod autocast;
mod blocks;
mod casts;
mod ends;
pub mod flops;
mod item;
mod layer;
mod layer_count;
mod linear;
mod mlp;
mod module;
mod module_count;
mod module_travel;
mod moe;
pub mod muon;
pub mod optimizer;
mod parameters;
mod scan;
mod shard;
mod transformer;

pub use stepsim_core::kernel_class::KernelClass;

pub use item::{CommGroup, CommOp, CommPoint, Direction, Item, Kernel, KernelKey, KernelShape};
pub use layer::{LayerKind, LayerPlan, Parameters, SavedBy, SavedTensor};
pub use module::ModuleShard;
pub use module_count::{forward_image_flops, module_parameters, trained_module_parameters};
pub use parameters::{ParameterCount, trained_decoder_parameters, trained_parameters};
pub use shard::Shard;
pub use stepsim_spec::kernel::{AttentionGeneration, Format, Scaling};
