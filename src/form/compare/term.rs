//! One term of a comparison.

use schemars::JsonSchema;
use serde::Serialize;

/// One term on both sides, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Term {
    /// Its name.
    pub name: &'static str,
    /// In closed form.
    pub closed_form_s: f64,
    /// On the simulated rank that is read: what its compute stream did or waited for.
    pub simulated_s: f64,
}
