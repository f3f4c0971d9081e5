//! A measured step with how far off it was simulated.

use serde::{Deserialize, Serialize};

use super::traits::StepTraits;

/// A measured step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredStep {
    /// Name of the row.
    pub id: String,
    /// Who measured it.
    pub source: String,
    /// Measured over simulated seconds.
    pub ratio: f64,
    /// True if nothing was fitted to its source or the likes of it: by such the width of ranges is judged.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unseen: bool,
    /// Part of the step in which that communication runs under kernels which hides best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<f64>,
    /// Its classes and size.
    pub traits: StepTraits,
}
