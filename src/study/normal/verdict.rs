//! The verdict about a measured step.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::telling::Telling;
use stepsim_read::analysis::answer::Answer;

/// How a measured step stands to the expected one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// It lies where nine in ten steps like it do.
    #[default]
    Normal,
    /// Slower than that.
    Slow,
    /// Faster than that: the description or the number means something else.
    Fast,
    /// More than the devices' peak: no step can be so.
    Impossible,
    /// No range is known.
    Unknown,
}

/// A verdict about a measured step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepVerdict {
    /// How the measured step stands to the expected one.
    pub judgement: Judgement,
    /// Seconds of the measured step.
    pub measured_s: f64,
    /// How the number was read, where its unit leaves a choice.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub read_as: String,
    /// The answer about the step as it is described: its time, range and doubts.
    pub answer: Answer,
    /// Nine in ten steps like it lie between these: what lies in it is normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nine_in_ten_s: Option<[f64; 2]>,
    /// Seconds of the reference, where one was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_s: Option<f64>,
    /// Seconds that it is too long; negative where it is too short.
    pub distance_s: f64,
    /// Its explanations, the likeliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<ExplainedBy>,
    /// Causes that cannot be why, each with the most that it makes of the step, in seconds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<(String, f64)>,
    /// True if one number tells: the first cause is a switch that reaches it (a size that is fitted reaches any), and
    /// the first two classes have most of the weight.
    pub is_told: bool,
    /// The measurement that tells the first two apart.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub telling: Option<Telling>,
}

/// Causes that one measurement shows, the likeliest first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedBy {
    /// Their class.
    pub class: String,
    /// The share that they have of the weight of all that reach the number: for the order, no probability.
    pub share: f64,
    /// The measurement that shows them.
    pub look: String,
    /// Each, with the size in which it makes the step take what was measured.
    pub causes: Vec<PlayedCause>,
}

/// A cause that reaches the number.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlayedCause {
    /// In words, with its size.
    pub what: String,
    /// Its size, where it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<f64>,
    /// Seconds of the step with it, played; of a convention of the number, the seconds that the number is then.
    pub step_s: f64,
    /// Settings that give it; empty where it is no field.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<String>,
}
