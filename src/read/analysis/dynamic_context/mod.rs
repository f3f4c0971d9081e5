//! Dynamic context parallelism for readers: which degrees, how many documents each, and what padding and imbalance
//! are left.

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use reading::DegreesReading;
#[cfg(feature = "tables")]
pub use reading::text;

/// Documents with a degree of context parallelism of their own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DynamicContextReport {
    /// Most tokens of a pass on one rank.
    pub tokens_per_rank: u64,
    /// Part of all tokens that are padding, 0 to 1.
    pub padding: f64,
    /// FLOPs of the rank that has most, with its waits for others of its groups, over the mean.
    pub work_max_over_mean: f64,
    /// By degree.
    pub degrees: BTreeMap<u64, DegreeReport>,
}

/// The documents of one degree.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DegreeReport {
    /// How many there are.
    pub documents: u64,
    /// Packed sequences that hold them.
    pub passes: u64,
    /// Part of all tokens, 0 to 1.
    pub tokens: f64,
}
