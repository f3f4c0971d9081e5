//! The properties of a kernel, beside its class, that decide its price: the formats that matrix kernels multiply in,
//! generations of attention, and who wrote it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::workload::Dtype;
use stepsim_core::declare::named;

/// How the elements of a narrow format are scaled.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// Not at all, or one factor for a tensor.
    #[default]
    Tensor,
    /// One fp32 factor for 128 elements or 128×128 (DeepSeek's recipe).
    Block,
    /// One power of two for 32 elements (MX formats).
    Mx,
    /// One 8-bit factor for 16 elements (NVFP4).
    Nv,
}

named! {
    /// The format in which a matrix kernel multiplies, as its price goes by it.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum Format {
        /// 32-bit floats on vector units.
        Fp32 = "fp32",
        /// 32-bit floats multiplied with 19 bits.
        Tf32 = "tf32",
        /// bfloat16 and IEEE half precision.
        Bf16 = "bf16",
        /// 8-bit floats, one factor a tensor.
        Fp8 = "fp8",
        /// 8-bit floats, one factor for 128 elements.
        Fp8Block = "fp8-block",
        /// 8-bit floats, one factor for 32 elements.
        Mxfp8 = "mxfp8",
        /// 4-bit floats.
        Fp4 = "fp4",
    }
}

impl Format {
    /// The format of a number type and its scaling.
    pub fn of(dtype: Dtype, scaling: Scaling) -> Format {
        match (dtype, scaling) {
            (Dtype::Fp32, _) => Format::Fp32,
            (Dtype::Tf32, _) => Format::Tf32,
            (Dtype::Bf16 | Dtype::Fp16, _) => Format::Bf16,
            (Dtype::Fp8, Scaling::Block) => Format::Fp8Block,
            (Dtype::Fp8, Scaling::Mx) => Format::Mxfp8,
            (Dtype::Fp8, Scaling::Tensor | Scaling::Nv) => Format::Fp8,
            (Dtype::Fp4, _) => Format::Fp4,
        }
    }
}

named! {
    /// Generations of attention kernels, slowest first.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    pub enum AttentionGeneration {
        /// Two batched products with a softmax between, the scores in memory.
        Unfused = "unfused",
        /// FlashAttention 1 (Dao et al. 2022), and its Triton port.
        #[serde(rename = "flash-1")]
        Flash1 = "flash-1",
        /// FlashAttention 2 (Dao 2023).
        #[serde(rename = "flash-2")]
        Flash2 = "flash-2",
        /// Made by a compiler: Triton, Pallas.
        Compiled = "compiled",
        /// FlashAttention 3 (Shah et al. 2024), Hopper.
        #[serde(rename = "flash-3")]
        Flash3 = "flash-3",
        /// The fused attention of cuDNN 9, which Transformer Engine runs; FlashAttention 4 on Blackwell.
        Cudnn = "cudnn",
    }
}

/// How good the implementation of a kernel that memory bounds is.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Maker {
    /// Written by hand for the device: Transformer Engine, cuDNN, Apex, Liger.
    #[default]
    Tuned,
    /// Fused by a compiler: Inductor, XLA, PyTorch's JIT.
    Compiled,
    /// One operation of a framework at a time.
    Eager,
}
