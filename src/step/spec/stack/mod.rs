//! The stack file: how a training software does its work, whatever the model and the machine.
//!
//! A stack says three things. `defaults` is a piece of a workload that is laid under every workload of this stack:
//! what the software does unless told otherwise. `attention`, `optimizer` and `tensor_overlap` name the kernels that
//! it runs. `host` says what the host does to launch them; without it kernels start as soon as the device may.
//!
//! Fields that a workload gives itself count more than those of its stack. A workload without a stack has
//! [`StackSpec::default`] (`simple`): full fusion, one update kernel, no launches.

mod host;
mod optimizer;
#[cfg(test)]
mod tests;
mod unaligned;

pub use host::{GraphScope, GraphSpec, HostRead, HostSpec, LaunchTimes, LayerHost, LayerHosts, LayerTimes};
pub use optimizer::{UpdateKernels, UpdatePass, UpdateSpec};
pub use unaligned::{LOAD_BYTES, UnalignedSpec};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::problem::Problem;
use super::workload::Dtype;

pub use super::kernel::AttentionGeneration;

/// How a training software does its work.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StackSpec {
    /// Which software and which release, one sentence.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Where what it does is documented.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// On which measured rows its figures were fitted; empty: on none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub fitted_on: String,
    /// A piece of a workload: what the software does where the workload does not say otherwise.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub defaults: Map<String, Value>,
    /// The attention kernel; default: the best that the device has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attention: Option<AttentionGeneration>,
    /// Where its libraries run batched products of attention on vector units because heads are not aligned; what is not
    /// listed keeps its matrix units.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unaligned: Vec<UnalignedSpec>,
    /// What is copied by kernels of their own from one layout to another.
    #[serde(skip_serializing_if = "CopySpec::is_none")]
    pub copies: CopySpec,
    /// Whether the sum of input gradients over tensor-parallel ranks, and the gathering of an input again, are waited for.
    /// Otherwise they run beside the gradients of input and weights.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waits_for_tensor: bool,
    /// How it comes from gradients to new weights.
    pub optimizer: UpdateSpec,
    /// What the host does to launch kernels; absent: nothing, and kernels start as soon as the device may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<HostSpec>,
}

/// What is copied from one layout to another: messages between that of ranks and that of whole tensors, heads between that of
/// their projection and that of attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CopySpec {
    /// Weights that are gathered and gradients that are scattered (ZeRO-3).
    pub shards: bool,
    /// Sequences that are gathered and scattered over tensor-parallel ranks.
    pub sequences: bool,
    /// Queries, keys and values of a layer, and their gradients.
    pub heads: bool,
}

impl CopySpec {
    fn is_none(&self) -> bool {
        *self == CopySpec::default()
    }
}

impl StackSpec {
    /// Formats whose batched products of attention leave a device's matrix units where heads are not aligned.
    pub fn unaligned_on(&self, device: &str) -> Vec<Dtype> {
        let on_device = self.unaligned.iter().filter(|unaligned| unaligned.holds_on(device));
        on_device.flat_map(|unaligned| unaligned.formats.iter().copied()).collect()
    }
    /// Everything wrong with it but its defaults; `at` is its JSON path.
    pub fn problems(&self, at: &str) -> Vec<Problem> {
        let prefix = |name: &str| if at.is_empty() { name.to_string() } else { format!("{at}.{name}") };
        let mut problems = self.optimizer.problems(&prefix("optimizer"));
        problems.extend(self.host.iter().flat_map(|host| host.problems(&prefix("host"))));
        problems
    }
}
