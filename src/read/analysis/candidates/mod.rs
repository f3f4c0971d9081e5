//! Candidates: what could be otherwise, each with the change that makes it so and the step that results.
//!
//! Whoever plays them puts them into the report. Every statement on a step's limits takes this list
//! and no other.

mod reading;

pub use reading::CandidateTable;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something that could be otherwise, and the step with it otherwise, played.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Its description: `rank 3 (×2.85)`, `nic, 12.5 GB/s`, `recomputation: full`.
    pub what: String,
    /// How it would be otherwise: `as the others`, `25 GB/s`, `none`.
    pub otherwise: String,
    /// The sort of change.
    pub kind: CandidateKind,
    /// The settings that make it so, as `--set` takes them; none where no field does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<String>,
    /// Where no field does: its name, as `--without` of `stepsim whatif` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub without: Option<String>,
    /// The step with it otherwise.
    pub step_s: f64,
    /// The work or wait that a mean rank itself loses then: kernels, its own communication, its host.
    pub own_s: f64,
    /// The wait that ranks lose for one another then. Both sum to the gain of the step.
    pub induced_s: f64,
    /// The fullest device memory then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
}

impl Candidate {
    /// The time that the step loses because it is not otherwise.
    pub fn cost_s(&self) -> f64 {
        self.own_s + self.induced_s
    }
    /// The arguments of `stepsim whatif` that play it.
    pub fn arguments(&self, quoted: impl Fn(&str) -> String) -> String {
        let sets = self.sets.iter().map(|set| format!("--set {}", quoted(set)));
        let without = self.without.iter().map(|name| format!("--without {name}"));
        sets.chain(without).collect::<Vec<_>>().join(" ")
    }
}

/// The sort of a possible change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CandidateKind {
    /// Something is slower than its like: a rank, a link, a host, a device class; or a tier is full, or times vary.
    Fault,
    /// Work is dealt out unevenly: experts, documents, images, stages.
    Uneven,
    /// A class of links or memories, at the rate next to its own.
    #[default]
    Limit,
    /// A choice of the workload, beside the one that was made.
    Choice,
}
