//! Kernels that memory bounds: bytes over what their class reaches of a copy's bandwidth, and a floor.
//!
//! What a class reaches depends on who made the kernel ([`Maker`]) far more than on the device: the fractions below are
//! medians over H100, H200, GB200, B200 and A100 rows of kernels that move 100 MB and more, relative to a copy on the same
//! device; a device file may give its own. Sources:
//! * norms: NVIDIA/cudnn-frontend RMSNorm results (tuned: cuDNN; compiled: Inductor; eager: PyTorch); layer norm backward:
//!   Liger-Kernel benchmark (tuned: Liger; eager: PyTorch);
//! * activation: Liger-Kernel SwiGLU benchmark (tuned: Liger; compiled: Megatron's JIT; eager: PyTorch's passes);
//! * rotary, residual: vidur profiles of Llama 2 layers on H100, the training profile of DeepSeek-V3;
//! * casts: torchao blockwise and MX casts on H100 and B200, Transformer Engine's GEMM tutorial (amax);
//! * permute, unpermute, transpose: the training profile of DeepSeek-V3 on H800;
//! * top-k, row map: the same profile. 4,096 times the best of 256 scores take 70 us (PyTorch's radix select, one block a
//!   token), the places of 30,700 received rows of eight indices each and their counts 171 + 70 us: neither comes near
//!   what memory gives;
//! * optimizer: PyTorch pull 119842 (fused Adam after and before its change), NeMo Automodel pull 3110 (for-each);
//! * loss: Liger-Kernel cross-entropy, forward with gradient; a sum over 2^30 floats for norms of gradients.
//!
//! Not measured: softmax, embedding, router, reductions, clipping, accumulation. They take the figures of their kin.

use super::DeviceCost;
use crate::step::model::{Kernel, KernelClass};
use crate::step::spec::kernel::Maker;

/// Bandwidth over that of a copy when tuned, compiled and eager; floor in microseconds.
fn usual(class: KernelClass) -> ([f64; 3], f64) {
    use KernelClass as C;
    match class {
        C::Norm => ([0.90, 0.90, 0.65], 2.0),
        C::NormBackward => ([0.80, 0.40, 0.34], 6.0),
        C::LayerNormBackward => ([0.45, 0.42, 0.38], 6.0),
        C::Rotary => ([0.53, 0.53, 0.53], 2.0),
        C::Activation => ([0.85, 0.62, 0.60], 2.0),
        C::Residual | C::Copy => ([1.0, 1.0, 0.95], 2.0),
        C::Reduction => ([0.80, 0.80, 0.60], 4.0),
        C::Softmax | C::Loss => ([0.90, 0.90, 0.85], 4.0),
        C::Embedding => ([0.65, 0.65, 0.60], 4.0),
        C::Cast | C::Transpose => ([0.90, 0.85, 0.80], 2.0),
        C::CastTranspose => ([0.86, 0.80, 0.60], 2.0),
        C::Amax => ([0.90, 0.40, 0.40], 4.0),
        C::Permute => ([0.82, 0.82, 0.60], 4.0),
        C::Unpermute => ([0.94, 0.94, 0.75], 4.0),
        C::Router => ([0.50, 0.50, 0.40], 4.0),
        C::TopK => ([0.055, 0.055, 0.055], 4.0),
        C::RowMap => ([0.0036, 0.0036, 0.0036], 4.0),
        C::OptimizerFused => ([0.95, 0.95, 0.95], 4.0),
        C::OptimizerMultiTensor => ([0.78, 0.78, 0.78], 10.0),
        C::OptimizerForEach => ([0.55, 0.55, 0.55], 10.0),
        C::GradientNorm => ([1.0, 1.0, 0.95], 4.0),
        _ => ([0.95, 0.95, 0.90], 2.0),
    }
}

/// Seconds of a kernel that moves bytes on `left` units.
pub(super) fn seconds(kernel: &Kernel, device: &DeviceCost, left: u32) -> f64 {
    let ([tuned, compiled, eager], floor_us) = usual(kernel.class);
    let own = device.spec.classes.get(&kernel.class).copied().unwrap_or_default();
    let fraction = match device.maker {
        Maker::Tuned => own.tuned.unwrap_or(tuned),
        Maker::Compiled => own.compiled.unwrap_or(compiled),
        Maker::Eager => own.eager.unwrap_or(eager),
    };
    device.memory_s(kernel.bytes, left) / (fraction * device.spec.sustained_memory)
        + own.floor_us.unwrap_or(floor_us) * 1e-6
}
