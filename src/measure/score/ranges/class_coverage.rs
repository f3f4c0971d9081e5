//! How many measured steps of a class lie in their range.

use serde::{Deserialize, Serialize};

/// The ranges of one class of steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Steps with a range.
    pub steps: usize,
    /// Steps without one.
    pub without: usize,
    /// Their sources.
    pub sources: usize,
    /// Share of them inside their range.
    pub inside: f64,
    /// Share of them below it.
    pub below: f64,
    /// Median of the upper over the lower end, less one.
    pub width: f64,
    /// Mean absolute error of the simulation alone.
    pub model_error: f64,
    /// Mean absolute error of the estimate.
    pub estimate_error: f64,
}

/// The same with the name of the class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassCoverage {
    /// Name of the class.
    pub name: String,
    /// Its ranges.
    #[serde(flatten)]
    pub of: Coverage,
}
