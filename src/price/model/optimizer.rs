//! The optimizer step: kernels bound by memory over the state that a rank holds.

use super::KernelClass;
use super::item::Kernel;
use super::muon::{self, MatrixBatch};
use stepsim_spec::facts::facts;
use stepsim_spec::stack::{UpdateKernels, UpdatePass, UpdateSpec};
use stepsim_spec::workload::{BytesPerParameter, Dtype, OptimizerKind};

/// The update of one rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update<'a> {
    /// How the stack does it.
    pub spec: &'a UpdateSpec,
    /// The optimizer.
    pub kind: OptimizerKind,
    /// Parameters whose update this rank computes.
    pub parameters: u64,
    /// Parameters whose gradients this rank holds.
    pub held: u64,
    /// Bytes of state of one parameter.
    pub state: BytesPerParameter,
    /// The matrices that this rank's share of the update is of, where the optimizer works on whole ones.
    pub matrices: &'a [MatrixBatch],
    /// Format of activations, which products of the update have too.
    pub compute: Dtype,
    /// True if gradients are clipped by their norm.
    pub clips: bool,
    /// True if the loss is scaled, as fp16 needs.
    pub scales_loss: bool,
}

/// Most launches of a pass that are planned: a rank with more weights (8.6e10) fits on no device.
const LAUNCHES: u64 = 4096;

impl Update<'_> {
    /// All kernels in order, each with the pass that it belongs to and the number of times it is launched in a row.
    pub fn kernels(&self) -> Vec<(UpdatePass, Kernel, usize)> {
        let of = |pass: &UpdatePass| {
            let pass = *pass;
            self.of(pass).into_iter().map(move |(kernel, launches)| (pass, kernel, launches))
        };
        self.spec.passes.iter().flat_map(of).collect()
    }

    /// Bytes that are held while weights are updated: the roots of all second moments, where each operation runs over
    /// all tensors before the next one does (PyTorch's `_multi_tensor_adam`, `exp_avg_sq_sqrt`).
    pub fn scratch(
        spec: &UpdateSpec,
        kind: OptimizerKind,
        parameters: u64,
        state: &BytesPerParameter,
    ) -> u64 {
        match spec.kernels == UpdateKernels::ForEach && kind == OptimizerKind::Adam {
            true => (parameters as f64 * state.moments / 2.0).round() as u64,
            false => 0,
        }
    }

    /// The kernels of one pass.
    fn of(&self, pass: UpdatePass) -> Vec<(Kernel, usize)> {
        use UpdatePass::{Clip, CopyGradients, CopyWeights, Norm, Unscale, Update, ZeroGradients};
        let s = &self.state;
        let copies_gradients = self.spec.passes.contains(&CopyGradients) && s.gradients < 4.0;
        let gradient = if copies_gradients { 4.0 } else { s.gradients };
        let whole = |class, name, parameters: u64, bytes: f64| match parameters {
            0 => None,
            p => Some((Kernel::elementwise(class, name, p, p as f64 * bytes, Dtype::Fp32), p)),
        };
        let one = match pass {
            CopyGradients if copies_gradients => {
                whole(KernelClass::Copy, "copy gradients", self.parameters, s.gradients + 4.0)
            }
            Unscale if self.scales_loss => {
                whole(KernelClass::GradientClip, "unscale gradients", self.parameters, 2.0 * gradient)
            }
            Norm | Clip if !self.clips => None,
            CopyGradients | Unscale => None,
            Norm => whole(KernelClass::GradientNorm, "gradient norm", self.parameters, gradient),
            Clip => whole(KernelClass::GradientClip, "clip gradients", self.parameters, 2.0 * gradient),
            Update => return self.update(gradient),
            CopyWeights if s.master > 0.0 => {
                whole(KernelClass::Copy, "copy weights", self.parameters, s.master + s.weights)
            }
            CopyWeights => None,
            ZeroGradients => whole(KernelClass::Other, "zero gradients", self.held, s.gradients),
        };
        one.into_iter().map(|(kernel, parameters)| self.cut(kernel, parameters)).collect()
    }

    /// The kernels of the update itself.
    fn update(&self, gradient: f64) -> Vec<(Kernel, usize)> {
        if self.parameters == 0 {
            return Vec::new();
        }
        let mut kernel = step(self.parameters, &self.state);
        let elsewhere = self.spec.passes.contains(&UpdatePass::CopyWeights) && self.state.master > 0.0;
        let written = if elsewhere { self.state.weights } else { 0.0 };
        kernel.bytes += self.parameters as f64 * (gradient - self.state.gradients - written);
        kernel.bytes += self.beside(gradient);
        let adam = self.kind == OptimizerKind::Adam;
        let kernels = match self.spec.kernels {
            UpdateKernels::Fused => vec![kernel],
            UpdateKernels::ForEach if adam => {
                let fused: f64 = 7.0;
                let part = |elements: &f64| Kernel {
                    bytes: kernel.bytes * elements / fused,
                    ..kernel.of(KernelClass::OptimizerForEach)
                };
                facts().adam_for_each.iter().map(part).collect()
            }
            UpdateKernels::MultiTensor | UpdateKernels::ForEach => {
                vec![kernel.of(KernelClass::OptimizerMultiTensor)]
            }
        };
        let products = muon::kernels(self.matrices, self.compute).into_iter().map(|product| (product, 1));
        kernels.into_iter().map(|k| self.cut(k, self.parameters)).chain(products).collect()
    }

    /// Bytes beside one pass over gradient and state: Adafactor reads the gradient for its sums, for the norm of the
    /// update and for the update; Muon writes and reads the momentum and the result around its products, in 16 bits.
    fn beside(&self, gradient: f64) -> f64 {
        match self.kind {
            OptimizerKind::Adafactor => 2.0 * gradient * self.parameters as f64,
            OptimizerKind::Muon => 4.0 * self.matrices.iter().map(|m| m.elements() as f64).sum::<f64>(),
            _ => 0.0,
        }
    }

    /// A kernel cut into the launches that the stack makes of it: one of them, and their number.
    fn cut(&self, kernel: Kernel, parameters: u64) -> (Kernel, usize) {
        let launches = match self.spec.kernels {
            UpdateKernels::Fused => 1,
            UpdateKernels::MultiTensor | UpdateKernels::ForEach => {
                parameters.div_ceil(*facts().elements_of_a_list).clamp(1, LAUNCHES)
            }
        };
        let size = parameters.div_ceil(launches);
        let bytes = kernel.bytes / launches as f64;
        let part =
            Kernel { bytes, ..Kernel::elementwise(kernel.class, kernel.name, size, bytes, kernel.dtype) };
        (part, launches as usize)
    }
}

/// The update of `parameters` weights (this rank's share): reads gradient, master weight and moments, writes master
/// weight, moments and the weight that forward reads. Without master weights the weight itself is read.
pub fn step(parameters: u64, state: &BytesPerParameter) -> Kernel {
    let read_weight = if state.master > 0.0 { 0.0 } else { state.weights };
    let per_parameter = state.gradients + 2.0 * state.optimizer() + state.weights + read_weight;
    let bytes = parameters as f64 * per_parameter;
    Kernel::elementwise(KernelClass::OptimizerFused, "optimizer step", parameters, bytes, Dtype::Fp32)
}

/// Bytes of gradients and state that the update of `parameters` weights reads and writes, together: what a host
/// optimizer moves through host memory.
pub fn bytes_moved(parameters: u64, state: &BytesPerParameter) -> f64 {
    step(parameters, state).bytes
}
