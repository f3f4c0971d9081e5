//! How a stack comes from gradients to new weights: which passes over the state, and by which kernels.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::problem::{Problem, Problems};
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

defaults! {
    /// The update on the host: bytes of its memory over the bandwidth that its threads reach.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct HostUpdateSpec {
        /// Bytes of the host's memory that are read and written for one parameter; default: one pass over gradient and
        /// state.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub bytes_per_parameter: Option<f64>,
        /// Cores of each rank's threads (`OMP_NUM_THREADS`, which torchrun and Ray set to 1), each with
        /// `node.host.core_GBps`; default: its share of all, and memory sets the pace.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub cores_per_rank: Option<f64>,
        /// Share of the memory's bandwidth that the threads of all ranks reach together.
        pub efficiency: f64 = 1.0,
    }
}

impl HostUpdateSpec {
    fn is_free(&self) -> bool {
        *self == HostUpdateSpec::default()
    }
    /// Seconds of a rank for `bytes` beyond `shared_s`, what memory takes for them where all its ranks update at once.
    pub fn beyond(&self, bytes: f64, shared_s: f64, core_rate: f64) -> f64 {
        let cores_s = self.cores_per_rank.map_or(0.0, |cores| bytes / (cores * core_rate));
        (cores_s.max(shared_s / self.efficiency) - shared_s).max(0.0)
    }
    fn problems(&self, p: &mut Problems) {
        let positive = |value: f64| value > 0.0 && value <= 1e6;
        for (field, value) in [
            ("host.bytes_per_parameter", self.bytes_per_parameter),
            ("host.cores_per_rank", self.cores_per_rank),
        ] {
            if let Some(value) = value.filter(|value| !positive(*value)) {
                p.add(field, value, "above 0, to 1000000", "leave it out for the default");
            }
        }
        if !(positive(self.efficiency) && self.efficiency <= 1.0) {
            p.add("host.efficiency", self.efficiency, "above 0, to 1", "1: what the link of the memory says");
        }
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
        self.host.problems(&mut p);
        p.into_list()
    }
}
