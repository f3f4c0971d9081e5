//! `torch.autocast` beside fp32 weights: products cast their operands, and all between them is fp32.
//!
//! The embedding reads fp32 rows, so the residual stream is fp32; norms keep it so. Each product casts its weights and,
//! where it reads a norm's output, its input, each matrix for itself; backward its input's gradient is cast back and
//! added up in fp32. A weight's copy lasts until the forward pass has ended (PyTorch 2.11 aten/src/ATen/
//! autocast_mode.cpp, `cached_cast`: fp32 leaves that need a gradient). What a product makes is in the narrow format.

use super::KernelClass;
use super::casts::OperandCasts;
use super::item::Item;
use super::shard::Shard;
use stepsim_spec::facts::facts;

/// Bytes of an element of fp32.
const WIDE: f64 = 4.0;

impl Shard {
    /// Bytes of an element of the residual stream.
    pub(super) fn stream(&self) -> f64 {
        if self.works_in_fp32() { WIDE } else { self.act() }
    }
    /// True if all between products is fp32.
    pub(super) fn works_in_fp32(&self) -> bool {
        self.autocast && self.trained.weights()
    }
    /// A kernel that reads and writes each element of the residual stream `times` times, together.
    pub(super) fn stream_pass(
        &self,
        class: KernelClass,
        name: &'static str,
        elements: u64,
        times: f64,
    ) -> Item {
        self.elementwise(class, name, elements, times * elements as f64 * self.stream())
    }
    /// Copies of a product's input that are kept, of `matrices` side by side.
    pub(super) fn copies_of_input(&self, matrices: usize) -> f64 {
        if self.works_in_fp32() { matrices.max(1) as f64 } else { 1.0 }
    }
    /// The casts of a product with this number of weights, and of an fp32 input of `elements`, once for each of
    /// `matrices` side by side; behind its input gradient, that gradient cast back and added up.
    pub(super) fn autocasts(&self, weights: u64, wide: Option<(u64, usize)>) -> [OperandCasts; 2] {
        if !self.works_in_fp32() {
            return Default::default();
        }
        let pair = self.act() + WIDE;
        let cast = |name, elements: u64, each: f64| {
            self.elementwise(KernelClass::Other, name, elements, each * elements as f64)
        };
        let mut before =
            OperandCasts { forward: vec![cast("cast weights", weights, pair)], ..Default::default() };
        let mut behind = OperandCasts::default();
        if let Some((elements, matrices)) = wide {
            let matrices = matrices.max(1) as f64;
            let back = matrices * *facts().wider_casts * pair + (matrices - 1.0) * 3.0 * WIDE;
            before.forward.push(cast("cast input", elements, matrices * pair));
            behind.input_grad.push(cast("cast and add gradients", elements, back));
        }
        [before, behind]
    }
}
