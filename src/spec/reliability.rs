//! The reliability file: how often a job is interrupted, what a restart costs, how checkpoints are written, and which
//! devices are slow for a while. Files: `workloads/reliability/*.json`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Kind, Spec, SpecError, number};

/// Events of a job that runs for days.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reliability {
    /// Of which job or fleet, one sentence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Interruptions.
    pub failures: Failures,
    /// The consequences of an interruption.
    pub restart: Restart,
    /// How the state is saved.
    #[serde(default)]
    pub checkpoint: Checkpoint,
    /// Devices that are slow for a while; each kind is drawn for itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slow_devices: Vec<SlowDevices>,
    /// Where each figure comes from: path of the field → source.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
}

/// Interruptions: a Poisson process whose rate is proportional to the devices.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Failures {
    /// Mean device-hours between two interruptions.
    #[serde(deserialize_with = "number::positive")]
    pub device_hours_between: f64,
    /// How often each cause was seen; only their ratios count.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub causes: BTreeMap<String, u32>,
}

/// The consequences of an interruption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restart {
    /// Seconds from the interruption to the first step: detection, scheduling, start, loading.
    #[serde(deserialize_with = "number::non_negative")]
    pub time_s: f64,
    /// True if a restart can itself be interrupted, and then begins anew.
    #[serde(default)]
    pub can_fail: bool,
}

/// How the state is saved. Seconds that are given count more than what would follow from bytes and rates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Checkpoint {
    /// The behaviour of steps while storage is written.
    pub mode: CheckpointMode,
    /// True if the weights in the format of computation are saved beside master weights and moments.
    pub weights: bool,
    /// Bytes of one checkpoint in 10⁹; default: the model's parameters times their state.
    #[serde(rename = "total_GB", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_positive")]
    pub total_gb: Option<f64>,
    /// The rate that storage sustains for the whole job, in 10⁹ B/s.
    #[serde(rename = "storage_GBps", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_positive")]
    pub storage_gbps: Option<f64>,
    /// The rate of copies from a device to memory of its host, in 10⁹ B/s; default: the machine's link to the host.
    #[serde(rename = "host_GBps", skip_serializing_if = "Option::is_none")]
    #[serde(deserialize_with = "number::optional_positive")]
    pub host_gbps: Option<f64>,
    /// Seconds for which steps stand still.
    #[serde(deserialize_with = "number::optional_non_negative", skip_serializing_if = "Option::is_none")]
    pub stall_s: Option<f64>,
    /// Seconds from the end of the stall until one can restart from it.
    #[serde(deserialize_with = "number::optional_non_negative", skip_serializing_if = "Option::is_none")]
    pub safe_after_s: Option<f64>,
    /// Seconds of work between two checkpoints; default: the best.
    #[serde(deserialize_with = "number::optional_positive", skip_serializing_if = "Option::is_none")]
    pub every_s: Option<f64>,
    /// Steps between two checkpoints, instead.
    #[serde(deserialize_with = "number::optional_count", skip_serializing_if = "Option::is_none")]
    pub every_steps: Option<u32>,
}

/// The behaviour of steps while storage is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CheckpointMode {
    /// Steps wait until storage has it.
    #[default]
    Synchronous,
    /// Steps wait for the copy to the host; storage is written behind them, one checkpoint at a time.
    Asynchronous,
}

/// Devices that are slow for a while and the whole job with them: a Poisson process of such times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SlowDevices {
    /// How often, for each device and day.
    #[serde(deserialize_with = "number::positive")]
    pub per_device_day: f64,
    /// The factor on the step time, 1 or more; of several at one time the largest counts.
    #[serde(deserialize_with = "number::positive")]
    pub slowness: f64,
    /// Shortest and longest duration in seconds; their logarithm is uniform between.
    pub duration_s: [f64; 2],
}

impl Spec for Reliability {
    const KIND: Kind = Kind::Reliability;

    fn validate(&self) -> Result<(), SpecError> {
        let wrong = |path: String, value: String, allowed: &str| {
            Err(SpecError::at(path, format!("{value} is not allowed")).value(value).allowed(allowed))
        };
        if self.checkpoint.every_s.is_some() && self.checkpoint.every_steps.is_some() {
            return Err(SpecError::at("checkpoint.every_steps", "`every_s` says it too")
                .hint("give one of the two, or none for the best interval"));
        }
        for (i, slow) in self.slow_devices.iter().enumerate() {
            if slow.slowness < 1.0 {
                return wrong(format!("slow_devices[{i}].slowness"), slow.slowness.to_string(), "1 or more");
            }
            let [low, high] = slow.duration_s;
            if !(low > 0.0 && low <= high && high <= 1e9) {
                let value = format!("[{low}, {high}]");
                return wrong(
                    format!("slow_devices[{i}].duration_s"),
                    value,
                    "two numbers above 0 that rise, at most 1e9",
                );
            }
        }
        Ok(())
    }
}
