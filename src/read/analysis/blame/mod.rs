//! Blame: a cause, what it costs the rank that has it, and what it makes others wait.

mod reading;

pub use reading::Blames;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A cause, and the step without it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Blame {
    /// In words: `ranks 0–3 (×2.85)`, `stage 7 (head)`, `host`, `nic`, `full tier`.
    pub cause: String,
    /// Whether it is no fault but a limit: a class of links, taken away by having no end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub limit: bool,
    /// The arguments of `stepsim whatif` that take it away.
    pub whatif: String,
    /// The step without it, played.
    pub without_s: f64,
    /// The step less that: the sum of both parts.
    pub cost_s: f64,
    /// Seconds of a mean rank that are the cause's own: kernels that take longer, waits for the host, for the link, for room.
    pub itself_s: f64,
    /// The rest: what ranks wait for one another because of it. Negative where others would have waited anyhow.
    pub others_s: f64,
}
