//! The same of each pipeline stage, and of each rank: where their time went, what they exchanged, what they held.

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kind::OpKind;
use super::memory::TierReport;
use super::overlap::CommunicationReport;
use super::stalls::Breakdown;
pub use reading::{Ranks, StagesReading};

/// Up to this number of ranks, the report lists each; above, ranks that are alike share an entry.
pub const LIST_ALL_RANKS: usize = 64;

/// A pipeline stage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageReport {
    /// Which.
    pub stage: u32,
    /// Ranks in it.
    pub ranks: u64,
    /// Layers of the model that it computes, in whole or in part.
    #[serde(default)]
    pub layers: u64,
    /// Its work beside them: `embedding`, `head`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ends: Vec<String>,
    /// Mean over them.
    #[serde(flatten)]
    pub time: Breakdown,
    /// By kind of communication: means over them.
    #[serde(default)]
    pub communication: BTreeMap<OpKind, CommunicationReport>,
    /// By name of the tier: the fullest instance that ranks of the stage use.
    pub memory: BTreeMap<String, TierReport>,
}

/// A rank, or ranks that are alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RankReport {
    /// Its number in the job; of several the lowest.
    pub rank: u32,
    /// Stage and coordinates in words.
    pub name: String,
    /// Its pipeline stage.
    pub stage: u32,
    /// How many ranks the entry stands for.
    pub count: u64,
    /// Where its time went.
    #[serde(flatten)]
    pub time: Breakdown,
}
