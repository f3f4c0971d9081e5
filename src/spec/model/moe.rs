//! Experts of a model.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::defaults::{is_default, one};
use stepsim_core::declare::defaults;

defaults! {
    /// Mixture of experts.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    pub struct MoeSpec {
        /// Routed experts of one layer.
        pub experts: u64,
        /// Experts that each token visits.
        pub top_k: u64,
        /// Width of one expert's MLP; default: the model's `ffn`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub ffn: Option<u64>,
        /// Experts of the same width that every token visits.
        #[serde(default)]
        pub shared_experts: u64,
        /// Width of the shared experts together; default: `shared_experts` times `ffn`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub shared_ffn: Option<u64>,
        /// True if a gate decides how much of the shared expert counts (Qwen).
        #[serde(default, skip_serializing_if = "is_default")]
        pub shared_gate: bool,
        /// Width to which tokens are projected before they travel to experts; default: they travel whole.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub latent: Option<u64>,
        /// True if experts' matrices have biases and their activation clamps its input (gpt-oss).
        #[serde(default, skip_serializing_if = "is_default")]
        pub expert_biases: bool,
        /// Layers at the start that keep a dense MLP.
        #[serde(default)]
        pub first_dense_layers: u64,
        /// Every n-th layer has experts (after the first dense ones); 1: all.
        #[serde(default = "one")]
        pub every_layers: u64 = 1,
        /// Tokens that an expert accepts, as a multiple of the mean; default: no limit, no token is dropped.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub capacity_factor: Option<f64>,
        /// True if the router has a bias per expert (DeepSeek-V3's balancing without a loss).
        #[serde(default)]
        pub router_bias: bool,
        /// Groups of experts that the router tells apart; 1: none.
        #[serde(default = "one")]
        pub groups: u64 = 1,
        /// Groups that one token may use (node-limited routing); default: all.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub group_limit: Option<u64>,
        /// How the router ranks groups of experts, where it may use some of them only.
        #[serde(default, skip_serializing_if = "is_default")]
        pub group_score: GroupScore,
    }
}

/// How a router ranks groups of experts.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum GroupScore {
    /// Not at all: each group is as likely as any other.
    #[default]
    Drawn,
    /// By its best expert (DeepSeek-V2).
    Best,
    /// By the sum of its two best experts (DeepSeek-V3).
    SumOfBestTwo,
}

impl MoeSpec {
    /// A mixture of `experts` experts, of `top_k` a token, all else by default.
    pub fn of(experts: u64, top_k: u64) -> MoeSpec {
        MoeSpec { experts, top_k, ..MoeSpec::default() }
    }
    /// Routed experts that a token visits on the mean: they drop what is above their capacity.
    pub fn visited(&self) -> f64 {
        self.capacity_factor.unwrap_or(1.0).min(1.0) * self.top_k as f64
    }
    /// True if layer `layer` (from 0) has experts.
    pub fn covers(&self, layer: u64) -> bool {
        layer >= self.first_dense_layers
            && (layer - self.first_dense_layers).is_multiple_of(self.every_layers.max(1))
    }
}
