//! How a stack comes from gradients to new weights: which passes over the state, and by which kernels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::spec::problem::{Problem, Problems};
use stepsim_core::declare::defaults;

defaults! {
    /// From gradients to new weights.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct UpdateSpec {
        /// How the kernels are cut.
        pub kernels: UpdateKernels = UpdateKernels::Fused,
        /// What is done, in order.
        pub passes: Vec<UpdatePass> = vec![UpdatePass::Update],
    }
}

/// How the kernels of the update are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UpdateKernels {
    /// One kernel a pass over flat buffers.
    #[default]
    Fused,
    /// One kernel a pass for lists of tensors, at most 320 pieces of 64 Ki elements a launch (apex and Transformer
    /// Engine, `multi_tensor_apply`).
    MultiTensor,
    /// Every operation of the update's formula by itself over lists of tensors (PyTorch `foreach`).
    ForEach,
}

/// One pass over a rank's share of gradients or state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UpdatePass {
    /// Gradients are copied into fp32 ones for the master weights.
    CopyGradients,
    /// Gradients are divided by the loss scale and searched for infinities.
    Unscale,
    /// The norm of the gradients, and its sum over all ranks.
    Norm,
    /// Gradients are multiplied by the clipping factor.
    Clip,
    /// The update itself.
    Update,
    /// New weights are copied from the master weights by a kernel of its own.
    CopyWeights,
    /// Gradients are set to zero for the next step.
    ZeroGradients,
}

impl UpdateSpec {
    /// Everything wrong with it; `at` is its JSON path.
    pub(super) fn problems(&self, at: &str) -> Vec<Problem> {
        let mut p = Problems::new(at);
        let updates = self.passes.iter().filter(|pass| **pass == UpdatePass::Update).count();
        if updates != 1 {
            p.add("passes", format!("{updates} updates"), "exactly one `update`", "the rest may be left out");
        }
        p.into_list()
    }
}
