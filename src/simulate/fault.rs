//! A failure as data: what a report says of a run that has no result.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SimulationError;
use stepsim_core::engine::EngineError;
use stepsim_plan::step::PlanError;
use stepsim_read::analysis::head::{Head, RunStatus};
use stepsim_spec::SpecError;

/// The record in the place of a report where there is no result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FailedReport {
    /// How the run ended.
    pub status: RunStatus,
    /// The head of the run, as far as it was known.
    pub run: Head,
    /// Why.
    pub error: Fault,
}

/// Why there is no result, in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Fault {
    /// How the run ended.
    #[serde(skip)]
    pub status: RunStatus,
    /// The whole message, as the command line shows it.
    pub message: String,
    /// The wrong file, or the command-line argument.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub file: String,
    /// JSON path inside it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// The offending value.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The allowed values.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub allowed: String,
    /// The remedy.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// The allocation that did not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out_of_memory: Option<MemoryFault>,
}

/// An allocation that never fits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemoryFault {
    /// The rank that asks.
    pub rank: u32,
    /// The op that asks for it.
    pub op: String,
    /// The tier.
    pub tier: String,
    /// When, in picoseconds.
    pub at_ps: u64,
    /// How many more bytes.
    pub need_bytes: u64,
    /// Bytes on the tier now.
    pub level_bytes: u64,
    /// Bytes that it can hold.
    pub capacity_bytes: u64,
    /// The bytes that fill it, by class.
    pub holds_bytes: BTreeMap<String, u64>,
}

impl From<&SpecError> for Fault {
    fn from(e: &SpecError) -> Fault {
        Fault {
            status: RunStatus::Invalid,
            message: e.to_string(),
            file: e.file.clone(),
            path: e.path.clone(),
            value: e.value.clone(),
            allowed: e.allowed.clone(),
            hint: e.hint.clone(),
            out_of_memory: None,
        }
    }
}

impl From<&EngineError> for Fault {
    fn from(e: &EngineError) -> Fault {
        let (status, out_of_memory) = match e {
            EngineError::OutOfMemory { at, rank, op, need, tier, level, capacity, holds } => {
                let holds_bytes = holds.iter().map(|(class, bytes)| (class.to_string(), bytes.0)).collect();
                let fault = MemoryFault {
                    rank: rank.0,
                    op: op.clone(),
                    tier: tier.clone(),
                    at_ps: at.0,
                    need_bytes: need.0,
                    level_bytes: level.0,
                    capacity_bytes: capacity.0,
                    holds_bytes,
                };
                (RunStatus::OutOfMemory, Some(fault))
            }
            EngineError::Deadlock { .. } => (RunStatus::Deadlock, None),
            _ => (RunStatus::Failed, None),
        };
        Fault { status, message: e.to_string(), out_of_memory, ..Fault::default() }
    }
}

impl From<&SimulationError> for Fault {
    fn from(e: &SimulationError) -> Fault {
        match e {
            SimulationError::Spec(e) | SimulationError::Plan(PlanError::Spec(e)) => e.into(),
            SimulationError::Plan(e) => {
                Fault { status: RunStatus::Invalid, message: e.to_string(), ..Fault::default() }
            }
            SimulationError::Engine(e) => e.into(),
            SimulationError::Impossible(what) => {
                Fault { status: RunStatus::Failed, message: what.clone(), ..Fault::default() }
            }
        }
    }
}
