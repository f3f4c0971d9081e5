//! Kernels that cast the operands of a linear layer, as the precision recipe says.

use super::item::Item;
use super::shard::Shard;
use stepsim_core::kernel_class::KernelClass;
use stepsim_spec::recipe::{Cast, CastRole, Casts, Recipe};
use stepsim_spec::workload::Fp8Gemm;

/// Lists of kernels around the products of one linear layer.
#[derive(Default)]
pub(super) struct OperandCasts {
    /// Before the forward product.
    pub forward: Vec<Item>,
    /// Before the input gradient.
    pub input_grad: Vec<Item>,
    /// Before the weight gradient.
    pub weight_grad: Vec<Item>,
    /// Once a step.
    pub per_step: Vec<Item>,
}

impl OperandCasts {
    /// The same with what converts frozen weights back before both products that read them, or before the first alone.
    pub fn with_weights_back(mut self, items: &[Item], both: bool) -> OperandCasts {
        self.forward.extend_from_slice(items);
        self.input_grad.extend_from_slice(if both { items } else { &[] });
        self
    }
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
    /// True for the products of experts that are multiplied in one launch.
    pub grouped: bool,
}

impl Shard {
    /// The casts of a layer whose input and output gradient play these roles.
    pub(super) fn casts(&self, gemm: Fp8Gemm, roles: [CastRole; 2], of: &Operands) -> OperandCasts {
        let Some(recipe) = self.narrow_recipe(gemm) else { return OperandCasts::default() };
        let none = Casts::default();
        let [input, gradient] = roles.map(|role| recipe.casts(role).unwrap_or(&none));
        let weight_role = if of.grouped { CastRole::ExpertWeight } else { CastRole::Weight };
        let weights = recipe.casts(weight_role).unwrap_or(&none);
        let list = |casts: &[Cast], elements: [u64; 2]| -> Vec<Item> {
            let used = casts.iter().filter(|cast| !(of.grouped && cast.plain_only));
            used.map(|cast| self.cast(cast, elements[usize::from(cast.gathered)])).collect()
        };
        // Beside frozen weights nothing reads the transposed copies of inputs and output gradients.
        let operand = |casts: &[Cast], elements: [u64; 2]| match self.trained.weights() {
            true => list(casts, elements),
            false => {
                let once = |cast: &Cast| cast.without_transpose(recipe.dtype.bytes());
                list(&casts.iter().filter_map(once).collect::<Vec<_>>(), elements)
            }
        };
        let of_weights = |casts: &[Cast]| -> Vec<Item> {
            let (all, each): (Vec<Cast>, Vec<Cast>) = casts.iter().partition(|cast| cast.batched);
            let one = list(&each, [of.weights; 2]);
            let each = (0..of.groups).flat_map(|_| one.iter().cloned());
            list(&all, [of.weights * of.groups; 2]).into_iter().chain(each).collect()
        };
        OperandCasts {
            forward: [operand(&input.forward, of.input), of_weights(&weights.forward)].concat(),
            input_grad: [operand(&gradient.backward, of.gradient), of_weights(&weights.backward)].concat(),
            weight_grad: list(&input.backward, of.input),
            per_step: of_weights(&weights.per_step),
        }
    }

    /// The casts, forward and backward, of a tensor that is no operand of a product.
    pub(super) fn casts_beside(&self, role: CastRole, elements: u64) -> [Vec<Item>; 2] {
        let casts = self.recipe.as_ref().filter(|r| r.is_narrow()).and_then(|r| r.casts(role));
        let list = |casts: &[Cast]| casts.iter().map(|cast| self.cast(cast, elements)).collect();
        casts.map_or_else(Default::default, |casts| [list(&casts.forward), list(&casts.backward)])
    }
    /// Bytes of an element of a tensor as it is kept for backward, where it is kept as computed if the recipe does
    /// not say.
    pub(super) fn kept_bytes(&self, role: CastRole) -> f64 {
        let of = |recipe: &Recipe| recipe.is_narrow().then(|| recipe.kept_bytes(role)).flatten();
        self.recipe.as_ref().and_then(of).unwrap_or(self.act())
    }

    fn cast(&self, cast: &Cast, elements: u64) -> Item {
        let name = match cast.class {
            KernelClass::Cast if cast.read < cast.written => "cast back",
            KernelClass::Amax if cast.read == 0.0 => "scale",
            KernelClass::Amax => "amax",
            KernelClass::Transpose => "transpose",
            KernelClass::CastTranspose => "cast and transpose",
            _ => "cast",
        };
        let bytes = (cast.read + cast.written) * elements as f64;
        self.elementwise(cast.class, name, elements, bytes)
    }
}

/// The role of a layer's input in its recipe, by the layer's name: made by a norm in front of it, kept in 16 bits by
/// attention or the router, or neither.
pub(super) fn input_role(name: &str) -> CastRole {
    match name {
        "qkv" | "q" | "q up" | "kv up" | "mlp up" => CastRole::InputAfterNorm,
        "projection" => CastRole::InputKept,
        "shared expert up" => CastRole::InputOfSharedExpert,
        "shared expert down" | "mlp down" => CastRole::InputAfterActivation,
        _ => CastRole::Input,
    }
}
