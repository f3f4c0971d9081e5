//! The columns of a row from the user's formula: how far it is off, and in which term.

use std::collections::BTreeMap;

use serde_json::Value;

use stepsim_form::analytic::KEYS;
use stepsim_form::compare::{Estimators, Formula, FormulaReading};
use stepsim_simulate::{Inputs, SimulationError};

/// Column: the formula's step, in seconds.
const STEP: &str = "formula.step_time_s";
/// Column: the formula's step less the row's, in percent of the latter.
pub const OFF: &str = "formula.off_percent";
/// Column: the term that is farthest from the closed form's.
pub const FARTHEST: &str = "formula.farthest";

/// Column: a term of the formula less the closed form's, in percent of the closed form's step.
pub fn term_column(key: &str) -> String {
    format!("formula.{key}_percent")
}

/// True for a column of one term: a table of rows leaves it to the map.
pub fn of_one_term(column: &str) -> bool {
    KEYS.into_iter().any(|key| column == term_column(key))
}

/// The columns of a formula at a point whose step takes `step_s` seconds.
///
/// # Errors
/// The workload does not fit the machine, or an expression is wrong.
pub(super) fn formula_columns(
    formula: &Formula,
    estimators: &Estimators,
    inputs: &Inputs,
    step_s: f64,
) -> Result<BTreeMap<String, Value>, SimulationError> {
    let read = FormulaReading::new(formula, estimators, inputs, (step_s, &[]))?;
    let own = [
        (STEP.to_string(), read.total_s.into()),
        (OFF.to_string(), (100.0 * read.off).into()),
        (FARTHEST.to_string(), read.farthest.unwrap_or("none").into()),
    ];
    let terms = read.terms.iter().filter(|term| term.formula_s != 0.0 || term.closed_form_s != 0.0);
    let terms = terms.map(|term| (term_column(term.name), term.percent.into()));
    Ok(own.into_iter().chain(terms).collect())
}
