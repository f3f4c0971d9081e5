//! How the step is simulated: fidelity, and how evenly tokens spread over experts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Attachment;
use stepsim_core::declare::defaults;

defaults! {
    /// How closely each subject is simulated.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct FidelitySpec {
        /// Communication.
        pub collectives: CollectiveFidelity = CollectiveFidelity::Fluid,
        /// Kernels.
        pub compute: ComputeFidelity = ComputeFidelity::TileWave,
        /// With `constant`: fraction of peak that GEMMs and attention reach; default: the device's.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub constant_fraction: Option<f64>,
        /// True if kernels that run beside a collective lose the compute units that it takes.
        pub interference: bool = true,
        /// True if the host's kernel launches are simulated, where the stack says what they cost.
        pub launch_overhead: bool = true,
    }
}

/// How closely communication is simulated, cheapest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CollectiveFidelity {
    /// Closed form; links are not shared.
    Formula,
    /// One flow per phase over all links that it uses; links are shared.
    #[default]
    Fluid,
    /// Every transfer of every step.
    Steps,
}

/// How the time of a kernel is found, cheapest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ComputeFidelity {
    /// A fixed fraction of peak.
    Constant,
    /// A fraction of peak by the size of the GEMM, as Calculon does.
    Calculon,
    /// Tiles in waves over the compute units, and a roofline.
    #[default]
    TileWave,
    /// Measured shapes, interpolated; tile-wave where there is none near.
    Table,
}

/// The element-wise work that the software runs in a kernel of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KernelFusion {
    /// None that could be fused (Transformer Engine with today's Megatron-LM): gradients of scales, biases and weights
    /// are added up where they are made.
    #[default]
    Full,
    /// TorchInductor's kernels for a block of PyTorch: as `full`, but weight gradients of norms run by themselves, and
    /// code that it does not compile (rotation by complex numbers) or does not get (the loss) runs operation by
    /// operation.
    Compiled,
    /// As `partial`, but GEMMs add weight gradients to the sums of the micro-batches before (Megatron-LM since 2022).
    PartialAccumulating,
    /// As Megatron-LM did in 2021: bias, dropout, activation and residual are one kernel, softmax another, but the
    /// gradients of norms and biases, the sum of the two gradients at a residual, the accumulation of weight
    /// gradients, and copies that turn the layout of heads run by themselves.
    Partial,
    /// PyTorch without compiling: as `partial`, and every element-wise operation by itself.
    None,
}

defaults! {
    /// How evenly tokens spread over the ranks that hold experts.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    pub struct ExpertLoadSpec {
        /// Where the counts come from.
        pub balance: ExpertBalance = ExpertBalance::Even,
        /// With `factor`: tokens of the fullest rank over the mean. With `seeded`: the same, on average over layers.
        pub max_over_mean: f64 = 1.0,
        /// With `seeded`: where the sequence of draws begins.
        pub seed: u64,
        /// With `file`: path of a JSON file with one list for every layer that has experts (or one list for all of
        /// them): the tokens that each expert receives.
        #[serde(skip_serializing_if = "Option::is_none")]
        pub counts_file: Option<Attachment>,
        /// With `spread`: coefficient of variation of the rows of a rank from one exchange to the next (0.08 in
        /// DeepSeek's published profile).
        pub rows_cv: f64,
    }
}

/// Where the token counts of experts come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ExpertBalance {
    /// All experts get the same.
    #[default]
    Even,
    /// The fullest rank of every group gets `max_over_mean` times the mean.
    Factor,
    /// Drawn anew for every layer from `seed`: how far the fullest rank is above the mean is exponentially distributed.
    Seeded,
    /// Ranks get normally distributed shares with `rows_cv`; the fullest one's mean is taken.
    Spread,
    /// Read from `counts_file`.
    File,
}
