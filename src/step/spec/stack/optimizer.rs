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
        /// The passes, in order.
        pub passes: Vec<UpdatePass> = vec![UpdatePass::Update],
        /// How fast the processors of a host are where they do it (`offload.optimizer_on`).
        #[serde(skip_serializing_if = "HostUpdateSpec::is_free")]
        pub host: HostUpdateSpec,
    }
}

/// The cost of an update on the host beyond the traffic of its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostUpdateSpec {
    /// Nanoseconds of its processors for one parameter; 0: the memory alone sets the pace.
    pub ns_per_parameter: f64,
    /// Whose processors take so long.
    pub threads: HostThreads,
}

/// The threads that update on a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostThreads {
    /// Those of all processors, which the ranks of the host share.
    #[default]
    Host,
    /// Those of each rank, as many as it was given (`OMP_NUM_THREADS`, which torchrun sets).
    Rank,
}

impl HostUpdateSpec {
    fn is_free(&self) -> bool {
        *self == HostUpdateSpec::default()
    }
    /// Seconds of a rank for `parameters`, where `ranks` ranks are on its host.
    pub fn seconds(&self, parameters: f64, ranks: u32) -> f64 {
        let sharing = match self.threads {
            HostThreads::Host => f64::from(ranks.max(1)),
            HostThreads::Rank => 1.0,
        };
        1e-9 * self.ns_per_parameter * parameters * sharing
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
        let ns = self.host.ns_per_parameter;
        if !(0.0..=1e6).contains(&ns) {
            p.add("host.ns_per_parameter", ns, "0 to 1000000", "DeepSpeed's CPUAdam: 0.6 of a whole host");
        }
        p.into_list()
    }
}
