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
    /// What of the step's description is doubtful: words that were not read, lengths and formats that nobody says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub doubts: Vec<String>,
    /// The dearest choice, with the step otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub set: Option<Candidate>,
    /// What to heal, to even out or else to buy, with the step then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heal: Option<Candidate>,
    /// What was not asked, and the command that asks it.
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
    /// The two halves as they are told: what costs more first, a limit behind a choice.
    pub fn halves(&self) -> impl Iterator<Item = &Candidate> {
        let behind = |heal: &Candidate| {
            let set_s = self.set.as_ref().map_or(0.0, Candidate::cost_s);
            self.set.is_some() && (heal.kind == CandidateKind::Limit || heal.cost_s() <= set_s)
        };
        let is_behind = self.heal.as_ref().is_some_and(behind);
        let (first, second) = if is_behind { (&self.set, &self.heal) } else { (&self.heal, &self.set) };
        first.iter().chain(second)
    }

    /// The step with its range, in words: `13.250 s, 12.4 to 14.8 s in four of five`.
    pub fn step_in_words(&self) -> String {
        let range = self.range_s.map(|[low, high]| format!("{} to {}", digits(low), digits(high)));
        let range = range.map_or(String::new(), |range| format!(", {range} s in four of five"));
        format!("{}{range}", stepsim_core::units::Time::from_s(self.step_time_s))
    }
}
