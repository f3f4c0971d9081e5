//! A formula beside the closed form and a simulated rank.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::Formula;
use crate::analytic::KEYS;
use crate::compare::{Estimators, Term};
use stepsim_simulate::{Inputs, SimulationError};

/// One term of a formula beside others' of it, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FormulaTerm {
    /// Its name.
    pub name: &'static str,
    /// By the formula.
    pub formula_s: f64,
    /// In closed form.
    pub closed_form_s: f64,
    /// On the simulated rank that is read.
    pub simulated_s: f64,
    /// Formula less closed form, in percent of the closed form's step.
    pub percent: f64,
}

/// A formula's result for a step.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FormulaReading {
    /// Its name.
    pub name: String,
    /// Where it is published.
    pub source: String,
    /// Seconds of the step.
    pub total_s: f64,
    /// The same over the simulated step, less one.
    pub off: f64,
    /// Term by term.
    pub terms: Vec<FormulaTerm>,
    /// The term that is farthest from the closed form's; none where all are equal.
    pub farthest: Option<&'static str>,
    /// The quantities of this step that its expressions may name.
    pub quantities: BTreeMap<String, f64>,
}

/// The named quantities of a step, whose closed form is one of those that share an `estimators`.
///
/// # Errors
/// The workload does not fit the machine.
pub fn quantities(
    estimators: &Estimators,
    inputs: &Inputs,
) -> Result<BTreeMap<String, f64>, SimulationError> {
    estimators.of_any_batch(inputs, &mut |form| {
        let estimate = form.with_batch(inputs.workload.value.batch.global)?;
        Ok::<_, SimulationError>(form.quantities(&estimate).map_err(stepsim_plan::step::PlanError::from)?)
    })?
}

/// Terms are equal up to so much of the step: what is summed in another order differs by less.
const EQUAL: f64 = 1e-9;

impl FormulaReading {
    /// A formula's result for the step of `inputs`, from its simulated time and terms. Quantities come from a closed
    /// form that shares `estimators`.
    ///
    /// # Errors
    /// The workload does not fit the machine, or an expression is wrong.
    pub fn new(
        formula: &Formula,
        estimators: &Estimators,
        inputs: &Inputs,
        (simulated_s, both): (f64, &[Term]),
    ) -> Result<FormulaReading, SimulationError> {
        let quantities = quantities(estimators, inputs)?;
        let workload = stepsim_located::to_value(&inputs.workload.value).unwrap_or_default();
        let seconds = formula.terms(&quantities, &workload)?;
        let own = |key: &str| quantities.get(&format!("own.{key}")).copied().unwrap_or(0.0);
        let step: f64 = KEYS.into_iter().map(own).sum();
        let term = |(key, formula_s): (&'static str, f64)| {
            let closed_form_s = own(key);
            let simulated = both.iter().find(|term| is(term.name, key));
            FormulaTerm {
                name: key,
                formula_s,
                closed_form_s,
                simulated_s: simulated.map_or(0.0, |term| term.simulated_s),
                percent: 100.0 * (formula_s - closed_form_s) / step,
            }
        };
        let terms: Vec<FormulaTerm> = KEYS.into_iter().zip(seconds).map(term).collect();
        let farthest = terms.iter().max_by(|a, b| a.percent.abs().total_cmp(&b.percent.abs()));
        let total_s = seconds.iter().sum::<f64>();
        Ok(FormulaReading {
            name: formula.name.clone(),
            source: formula.source.clone(),
            total_s,
            off: total_s / simulated_s - 1.0,
            farthest: farthest.filter(|term| term.percent.abs() > 100.0 * EQUAL).map(|term| term.name),
            terms,
            quantities,
        })
    }
}

/// True if a term of a comparison belongs to a key.
fn is(name: &str, key: &str) -> bool {
    match key {
        "p2p" => name.starts_with("pipeline transfers"),
        "bubble" => name.starts_with("pipeline bubble"),
        key => name.starts_with(key),
    }
}
