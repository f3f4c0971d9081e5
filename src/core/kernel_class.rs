//! Classes of kernels: one table.
//!
//! A class is what a price, a report and a waterfall go by: two kernels of one class, size and format cost the same.
//! A row of the table gives a class its name, the work of its kernels, their usual speed, and the measured ops that
//! mean it; a new class is one row. Figures of a class on a device stand in the device's file (`spec::cost`).
//!
//! The share of a copy's bandwidth that a memory-bound class reaches depends on who made the kernel far more than on
//! the device. The fractions are medians over H100, H200, GB200, B200 and A100 rows of kernels that move 100 MB and
//! more.
//! Sources:
//! * norms: NVIDIA/cudnn-frontend RMSNorm results (tuned: cuDNN; compiled: Inductor; eager: PyTorch); layer norm
//!   backward: Liger-Kernel benchmark (tuned: Liger; eager: PyTorch);
//! * activation: Liger-Kernel SwiGLU benchmark (tuned: Liger; compiled: Megatron's JIT). PyTorch's passes reach 0.60
//!   there, since halves of one tensor are read without vector instructions. Eager is for separate tensors: residual
//!   additions, DeepSeek-V3's scalar product;
//! * rotary, residual: vidur profiles of Llama 2 layers on H100, the training profile of DeepSeek-V3;
//! * casts: torchao blockwise and MX casts on H100 and B200, Transformer Engine's GEMM tutorial (amax);
//! * permute, unpermute, transpose: the training profile of DeepSeek-V3 on H800;
//! * top-k, row map: the same profile. 4,096 times the best of 256 scores take 70 us (PyTorch's radix select, one
//!   block a token), the places of 30,700 received rows of eight indices each and their counts 171 + 70 us: neither
//!   comes near what memory gives;
//! * optimizer: PyTorch pull 119842 (fused Adam after and before its change), NeMo Automodel pull 3110 (for-each);
//! * loss: Liger-Kernel cross-entropy, forward with gradient; a sum over 2^30 floats for norms of gradients.
//!
//! Not measured: softmax, embedding, router, reductions, clipping, accumulation. They take the figures of their kin.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The product that a module in front of a model begins with, as the last words of its name.
pub const MODULE_INPUT: &str = "patch embedding";

/// The work of a class's kernels, which decides their price.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum KernelKind {
    /// One product of activations or gradients with weights, or with one another for the weights' gradients.
    Gemm(MatmulPass),
    /// Such products of several experts in one launch.
    GroupedGemm(MatmulPass),
    /// Batched products of tokens with one another.
    Batched,
    /// Products inside and between the chunks of a sequence.
    Scan,
    /// Attention in one kernel.
    Attention,
    /// Bytes moved and nothing multiplied.
    MemoryBound(ClassRates),
}

/// The product that a matrix multiplication is, one of three.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatmulPass {
    /// The forward one.
    Forward,
    /// The input's gradient.
    InputGrad,
    /// The weight's gradient.
    WeightGrad,
}

/// Usual figures of a class that memory bounds; a device's file may have its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ClassRates {
    /// Bandwidth of a tuned kernel over the bandwidth of a copy.
    pub tuned: f64,
    /// The same of a compiled one.
    pub compiled: f64,
    /// The same of an eager one.
    pub eager: f64,
    /// Start and ramp in microseconds.
    pub floor_us: f64,
}

/// An op of measurements that means a class, and the bytes that it moves for each of its elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredOp {
    /// Its name in rows of measurements.
    pub op: &'static str,
    /// Its direction; none: either.
    pub backward: Option<bool>,
    /// Bytes in elements of its format.
    pub elements: f64,
    /// Bytes whatever its format.
    pub bytes: f64,
}

impl MeasuredOp {
    /// The bytes of `elements` in a format of `format_bytes` each.
    pub fn moved(self, elements: f64, format_bytes: f64) -> f64 {
        elements * (self.elements * format_bytes + self.bytes)
    }
}

/// Declares the classes once: variant, name in files and reports, what it is, its kind, the measured ops that mean it.
macro_rules! classes {
    ($($variant:ident $name:literal $about:literal, $kind:expr, [$($op:expr),*];)*) => {
        /// The kind of work of a kernel.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        pub enum KernelClass {
            $(#[doc = $about] #[serde(rename = $name)] $variant,)*
        }

        impl KernelClass {
            /// All classes, in the order of a training step.
            pub const ALL: &[KernelClass] = &[$(KernelClass::$variant),*];

            /// The name in files and reports.
            pub const fn name(self) -> &'static str {
                match self { $(KernelClass::$variant => $name),* }
            }
            /// The work of its kernels.
            pub const fn kind(self) -> KernelKind {
                match self { $(KernelClass::$variant => $kind),* }
            }
            /// The ops of measurements that mean it.
            pub const fn measured(self) -> &'static [MeasuredOp] {
                match self { $(KernelClass::$variant => const { &[$($op),*] }),* }
            }
        }
    };
}

/// A class that memory bounds: bandwidth over a copy's when tuned, compiled and eager; floor in microseconds.
const fn moves([tuned, compiled, eager]: [f64; 3], floor_us: f64) -> KernelKind {
    KernelKind::MemoryBound(ClassRates { tuned, compiled, eager, floor_us })
}
/// An op that moves `elements` elements of its format for each of its own, forward.
const fn forward(op: &'static str, elements: f64) -> MeasuredOp {
    MeasuredOp { op, backward: Some(false), elements, bytes: 0.0 }
}
/// The same backward.
const fn backward(op: &'static str, elements: f64) -> MeasuredOp {
    MeasuredOp { backward: Some(true), ..forward(op, elements) }
}
/// The same either way.
const fn either(op: &'static str, elements: f64) -> MeasuredOp {
    MeasuredOp { backward: None, ..forward(op, elements) }
}
/// An op that moves `bytes` bytes for each element.
const fn bytes(op: &'static str, bytes: f64) -> MeasuredOp {
    MeasuredOp { bytes, ..either(op, 0.0) }
}

classes! {
    Gemm "gemm" "Matrix product of a forward pass (operands TN).",
        KernelKind::Gemm(MatmulPass::Forward), [];
    GemmInputGrad "gemm-input-grad" "Matrix product of an input gradient (operands NN).",
        KernelKind::Gemm(MatmulPass::InputGrad), [];
    GemmWeightGrad "gemm-weight-grad" "Matrix product of a weight gradient (operands NT, often with a sum).",
        KernelKind::Gemm(MatmulPass::WeightGrad), [];
    GroupedGemm "grouped-gemm" "Products of several experts in one launch, forward.",
        KernelKind::GroupedGemm(MatmulPass::Forward), [];
    GroupedGemmInputGrad "grouped-gemm-input-grad" "Products of several experts in one launch, input gradient.",
        KernelKind::GroupedGemm(MatmulPass::InputGrad), [];
    GroupedGemmWeightGrad "grouped-gemm-weight-grad" "Products of several experts in one launch, weight gradient.",
        KernelKind::GroupedGemm(MatmulPass::WeightGrad), [];
    AttentionGemm "attention-gemm" "Batched products of an attention that is not fused.",
        KernelKind::Batched, [];
    Scan "scan" "Products inside and between the chunks of a state space or linear attention, forward.",
        KernelKind::Scan, [];
    ScanBackward "scan-backward" "The same, backward.",
        KernelKind::Scan, [];
    DeltaScan "delta-scan" "Products of the chunks of a delta rule with a decay a head, forward.",
        KernelKind::Scan, [];
    DeltaScanBackward "delta-scan-backward" "The same, backward.",
        KernelKind::Scan, [];
    ChannelDeltaScan "channel-delta-scan" "Products of the chunks of a delta rule with a decay a channel, forward.",
        KernelKind::Scan, [];
    ChannelDeltaScanBackward "channel-delta-scan-backward" "The same, backward.",
        KernelKind::Scan, [];
    AttentionForward "attention-forward" "Fused attention, forward.",
        KernelKind::Attention, [];
    AttentionBackward "attention-backward" "Fused attention, backward.",
        KernelKind::Attention, [];
    Softmax "softmax" "Softmax and dropout of an attention that is not fused, either way.",
        moves([0.90, 0.90, 0.85], 4.0), [forward("softmax", 2.0), backward("softmax", 3.0)];
    Norm "norm" "Layer norm or RMS norm, forward.",
        moves([0.90, 0.90, 0.65], 2.0),
        [forward("rms_norm", 2.0), forward("layer_norm", 2.0), forward("add_rms_norm", 4.0)];
    NormBackward "norm-backward" "RMS norm, backward.",
        moves([0.80, 0.40, 0.34], 6.0), [backward("rms_norm", 3.0)];
    LayerNormBackward "layer-norm-backward" "Layer norm, backward.",
        moves([0.45, 0.42, 0.38], 6.0), [backward("layer_norm", 3.0)];
    Rotary "rotary" "Rotary embedding of queries and keys, either way.",
        moves([0.53, 0.53, 0.53], 2.0), [either("rope", 2.0)];
    Activation "activation" "Activation function of an MLP, gated or not, either way.",
        moves([0.85, 0.62, 0.90], 2.0),
        [forward("swiglu", 3.0), backward("swiglu", 5.0), forward("gelu", 2.0), backward("gelu", 3.0),
         bytes("swiglu+quantize", 5.0)];
    Residual "residual" "Residual additions and dropout.",
        moves([1.0, 1.0, 0.95], 2.0), [either("residual_add", 3.0)];
    Reduction "reduction" "Sums over tokens: gradients of biases and of norm weights by themselves.",
        moves([0.80, 0.80, 0.60], 4.0), [];
    Loss "loss" "Softmax and cross-entropy over the vocabulary, either way.",
        moves([0.90, 0.90, 0.85], 4.0), [];
    Embedding "embedding" "Rows of the embedding table, read or added to.",
        moves([0.65, 0.65, 0.60], 4.0), [either("embedding", 2.0)];
    Cast "cast" "Conversion to or from a narrow format, with its scales.",
        moves([0.90, 0.85, 0.80], 2.0), [bytes("quantize", 3.0)];
    CastTranspose "cast-transpose" "Conversion that writes the transposed copy too, or only that.",
        moves([0.86, 0.80, 0.60], 2.0), [bytes("quantize+transpose", 3.0)];
    Amax "amax" "Largest magnitude of a tensor, for its scale.",
        moves([0.90, 0.40, 0.40], 4.0), [bytes("amax", 2.0)];
    Transpose "transpose" "Transposition without conversion.",
        moves([0.90, 0.85, 0.80], 2.0), [either("transpose", 2.0)];
    Permute "permute" "Rows put in the order of their experts.",
        moves([0.82, 0.82, 0.60], 4.0), [either("permute", 2.0)];
    Unpermute "unpermute" "Rows of experts weighed and summed for each token.",
        moves([0.94, 0.94, 0.75], 4.0), [either("unpermute", 1.92)];
    Router "router" "Scores and counts of a router, beside its product.",
        moves([0.50, 0.50, 0.40], 4.0), [];
    TopK "top-k" "The best of each token's few scores: a router's choice of groups or experts.",
        moves([0.055, 0.055, 0.055], 4.0), [];
    RowMap "row-map" "Places and counts of received rows, before they are put in the order of their experts.",
        moves([0.0036, 0.0036, 0.0036], 4.0), [];
    OptimizerFused "optimizer-fused" "Update of all parameters in one fused kernel.",
        moves([0.95, 0.95, 0.95], 4.0), [bytes("optimizer", 14.0)];
    OptimizerMultiTensor "optimizer-multi-tensor" "Update by a fused kernel for a list of tensors at a time.",
        moves([0.78, 0.78, 0.78], 10.0), [bytes("optimizer, multi-tensor", 14.0)];
    OptimizerForEach "optimizer-for-each" "Update by one kernel for each operation (PyTorch's for-each).",
        moves([0.70, 0.70, 0.70], 2.0), [bytes("optimizer, for-each", 14.0)];
    GradientNorm "gradient-norm" "Norm of the gradients.",
        moves([1.0, 1.0, 0.95], 4.0), [either("hbm_read", 1.0)];
    GradientClip "gradient-clip" "Scaling of the gradients.",
        moves([0.95, 0.95, 0.90], 2.0), [];
    Accumulate "accumulate" "Gradients of a micro-batch added to those before.",
        moves([0.95, 0.95, 0.90], 2.0), [];
    Copy "copy" "Copies and changes of layout inside device memory.",
        moves([1.0, 1.0, 0.95], 2.0), [either("elementwise", 2.0), either("hbm_copy", 2.0)];
    Other "other" "Anything else that memory bounds.",
        moves([0.95, 0.95, 0.90], 2.0), [];
}

impl fmt::Display for KernelClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl KernelClass {
    /// True if it multiplies matrices.
    pub const fn is_matrix(self) -> bool {
        !matches!(self.kind(), KernelKind::MemoryBound(_))
    }
    /// True if it multiplies activations or gradients with weights, or with one another for the weights' gradients.
    pub const fn is_gemm(self) -> bool {
        matches!(self.kind(), KernelKind::Gemm(_) | KernelKind::GroupedGemm(_))
    }
    /// True if it holds products of several experts.
    pub const fn is_grouped(self) -> bool {
        matches!(self.kind(), KernelKind::GroupedGemm(_))
    }
    /// True if it multiplies tokens with one another.
    pub const fn mixes(self) -> bool {
        matches!(self.kind(), KernelKind::Batched | KernelKind::Scan | KernelKind::Attention)
    }
    /// The class that memory bounds, and what it moves, of an op of measurements.
    pub fn of_measured(op: &str, backward: bool) -> Option<(KernelClass, MeasuredOp)> {
        let fits = |m: &&MeasuredOp| m.op == op && m.backward.is_none_or(|b| b == backward);
        Self::ALL.iter().find_map(|class| Some((*class, *class.measured().iter().find(fits)?)))
    }
}
