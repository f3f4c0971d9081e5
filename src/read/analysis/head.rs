//! The head of a report: the program of the run, its inputs, and its end.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A statement without effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inert {
    /// The field, an object whose stated fields have none, or a setting as it was given.
    pub field: String,
    /// Why.
    pub why: String,
}

impl fmt::Display for Inert {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} ({})", self.field, self.why)
    }
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// It has a result.
    #[default]
    Ok,
    /// The inputs are wrong, or do not fit each other.
    Invalid,
    /// Bytes were needed that never fit.
    OutOfMemory,
    /// No op could start although ops remained.
    Deadlock,
    /// Anything else: a limit of the run, a defect of the simulator.
    Failed,
}

/// The inputs and how they were asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Head {
    /// Version of the simulator.
    pub stepsim: String,
    /// The command line, empty where the library was called.
    pub command: Vec<String>,
    /// The changes of `--set`, in order.
    pub settings: Vec<String>,
    /// Seed of what is drawn.
    pub seed: u64,
    /// The workload, with its references resolved and settings applied.
    pub workload: InputName,
    /// Its model.
    pub model: InputName,
    /// The machine, with its references resolved and settings applied.
    pub topology: InputName,
    /// The statements that change nothing about this step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub without_effect: Vec<Inert>,
}

/// An input by name and content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InputName {
    /// Its short name.
    pub name: String,
    /// 16 hex digits over its content; `stepsim show --resolved` prints it.
    pub hash: String,
}

impl Head {
    /// The differences between two runs: the field, then both values.
    pub fn differences(&self, other: &Head) -> Vec<(&'static str, String, String)> {
        let input = |i: &InputName| format!("{} ({})", i.name, i.hash);
        let all = [
            ("stepsim", self.stepsim.clone(), other.stepsim.clone()),
            ("workload", input(&self.workload), input(&other.workload)),
            ("model", input(&self.model), input(&other.model)),
            ("topology", input(&self.topology), input(&other.topology)),
            ("settings", self.settings.join(" "), other.settings.join(" ")),
            ("seed", self.seed.to_string(), other.seed.to_string()),
        ];
        all.into_iter().filter(|(_, a, b)| a != b).collect()
    }
}
