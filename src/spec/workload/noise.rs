//! Differences between steps and between devices: jitter, stragglers, slow links.
//!
//! All of it is off by default. Measured figures to start from:
//!
//! * `compute_sigma`: a pass of one micro-batch through a stage varies by 0.016 (forward) and 0.024 (backward) among
//!   healthy workers of a 64-GPU job (ByteDance-Seed/StragglerAnalysis, OSDI 2025 artifact). Kernels that vary
//!   independently average out, so k equal kernels a pass call for √k times that.
//! * `stragglers`: one stage-worker 2.5 times slower made a step of 16 stage-workers 1.973 times as long
//!   (StragglerAnalysis, injected).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Jitter, stragglers and slow links; nothing by default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NoiseSpec {
    /// Standard deviation of the logarithm of every kernel's time, drawn for each kernel alone.
    pub compute_sigma: f64,
    /// Ranks that are slower than the rest.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub stragglers: Vec<StragglerSpec>,
    /// Links that carry less than they should.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slow_links: Vec<SlowLinkSpec>,
}

impl NoiseSpec {
    /// True if anything depends on the seed.
    pub fn is_random(&self) -> bool {
        self.compute_sigma > 0.0
    }
}

/// Ranks that are slower than the rest: those that have all the coordinates given.
///
/// `{ "pipeline_rank": 1, "data_rank": 2, "slowness": 2.5 }` is the tensor-parallel group of one stage of one replica.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StragglerSpec {
    /// One rank by its number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u64>,
    /// Ranks at this place along the pipeline.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipeline_rank: Option<u64>,
    /// Ranks of this data-parallel replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_rank: Option<u64>,
    /// Ranks at this place of their context-parallel group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_rank: Option<u64>,
    /// Ranks at this place of their tensor-parallel group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensor_rank: Option<u64>,
    /// Factor on the time of their kernels, 1 or more; where several entries name a rank, they multiply.
    pub slowness: f64,
}

/// Links that carry less than they should.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowLinkSpec {
    /// Name of a link direction as reports have it, `node0.dev3 -> leaf3`; a `*` stands for any text: `node0.dev3*`.
    pub link: String,
    /// The divisor of its bandwidth, 1 or more.
    pub slowness: f64,
}
