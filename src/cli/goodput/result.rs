//! The results of `stepsim goodput`.

use serde::Serialize;

use stepsim_around::goodput::{CheckpointTimes, GoodputSummary, Interval};
use stepsim_read::analysis::answer::Answer;
use stepsim_simulate::Head;
use stepsim_spec::reliability::Reliability;

/// The output of `--report`.
#[derive(Debug, Serialize)]
pub(super) struct Goodput {
    pub head: Head,
    pub reliability: Reliability,
    pub devices: u32,
    pub step_time_s: f64,
    /// Seconds between two interruptions of the job.
    pub mtbf_s: f64,
    pub checkpoint: CheckpointTimes,
    pub interval_s: f64,
    /// Expected wall time of an interval, and its goodput.
    pub expected_segment_s: Option<f64>,
    pub expected_goodput: Option<f64>,
    pub intervals: Vec<Interval>,
    pub simulated: GoodputSummary,
    /// Of the undisturbed step, where it is simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<Answer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens_per_s: Option<f64>,
}

/// Seconds as people say them.
pub(super) fn span(seconds: f64) -> String {
    match seconds {
        s if s >= 2.0 * 86_400.0 => format!("{:.1} days", s / 86_400.0),
        s if s >= 2.0 * 3600.0 => format!("{:.2} h", s / 3600.0),
        s if s >= 600.0 => format!("{:.1} min", s / 60.0),
        s => format!("{s:.3} s"),
    }
}
