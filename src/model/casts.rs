//! Kernels that cast the operands of a linear layer, as the precision recipe says.

use super::item::{Item, Kernel};
use super::shard::Shard;
use crate::spec::kernel::KernelClass;
use crate::spec::recipe::{Cast, CastRole, Casts};
use crate::spec::workload::Fp8Gemm;

/// Lists of kernels around the products of one linear layer.
#[derive(Default)]
pub(super) struct Prepared {
    /// Before the forward product.
    pub forward: Vec<Item>,
    /// Before the input gradient.
    pub input_grad: Vec<Item>,
    /// Before the weight gradient.
    pub weight_grad: Vec<Item>,
    /// Once a step.
    pub per_step: Vec<Item>,
}

/// Sizes of a linear layer's operands in elements: the share that is cast, and the gathered whole.
pub(super) struct Operands {
    /// Its input.
    pub input: [u64; 2],
    /// The gradient of its output.
    pub gradient: [u64; 2],
    /// Weights of one matrix.
    pub weights: u64,
    /// Matrices.
    pub groups: u64,
}

impl Shard {
    /// What is cast for a layer whose input and output gradient play these roles.
    pub(super) fn casts(&self, gemm: Fp8Gemm, roles: [CastRole; 2], of: &Operands) -> Prepared {
        let Some(recipe) = self.recipe.as_ref().filter(|r| self.gemm_dtype(gemm) == r.dtype && r.is_narrow())
        else {
            return Prepared::default();
        };
        let none = Casts::default();
        let [input, gradient] = roles.map(|role| recipe.casts(role).unwrap_or(&none));
        let weights = recipe.casts(CastRole::Weight).unwrap_or(&none);
        let list = |casts: &[Cast], elements: [u64; 2]| -> Vec<Item> {
            casts.iter().map(|cast| self.cast(cast, elements[usize::from(cast.gathered)])).collect()
        };
        let of_weights = |casts: &[Cast]| -> Vec<Item> {
            let one = list(casts, [of.weights; 2]);
            (0..of.groups).flat_map(|_| one.iter().cloned()).collect()
        };
        Prepared {
            forward: [list(&input.forward, of.input), of_weights(&weights.forward)].concat(),
            input_grad: [list(&gradient.backward, of.gradient), of_weights(&weights.backward)].concat(),
            weight_grad: list(&input.backward, of.input),
            per_step: of_weights(&weights.per_step),
        }
    }

    fn cast(&self, cast: &Cast, elements: u64) -> Item {
        let name = match cast.class {
            KernelClass::Amax if cast.read == 0.0 => "scale",
            KernelClass::Amax => "amax",
            KernelClass::Transpose => "transpose",
            KernelClass::CastTranspose => "cast and transpose",
            _ => "cast",
        };
        let bytes = (cast.read + cast.written) * elements as f64;
        Item::Kernel(Kernel::elementwise(cast.class, name, elements, bytes, self.compute))
    }
}

/// What the input of a layer is to its recipe, by the layer's name: made by a norm in front of it, kept in 16 bits by
/// attention or the router, or neither.
pub(super) fn input_role(name: &str) -> CastRole {
    match name {
        "qkv" | "q" | "q up" | "kv up" | "mlp up" => CastRole::InputAfterNorm,
        "projection" | "shared expert up" => CastRole::InputKept,
        _ => CastRole::Input,
    }
}
