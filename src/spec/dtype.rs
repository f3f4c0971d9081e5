//! Number formats.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use stepsim_core::declare::named;

named! {
    /// A number format.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
    )]
    #[serde(rename_all = "kebab-case")]
    pub enum Dtype {
        /// 32-bit floats.
        Fp32 = "fp32",
        /// 32-bit floats multiplied with 19 bits on matrix units.
        Tf32 = "tf32",
        /// bfloat16.
        #[default]
        Bf16 = "bf16",
        /// IEEE half precision.
        Fp16 = "fp16",
        /// 8-bit floats.
        Fp8 = "fp8",
        /// 4-bit floats.
        Fp4 = "fp4",
    }
}

impl Dtype {
    /// Bytes of one element.
    pub fn bytes(self) -> f64 {
        match self {
            Dtype::Fp32 | Dtype::Tf32 => 4.0,
            Dtype::Bf16 | Dtype::Fp16 => 2.0,
            Dtype::Fp8 => 1.0,
            Dtype::Fp4 => 0.5,
        }
    }
}
