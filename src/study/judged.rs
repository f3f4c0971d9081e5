//! The JSON of `stepsim normal` and `stepsim gate`: one kind of document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::gate::{GateReport, LogGate};
use crate::normal::StepVerdict;

/// The judged thing: the output of `stepsim normal --json` and `stepsim gate --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "judged", rename_all = "kebab-case")]
pub enum JudgedRun {
    /// A measured step against the described one.
    Step(Box<StepVerdict>),
    /// A changed configuration against its baseline.
    Change(Box<GateReport>),
    /// A measured step against a measured one.
    TwoSteps(LogGate),
}
