//! The baseline of a gate.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::plan::{Request, RunPlan};
use stepsim_read::analysis::report::Report;
use stepsim_read::page::sheet::quoted;
use stepsim_simulate::jump::glanced;
use stepsim_simulate::{Inputs, Options, SimulationError};

/// The cost of a step of a configuration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GateSide {
    /// Seconds of the step.
    pub step_s: f64,
    /// Bytes of the fullest device at the peak.
    pub memory_bytes: u64,
    /// Model FLOP utilisation.
    pub mfu: f64,
}

/// The file of a gate: what was agreed on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Baseline {
    /// The release of stepsim that wrote it.
    pub stepsim: String,
    /// Files and names that describe the run.
    pub words: Vec<String>,
    /// The machine, as it was asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    /// Sequences of a step, where they were stated beside the files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub batch: Option<u64>,
    /// Settings beside the files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<String>,
    /// The workload that they came to.
    pub workload: Value,
    /// Its step.
    pub predicted: GateSide,
}

/// By how much a configuration may be worse.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GateLimits {
    /// Longer, as a part of the step.
    pub step: f64,
    /// More memory, as a part of it.
    pub memory: f64,
}

impl GateSide {
    pub(super) fn of(report: &Report) -> GateSide {
        let memory_bytes = report.memory.get("hbm").map_or(0, |tier| tier.peak_bytes);
        GateSide { step_s: report.step_time_s, memory_bytes, mfu: report.mfu }
    }

    /// Plays a workload on the machine that it names.
    pub(super) fn played(workload: &Value, sets: &[String]) -> Result<GateSide, SimulationError> {
        let inputs = Inputs::load(&workload.to_string(), None, sets)?;
        Ok(GateSide::of(&glanced(&inputs, &Options::default())?))
    }
}

impl Baseline {
    /// The baseline of a plan that was made of a request.
    ///
    /// # Errors
    /// The step cannot be played.
    pub fn of(request: &Request, plan: &RunPlan) -> Result<Baseline, SimulationError> {
        Ok(Baseline {
            stepsim: env!("CARGO_PKG_VERSION").into(),
            words: request.words.clone(),
            on: request.on.clone(),
            batch: request.batch,
            sets: request.sets.clone(),
            workload: plan.workload.clone(),
            predicted: GateSide::played(&plan.workload, &plan.machine_sets)?,
        })
    }

    /// The command that makes it anew in a file.
    pub fn command(&self, file: &str) -> String {
        let words = self.words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        let on = self.on.as_ref().map_or(String::new(), |on| format!(" --on {}", quoted(on)));
        let batch = self.batch.map_or(String::new(), |batch| format!(" --batch {batch}"));
        let sets: String = self.sets.iter().map(|set| format!(" --set {}", quoted(set))).collect();
        format!("stepsim gate --write {} {words}{on}{batch}{sets}", quoted(file))
    }

    /// The request that made it.
    pub fn request(&self) -> Request {
        Request {
            words: self.words.clone(),
            on: self.on.clone(),
            batch: self.batch,
            sets: self.sets.clone(),
            ..Request::default()
        }
    }
}
