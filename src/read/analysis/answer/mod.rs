//! The answer about a step: how long, how sure, what to set, what to heal or buy, and what of it is doubtful.
//!
//! It is made once of a played step. Screens, pages, timelines and files print it and compute nothing of their own.

mod made;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::candidates::{Candidate, CandidateKind};
use super::cost::CostReport;
pub use words::{digits, heavier, in_words};

/// Memory of measured steps is known to about this part (`docs/developers/accuracy.md`): what leaves less may not fit.
pub const HEAD_ROOM: f64 = 0.08;

/// The answer about a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Answer {
    /// The time of the step: the simulated one, on every screen.
    pub step_time_s: f64,
    /// Model FLOP utilisation.
    pub mfu: f64,
    /// Four in five steps like it lie between these two; absent where none is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_s: Option<[f64; 2]>,
    /// The measured steps that the range rests on, or why there is none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub range: String,
    /// The doubts about its description: words that were not read, lengths and formats that nobody says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The dearest choice, with the step otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<Candidate>,
    /// The remedy: a fault to heal, work to even out, or else a limit to move, with the step then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heal: Option<Candidate>,
    /// The part that was not asked, and the command that asks it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_asked: Option<String>,
    /// Both in one sentence; where neither costs anything, where the critical path runs.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hangs_on: String,
    /// The fullest device memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// Device memory, in bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_capacity_bytes: Option<u64>,
    /// Dollars and energy, where devices state a price or their power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<CostReport>,
}

impl Answer {
    /// The two halves as they are told: a fault before all else, unevenness but behind a choice that is twice as dear, a
    /// limit where it is twice as dear as the choice or leaves a step that is a tenth shorter.
    pub fn halves(&self) -> impl Iterator<Item = &Candidate> {
        let behind = |(heal, set): (&Candidate, &Candidate)| match heal.kind {
            CandidateKind::Fault => false,
            CandidateKind::Limit => heal.cost_s() <= 2.0 * set.cost_s() && heal.step_s > 0.9 * set.step_s,
            _ => 2.0 * heal.cost_s() <= set.cost_s(),
        };
        let is_behind = self.heal.as_ref().zip(self.set.as_ref()).is_some_and(behind);
        let (first, second) = if is_behind { (&self.set, &self.heal) } else { (&self.heal, &self.set) };
        first.iter().chain(second)
    }
}
