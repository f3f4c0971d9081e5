//! Measured against measured: logs, or profiles of several steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use stepsim_bring::training_log::Log;

/// A difference counts where it is more than this number of standard errors of both medians.
const ERRORS: f64 = 3.0;
/// Steps by which noise is known.
const FEWEST: usize = 3;

/// The report about two measured steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LogGate {
    /// True if the second is within the limit, or the difference within the noise.
    pub passes: bool,
    /// How much longer the step of the second is, as a part of the first.
    pub step_change: f64,
    /// The standard error of that.
    pub noise: f64,
    /// The limit.
    pub limit: f64,
    /// Both logs in words.
    pub logs: [String; 2],
}

/// Holds a log against another, by the times of their steady steps; `None` where their units cannot be compared, or
/// one has too few steps to know their noise.
pub fn gate_logs(before: &Log, after: &Log, limit: f64) -> Option<LogGate> {
    if before.steady.lines.min(after.steady.lines) < FEWEST {
        return None;
    }
    let step_change = after.times_of(before)? - 1.0;
    let error = |log: &Log| log.steady.error();
    let noise = error(before).hypot(error(after));
    Some(LogGate {
        passes: step_change <= limit || step_change <= ERRORS * noise,
        step_change,
        noise,
        limit,
        logs: [before, after].map(Log::plain_words),
    })
}
