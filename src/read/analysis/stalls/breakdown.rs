//! Where the time of ranks went, as a report holds it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StallCause;

/// `busy_s` and the stalls sum to the step time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breakdown {
    /// Kernels on the compute stream.
    pub busy_s: f64,
    /// The part of it for which device memory gave kernels less than they use: copies share its bandwidth.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slowed_by_memory_s: f64,
    /// Why the compute stream stood still, by cause; causes that do not occur are left out.
    pub stalls_s: BTreeMap<StallCause, f64>,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}
