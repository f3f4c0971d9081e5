//! Number formats, and the bytes of state that one parameter costs.
//!
//! The defaults are Megatron's bf16 recipe: bf16 weights and activations, fp32 gradients accumulated and reduced,
//! fp32 master weights and two fp32 moments: 2 + 4 + 4 + 8 = 18 bytes a parameter (Megatron-LM, dist_optimizer).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::Device;
use crate::dtype::Dtype;
use crate::model::ModelSpec;
use crate::problem::Problem;
use crate::recipe::Recipe;
use crate::reference::Reference;
use stepsim_core::declare::defaults;

defaults! {
    /// Number formats and bytes of state.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct PrecisionSpec {
        /// Format of activations and, unless `fp8` says otherwise, of all GEMMs and attention.
        pub compute: Dtype = Dtype::Bf16,
        /// Format of the weights that forward and backward read.
        pub weights: Dtype = Dtype::Bf16,
        /// Format in which gradients are accumulated and kept.
        pub gradients: Dtype = Dtype::Fp32,
        /// Format in which gradients are sent between data-parallel ranks; default: as they are kept.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub gradient_communication: Option<Dtype>,
        /// Format in which weights are gathered between data-parallel ranks; default: as they are kept.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub weight_communication: Option<Dtype>,
        /// Bytes of the master copy of one weight (0: none).
        pub master_bytes_per_parameter: f64 = 4.0,
        /// Bytes of the optimizer's moments of one parameter; default: what the kind of optimizer keeps in fp32.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub moments_bytes_per_parameter: Option<f64>,
        /// Where narrow formats are used; with a recipe and without this, in every linear layer but router and LM head.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub fp8: Option<Fp8Spec>,
        /// The narrow format and the kernels that cast to it: a name, a path relative to this file, or the recipe
        /// itself. Without, 8-bit operands come at no cost.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub recipe: Option<Reference<Recipe>>,
    }
}

impl PrecisionSpec {
    /// The recipe, resolved.
    pub fn recipe(&self) -> Option<&Recipe> {
        match &self.recipe {
            Some(Reference::Inline(recipe)) => Some(recipe),
            _ => None,
        }
    }
    /// Where narrow formats are used.
    pub fn narrow(&self) -> Option<Fp8Spec> {
        let by_recipe = || self.recipe().filter(|r| r.is_narrow()).map(|_| Fp8Spec::default());
        self.fp8.clone().or_else(by_recipe)
    }
    /// Bytes of a weight as it is gathered between data-parallel ranks.
    pub fn weight_gather_bytes(&self) -> f64 {
        match (self.weight_communication, self.recipe()) {
            (None, Some(recipe)) => recipe.weight_gather_bytes,
            _ => self.weight_communication().bytes(),
        }
    }
    /// Format in which gradients are sent between data-parallel ranks.
    pub fn gradient_communication(&self) -> Dtype {
        self.gradient_communication.unwrap_or(self.gradients)
    }
    /// Format in which weights are gathered between data-parallel ranks.
    pub fn weight_communication(&self) -> Dtype {
        self.weight_communication.unwrap_or(self.weights)
    }
    /// The field that asks for matrix products in a format for which the device has no peak.
    pub fn lacking(&self, device: &Device) -> Option<Problem> {
        let narrow = self.fp8.as_ref().is_some_and(|fp8| !fp8.gemms.is_empty());
        let fields = [("precision.compute", self.compute, true), ("precision.fp8", Dtype::Fp8, narrow)];
        let has = |format: &Dtype| device.peak(*format).is_some();
        let (path, format, _) = fields.into_iter().find(|(_, format, asked)| *asked && !has(format))?;
        let names: Vec<&str> = Dtype::ALL.into_iter().filter(has).map(Dtype::name).collect();
        Some(Problem {
            path: path.into(),
            value: format.name().into(),
            allowed: format!("{} (formats with a peak on {})", names.join(", "), device.name),
            hint: "choose one of these, or another machine, or add the device's peak to its file".into(),
        })
    }
    /// Bytes that one parameter costs, class by class.
    pub fn bytes_per_parameter(&self, optimizer: OptimizerKind) -> BytesPerParameter {
        BytesPerParameter {
            weights: self.weights.bytes(),
            gradients: self.gradients.bytes(),
            master: self.master_bytes_per_parameter,
            moments: self.moments_bytes_per_parameter.unwrap_or(optimizer.moments_bytes()),
        }
    }
}

/// Bytes of state that one parameter costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BytesPerParameter {
    /// Weights that forward and backward read.
    pub weights: f64,
    /// Accumulated gradients.
    pub gradients: f64,
    /// Master weights.
    pub master: f64,
    /// Moments.
    pub moments: f64,
}

impl BytesPerParameter {
    /// Master weights and moments together.
    pub fn optimizer(&self) -> f64 {
        self.master + self.moments
    }
    /// All classes together.
    pub fn total(&self) -> f64 {
        self.weights + self.gradients + self.optimizer()
    }
}

defaults! {
    /// Where 8-bit floats are used.
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct Fp8Spec {
        /// The GEMMs that read 8-bit inputs, in all three passes.
        #[serde(default = "Fp8Gemm::usual")]
        pub gemms: Vec<Fp8Gemm> = Fp8Gemm::usual(),
        /// True if the inputs of activation functions are kept in 8 bits too (DeepSeek-V3, arXiv 2412.19437, section
        /// 3.3.3).
        #[serde(default)]
        pub saved_activations: bool,
    }
}

/// GEMMs that may read 8-bit inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Fp8Gemm {
    /// Query, key and value projections.
    Qkv,
    /// The projection after attention.
    Projection,
    /// Both (or all three) matrices of the MLP.
    Mlp,
    /// The experts' matrices.
    Experts,
    /// The LM head.
    LmHead,
    /// The products of fused attention (cuDNN; `fp8_dpa` of Transformer Engine): queries, keys, values and the gradient
    /// of its output are cast for it.
    Attention,
}

impl Fp8Gemm {
    /// The common choice: every linear layer except router, embedding and LM head; attention stays wide.
    fn usual() -> Vec<Fp8Gemm> {
        vec![Fp8Gemm::Qkv, Fp8Gemm::Projection, Fp8Gemm::Mlp, Fp8Gemm::Experts]
    }
}

defaults! {
    /// The optimizer.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct OptimizerSpec {
        /// The kind of optimizer.
        pub kind: OptimizerKind = OptimizerKind::Adam,
        /// True if gradients are clipped by their global norm, which needs a small all-reduce over all ranks.
        pub clip_gradients: bool = true,
    }
}

/// Kinds of optimizer, by the state that they keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OptimizerKind {
    /// Two fp32 moments.
    #[default]
    Adam,
    /// Two 8-bit moments with one fp32 scale for every 256 elements of each.
    #[serde(rename = "adam8bit")]
    Adam8bit,
    /// One fp32 moment.
    Lion,
    /// One fp32 moment.
    Momentum,
    /// No state.
    Sgd,
    /// Sums of rows and columns of each matrix, no momentum; three passes over the gradient.
    Adafactor,
    /// One fp32 momentum of the matrices of layers, made orthogonal by Newton–Schulz products; Adam for all else.
    /// Ranks that share state own whole matrices.
    Muon,
}

impl OptimizerKind {
    /// Bytes of the moments of a mean parameter of a model.
    pub fn mean_moments_bytes(self, model: &ModelSpec) -> f64 {
        let m = match self {
            OptimizerKind::Muon | OptimizerKind::Adafactor => model.matrix_elements(),
            other => return other.moments_bytes(),
        };
        match self {
            OptimizerKind::Muon => (4.0 * m.elements + 8.0 * m.tables) / (m.elements + m.tables),
            _ => {
                let tables = m.tables / model.hidden as f64 * 4.0;
                (4.0 * m.sides + tables) / (m.elements + m.tables)
            }
        }
    }
    /// Bytes of the moments of one parameter; where they depend on the matrices of a model, of one in a large matrix.
    pub fn moments_bytes(self) -> f64 {
        match self {
            OptimizerKind::Adam => 8.0,
            OptimizerKind::Adam8bit => 2.0 * (1.0 + 4.0 / 256.0),
            OptimizerKind::Lion | OptimizerKind::Momentum | OptimizerKind::Muon => 4.0,
            OptimizerKind::Sgd | OptimizerKind::Adafactor => 0.0,
        }
    }
}
