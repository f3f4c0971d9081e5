//! How the loss is computed: in which format logits are kept, and how many of them are there at once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Dtype;
use stepsim_core::declare::defaults;

defaults! {
    /// The loss.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct LossSpec {
        /// Format in which logits are kept for their gradient. In the format of activations the product's output is
        /// kept as it is, and the gradient is written over it.
        pub logits: Dtype = Dtype::Fp32,
        /// Parts of a micro-batch whose logits are made one after another, and once more for their gradient; 1: all
        /// at once, and kept.
        pub tiles: u64 = 1,
    }
}

impl LossSpec {
    /// True if logits are kept in fp32, all at once.
    pub fn is_default(&self) -> bool {
        *self == LossSpec::default()
    }
}
