//! The way from the peak to MFU, as it is reported.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The way from the peak to MFU: `mfu` and all shares sum to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredWaterfall {
    /// Model FLOPs of all steps in the window over what the device could have done in it.
    pub mfu: f64,
    /// The bars below it, largest first.
    pub bars: Vec<MeasuredBar>,
}

/// One bar.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MeasuredBar {
    /// `gemm below the peak`, `attention below the peak`, another work of kernels, `exposed communication`, `idle: …`.
    pub what: String,
    /// Of the window; negative where MFU counts more than ran, or kernels ran side by side.
    pub time_s: f64,
    /// Over the window.
    pub share: f64,
}
