//! The optimizer step: kernels bound by memory over the state that a rank holds.

use super::KernelClass;
use super::item::Kernel;
use crate::spec::workload::{BytesPerParameter, Dtype};

/// The update of `parameters` weights (this rank's share): reads gradient, master weight and moments, writes master
/// weight, moments and the weight that forward reads. Without master weights the weight itself is read.
pub fn step(parameters: u64, state: &BytesPerParameter) -> Kernel {
    let read_weight = if state.master > 0.0 { 0.0 } else { state.weights };
    let per_parameter = state.gradients + 2.0 * state.optimizer() + state.weights + read_weight;
    let bytes = parameters as f64 * per_parameter;
    Kernel::elementwise(KernelClass::OptimizerFused, "optimizer step", parameters, bytes, Dtype::Fp32)
}

/// The norm of this rank's share of the gradients, before clipping: one read.
pub fn gradient_norm(parameters: u64, state: &BytesPerParameter) -> Kernel {
    let bytes = parameters as f64 * state.gradients;
    Kernel::elementwise(KernelClass::GradientNorm, "gradient norm", parameters, bytes, Dtype::Fp32)
}

/// Bytes of gradients and state that the update of `parameters` weights reads and writes, together: what a host
/// optimizer moves through host memory.
pub fn bytes_moved(parameters: u64, state: &BytesPerParameter) -> f64 {
    step(parameters, state).bytes
}
