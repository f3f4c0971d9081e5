//! Kinds of normalisation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Kind of normalisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Norm {
    /// Scale only: one parameter vector.
    #[default]
    Rms,
    /// Scale and shift: two parameter vectors.
    Layer,
    /// Scale only, mean subtracted (PaLM's LayerNorm without biases).
    LayerNoBias,
    /// Neither scale nor shift (OLMo).
    Plain,
}

impl Norm {
    /// Parameters of one of vectors of a width.
    pub fn parameters(self, width: u64) -> u64 {
        match self {
            Norm::Rms | Norm::LayerNoBias => width,
            Norm::Layer => 2 * width,
            Norm::Plain => 0,
        }
    }
}
