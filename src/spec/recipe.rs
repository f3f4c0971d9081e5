//! Precision recipes: in which format products run, and which kernels prepare their operands. Files:
//! `workloads/recipes/*.json`, named by `precision.recipe`.
//!
//! A recipe is a table: for each role that a tensor plays (the input of a linear layer, the gradient of its output, its
//! weights), the kernels that cast it, with the bytes that each reads and writes for an element. No code asks for a
//! recipe by its name.
//!
//! *Row-wise* copies serve forward and input gradient, *column-wise* ones the weight gradient. Hopper's 8-bit
//! products read operands along k only, so that the second copy is a transpose; scales of blocks follow a direction,
//! so that both are made from the wide source; one factor a tensor on Blackwell needs one copy.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use stepsim_core::kernel_class::KernelClass;

use super::kernel::Scaling;
use super::workload::Dtype;
use super::{Kind, Spec, SpecError};

/// In which format products run, and what prepares their operands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Recipe {
    /// Its description, one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where its kernels come from.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Format of the products of linear layers (router, head and attention stay wide).
    pub dtype: Dtype,
    /// How its elements are scaled.
    #[serde(default)]
    pub scaling: Scaling,
    /// Bytes of one element of one copy that is kept for backward, scales included.
    pub saved_bytes: f64,
    /// True if the projection behind attention and the shared expert keep their wide input, which is kept anyway, and
    /// cast it again in backward.
    #[serde(default)]
    pub keeps_original: bool,
    /// Bytes of a weight as it is gathered between data-parallel ranks.
    pub weight_gather_bytes: f64,
    /// Bytes of an element of a linear layer's input as it is gathered between tensor-parallel ranks; default: as
    /// computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_gather_bytes: Option<f64>,
    /// The same of the gradient of its output: both copies where both are gathered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gradient_gather_bytes: Option<f64>,
    /// Rows of an expert are padded to a multiple of this.
    pub pad_rows_to: u64,
    /// True if a kernel of its own copies rows into padded ones before the experts and back behind them, where the
    /// dispatcher has not laid them out so (Transformer Engine's `Fp8Padding` in Megatron's `TEGroupedMLP`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pads_by_copy: bool,
    /// Its requirements.
    #[serde(default)]
    pub needs: RecipeNeeds,
    /// Kernels by the role of the tensor that they cast. A role that is not listed is as the plainer one.
    #[serde(default)]
    pub casts: BTreeMap<CastRole, Casts>,
}

/// Requirements of a recipe on device and model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecipeNeeds {
    /// Formats that the device must multiply.
    pub formats: Vec<Dtype>,
    /// Tokens of a micro-batch and widths of linear layers must be multiples of this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub divides: Option<u64>,
}

/// The role of a tensor in a linear layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CastRole {
    /// Its input.
    Input,
    /// Its input, made by the norm in front of it.
    InputAfterNorm,
    /// Its input, which is kept in a wide format anyway.
    InputKept,
    /// Its input after a norm, cast on this rank's share of the sequence and gathered.
    InputGathered,
    /// Its input, which came with the dispatch in a narrow format.
    InputDispatched,
    /// Its input, made by the activation function in front of it.
    InputAfterActivation,
    /// The input of the shared expert, which is also what the dispatch sends.
    InputOfSharedExpert,
    /// The gradient of its output.
    OutputGradient,
    /// The gradient of its output, cast on this rank's share of the sequence and gathered.
    OutputGradientGathered,
    /// The gradient of its output, which came with the exchange in a narrow format.
    OutputGradientDispatched,
    /// Its weights.
    Weight,
    /// The weights of a rank's experts.
    ExpertWeight,
    /// No operand: what the dispatch sends in a narrow format (backward: what the gradient of the combine sends).
    Dispatched,
    /// No operand: the input of the activation function, where it is kept in a narrow format.
    ActivationInput,
    /// No operand: the output of attention, kept for backward.
    AttentionOutput,
}

impl CastRole {
    /// The role whose kernels it has where a recipe does not list it.
    fn plainer(self) -> Option<CastRole> {
        match self {
            CastRole::InputAfterNorm
            | CastRole::InputKept
            | CastRole::InputGathered
            | CastRole::InputAfterActivation
            | CastRole::InputDispatched => Some(CastRole::Input),
            CastRole::InputOfSharedExpert => Some(CastRole::InputKept),
            CastRole::ExpertWeight => Some(CastRole::Weight),
            CastRole::OutputGradientGathered | CastRole::OutputGradientDispatched => {
                Some(CastRole::OutputGradient)
            }
            CastRole::Input
            | CastRole::OutputGradient
            | CastRole::Weight
            | CastRole::Dispatched
            | CastRole::ActivationInput
            | CastRole::AttentionOutput => None,
        }
    }
}

/// Kernels that cast one tensor.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Casts {
    /// In each forward pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub forward: Vec<Cast>,
    /// In each backward pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub backward: Vec<Cast>,
    /// Once a step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub per_step: Vec<Cast>,
    /// Bytes of an element as it is kept for backward, where that is not as the recipe says of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_bytes: Option<f64>,
}

/// One kernel.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cast {
    /// The kind of work.
    pub class: KernelClass,
    /// Bytes read for an element.
    #[serde(default)]
    pub read: f64,
    /// Bytes written for an element.
    #[serde(default)]
    pub written: f64,
    /// True if it works on the gathered tensor, not on this rank's share.
    #[serde(default)]
    pub gathered: bool,
    /// True if it is one kernel for the weights of all experts of a rank, not one for each.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub batched: bool,
    /// True if it is left out where the products of experts are grouped.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub plain_only: bool,
}

impl Cast {
    /// The same without the transposed copy, which only a weight gradient reads; nothing where that is all it makes.
    /// `copy` is what one copy takes for an element, scales left out.
    pub fn without_transpose(self, copy: f64) -> Option<Cast> {
        match self.class {
            KernelClass::Transpose => None,
            KernelClass::CastTranspose if self.written < 1.5 * copy => None,
            KernelClass::CastTranspose => {
                Some(Cast { class: KernelClass::Cast, written: self.written / 2.0, ..self })
            }
            _ => Some(self),
        }
    }
}

impl Recipe {
    /// The kernels of a role.
    pub fn casts(&self, role: CastRole) -> Option<&Casts> {
        self.casts.get(&role).or_else(|| self.casts(role.plainer()?))
    }
    /// Bytes of an element of a role as it is kept for backward.
    pub fn kept_bytes(&self, role: CastRole) -> Option<f64> {
        self.casts(role).and_then(|casts| casts.kept_bytes)
    }
    /// True if products run in a narrower format than 16 bits.
    pub fn is_narrow(&self) -> bool {
        self.dtype.bytes() < 2.0
    }
}

impl Spec for Recipe {
    const KIND: Kind = Kind::Recipe;

    fn validate(&self) -> Result<(), SpecError> {
        let gathers = [
            ("input_gather_bytes", self.input_gather_bytes),
            ("gradient_gather_bytes", self.gradient_gather_bytes),
        ];
        let gathers = gathers.into_iter().filter_map(|(field, value)| Some((field, value?, 8.0)));
        let fields = [
            ("saved_bytes", self.saved_bytes, 8.0),
            ("weight_gather_bytes", self.weight_gather_bytes, 8.0),
            ("pad_rows_to", self.pad_rows_to as f64, 4096.0),
        ];
        for (field, value, most) in fields.into_iter().chain(gathers) {
            if !(value > 0.0 && value <= most) {
                return Err(SpecError::at(field, format!("{value} is not allowed"))
                    .allowed(format!("a number above 0, at most {most}")));
            }
        }
        Ok(())
    }
}
