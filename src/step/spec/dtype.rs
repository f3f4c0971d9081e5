//! Number formats.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number format.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Dtype {
    /// 32-bit floats.
    Fp32,
    /// 32-bit floats multiplied with 19 bits on matrix units.
    Tf32,
    /// bfloat16.
    #[default]
    Bf16,
    /// IEEE half precision.
    Fp16,
    /// 8-bit floats.
    Fp8,
    /// 4-bit floats.
    Fp4,
}

impl Dtype {
    /// Every format, widest first.
    pub const ALL: [Dtype; 6] = [Dtype::Fp32, Dtype::Tf32, Dtype::Bf16, Dtype::Fp16, Dtype::Fp8, Dtype::Fp4];

    /// Bytes of one element.
    pub fn bytes(self) -> f64 {
        match self {
            Dtype::Fp32 | Dtype::Tf32 => 4.0,
            Dtype::Bf16 | Dtype::Fp16 => 2.0,
            Dtype::Fp8 => 1.0,
            Dtype::Fp4 => 0.5,
        }
    }
    /// The name in files and reports.
    pub fn name(self) -> &'static str {
        match self {
            Dtype::Fp32 => "fp32",
            Dtype::Tf32 => "tf32",
            Dtype::Bf16 => "bf16",
            Dtype::Fp16 => "fp16",
            Dtype::Fp8 => "fp8",
            Dtype::Fp4 => "fp4",
        }
    }
}
