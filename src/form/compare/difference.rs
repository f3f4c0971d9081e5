//! The difference between a closed form and a simulation, by class.

use schemars::JsonSchema;
use serde::Serialize;

/// Whose difference it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DifferenceOrigin {
    /// The closed form has a term for it, which is wrong.
    OwnError,
    /// The closed form does not claim it.
    Effect,
    /// No switch explains it by itself.
    Rest,
}

impl DifferenceOrigin {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            DifferenceOrigin::OwnError => "own error",
            DifferenceOrigin::Effect => "effect",
            DifferenceOrigin::Rest => "rest",
        }
    }
}

/// One switch, and what it adds to simulation minus closed form.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Difference {
    /// Its name: `link contention`.
    pub name: &'static str,
    /// The switch.
    pub switch: &'static str,
    /// The time that it adds, in picoseconds.
    pub picoseconds: i64,
    /// The same in seconds.
    pub seconds: f64,
    /// The same in percent of the closed form's step.
    pub percent: f64,
}

/// The closed form's errors in effects that it claims to cover.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct OwnError {
    /// The sum of its terms over the closed form's step: below zero where the form is too long.
    pub fraction: f64,
    /// The sum of the sizes of its terms, whatever their sign, over the closed form's step.
    pub gross_fraction: f64,
    /// The sum of its terms in picoseconds.
    pub picoseconds: i64,
    /// The same in seconds.
    pub seconds: f64,
    /// Term by term.
    pub terms: Vec<Difference>,
}

/// The rest that no switch explains by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Remainder {
    /// In picoseconds.
    pub picoseconds: i64,
    /// The same in seconds.
    pub seconds: f64,
    /// The same over the closed form's step.
    pub fraction: f64,
}
