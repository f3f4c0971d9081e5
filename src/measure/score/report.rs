//! The score as JSON: all rows, and errors by source, device, stack and kind of model.

use std::collections::BTreeMap;

use serde::Serialize;

use super::anchored::AnchoredErrors;
use super::choice::ChoiceScore;
use super::outcome::{RowOutcome, RowStatus};
use super::ranges::{Coverage, RangedStep, StepRange};
use super::statistics::{Disagreement, Statistics, kendall};
use stepsim_bring::describe::AssumedField;

/// The score of some rows.
#[derive(Clone, Debug, Serialize)]
pub struct ScoreReport {
    /// All rows together.
    pub overall: ErrorGroup,
    /// By source.
    pub sources: BTreeMap<String, ErrorGroup>,
    /// By class of device.
    pub devices: BTreeMap<String, ErrorGroup>,
    /// By software stack.
    pub stacks: BTreeMap<String, ErrorGroup>,
    /// `dense` and `moe`.
    pub models: BTreeMap<String, ErrorGroup>,
    /// How many steps lie in their range, by class: each with what all sources but its own say.
    pub ranges: BTreeMap<String, Coverage>,
    /// Each row.
    pub rows: Vec<ScoredRow>,
    /// Rows anchored to smaller ones, if asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchored: Option<AnchoredErrors>,
}

/// Errors of some rows.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ErrorGroup {
    /// Of the simulation.
    #[serde(flatten)]
    pub errors: Statistics,
    /// Kendall's τ of time per token, over pairs of rows of one model and machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kendall_tau: Option<f64>,
    /// Rows that need more memory than the device has; their time holds for a device with enough.
    pub over_memory: usize,
    /// Errors of those rows; they are in no other figure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub over_memory_errors: Option<Statistics>,
    /// Errors of rows that rules hold apart (columns `apart` and `apart_below_mfu`); they are in no other figure but
    /// the choice of layouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart_errors: Option<Statistics>,
    /// Rows with words that were not understood.
    pub with_gaps: usize,
    /// Rows that could not be mapped.
    pub skipped: usize,
    /// Rows that the simulator refused.
    pub failed: usize,
    /// Of the closed form.
    pub closed_form: Statistics,
    /// Rows in which simulation and closed form are far apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub apart: Option<Disagreement>,
    /// Of the peak of device memory, where it was measured.
    pub memory: Statistics,
    /// How good a layout is chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub layout_choice: Option<ChoiceScore>,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct ScoredRow {
    /// Its name.
    pub id: String,
    /// Its source.
    pub source: String,
    /// `done`, `mapped` (not played), `over memory`, `apart`, `skipped` or `failed`.
    pub status: &'static str,
    /// Why it was skipped, or is held apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<String>,
    /// Why it failed, or what does not fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Class of device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Software stack.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<String>,
    /// True if the model has experts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moe: Option<bool>,
    /// Measured seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_s: Option<f64>,
    /// The column that they come from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_from: Option<&'static str>,
    /// Simulated seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_s: Option<f64>,
    /// The likely time of the step, by the measured steps of all other sources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_s: Option<f64>,
    /// Four in five steps like it lie between these two, by the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_s: Option<[f64; 2]>,
    /// Predicted over measured, less one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// Seconds in closed form.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_form_s: Option<f64>,
    /// Its error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub closed_form_error: Option<f64>,
    /// Measured peak memory.
    #[serde(rename = "measured_memory_GiB", skip_serializing_if = "Option::is_none")]
    pub measured_memory: Option<f64>,
    /// Simulated peak memory.
    #[serde(rename = "predicted_memory_GiB", skip_serializing_if = "Option::is_none")]
    pub predicted_memory: Option<f64>,
    /// Statements of the row that contradict each other.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Columns that were filled in, and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumed: Vec<AssumedField>,
    /// Columns of the row, or phrases of them, that nothing was made of: names or words that no rule knows.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_understood: BTreeMap<String, serde_json::Value>,
    /// Seconds of the mean rank: its kernels, and what it stood still for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub breakdown: BTreeMap<String, f64>,
    /// Seconds of the mean rank's kernels by class.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub kernels: BTreeMap<&'static str, f64>,
    /// Workload, as `--rows` writes it.
    #[serde(skip)]
    pub workload: serde_json::Value,
    /// Machine and its settings, as `--rows` writes them.
    #[serde(skip)]
    pub machine: Vec<String>,
}

impl ScoreReport {
    /// The score of outcomes, in their order.
    pub fn of(outcomes: &[RowOutcome]) -> ScoreReport {
        let by = |key: &dyn Fn(&RowOutcome) -> Option<String>| -> BTreeMap<String, ErrorGroup> {
            let mut groups: BTreeMap<String, Vec<&RowOutcome>> = BTreeMap::new();
            for outcome in outcomes {
                if let Some(name) = key(outcome) {
                    groups.entry(name).or_default().push(outcome);
                }
            }
            groups.into_iter().map(|(name, list)| (name, ErrorGroup::of(&list))).collect()
        };
        ScoreReport {
            overall: ErrorGroup::of(&outcomes.iter().collect::<Vec<_>>()),
            sources: by(&|o| Some(o.source.clone())),
            devices: by(&|o| Some(o.case.as_ref()?.class.clone())),
            stacks: by(&|o| Some(o.case.as_ref()?.stack.clone())),
            models: by(&|o| Some(if o.case.as_ref()?.moe { "moe" } else { "dense" }.to_string())),
            ranges: coverage(outcomes),
            rows: outcomes.iter().map(ScoredRow::of).collect(),
            anchored: None,
        }
    }
}

/// The ranges of all steps that have one, by class.
fn coverage(outcomes: &[RowOutcome]) -> BTreeMap<String, Coverage> {
    let ranges: Vec<Option<StepRange>> = outcomes.iter().map(RowOutcome::range).collect();
    let pairs = outcomes.iter().zip(&ranges);
    let ranged = pairs.filter_map(|(outcome, range)| RangedStep::of(outcome, range.as_ref()));
    Coverage::by_class(&ranged.collect::<Vec<_>>())
}

impl<'a> RangedStep<'a> {
    fn of(outcome: &'a RowOutcome, range: Option<&'a StepRange>) -> Option<RangedStep<'a>> {
        outcome.counts().then_some(())?;
        Some(RangedStep {
            source: &outcome.source,
            traits: outcome.traits.as_ref()?,
            measured_s: outcome.case.as_ref()?.measured_s,
            model_s: outcome.predicted_s?,
            range,
        })
    }
}

impl ErrorGroup {
    /// Errors of some outcomes.
    pub fn of(outcomes: &[&RowOutcome]) -> ErrorGroup {
        let list =
            |f: fn(&RowOutcome) -> Option<f64>| outcomes.iter().filter_map(|o| f(o)).collect::<Vec<f64>>();
        let count = |f: fn(&RowStatus) -> bool| outcomes.iter().filter(|o| f(&o.status)).count();
        let statistics = |f: fn(&RowOutcome) -> Option<f64>, rows: usize| Statistics::of(rows, &list(f));
        let measured =
            outcomes.iter().filter(|o| o.case.as_ref().is_some_and(|c| c.peak_mem_gib.is_some())).count();
        let apart = |is: fn(&RowStatus) -> bool| {
            let errors: Vec<f64> =
                outcomes.iter().filter(|o| is(&o.status)).filter_map(|o| o.off()).collect();
            (!errors.is_empty()).then(|| Statistics::of(errors.len(), &errors))
        };
        let gaps = |o: &&&RowOutcome| o.case.as_ref().is_some_and(|c| !c.not_understood.is_empty());
        let per_token = outcomes.iter().filter(|o| o.error().is_some()).filter_map(|o| {
            let case = o.case.as_ref()?;
            Some((case.block.as_str(), case.measured_s / case.tokens, o.predicted_s? / case.tokens))
        });
        ErrorGroup {
            errors: statistics(RowOutcome::error, outcomes.len()),
            kendall_tau: kendall(per_token),
            over_memory: count(|s| matches!(s, RowStatus::OverMemory(_))),
            over_memory_errors: apart(|s| matches!(s, RowStatus::OverMemory(_))),
            apart_errors: apart(|s| matches!(s, RowStatus::Apart(_))),
            with_gaps: outcomes.iter().filter(gaps).count(),
            skipped: count(|s| matches!(s, RowStatus::Skipped(_))),
            failed: count(|s| matches!(s, RowStatus::Failed(_))),
            closed_form: statistics(RowOutcome::closed_form_error, outcomes.len()),
            apart: Disagreement::of(
                outcomes.iter().filter_map(|o| Some((o.error()?, o.closed_form_error()?))),
            ),
            memory: statistics(RowOutcome::memory_error, measured),
            layout_choice: ChoiceScore::of(outcomes),
        }
    }
}

impl ScoredRow {
    fn of(o: &RowOutcome) -> ScoredRow {
        let (case, range) = (o.case.as_ref(), o.range());
        let (status, skipped, failed) = match &o.status {
            RowStatus::Mapped => ("mapped", None, None),
            RowStatus::Done => ("done", None, None),
            RowStatus::OverMemory(why) => ("over memory", None, Some(why.clone())),
            RowStatus::Apart(why) => ("apart", Some(why.clone()), None),
            RowStatus::Skipped(why) => ("skipped", Some(why.clone()), None),
            RowStatus::Failed(why) => ("failed", None, Some(why.clone())),
        };
        ScoredRow {
            id: o.id.clone(),
            source: o.source.clone(),
            status,
            skipped,
            failed,
            device: case.map(|c| c.class.clone()),
            stack: case.map(|c| c.stack.clone()),
            moe: case.map(|c| c.moe),
            measured_s: case.map(|c| c.measured_s),
            measured_from: case.map(|c| c.measured_from),
            predicted_s: o.predicted_s,
            estimate_s: range.as_ref().map(|range| range.estimate_s),
            range_s: range.as_ref().map(|range| range.range_s),
            error: o.off(),
            closed_form_s: o.closed_form_s,
            closed_form_error: o.closed_form_error(),
            warnings: case.map_or_else(Vec::new, |c| c.warnings.clone()),
            measured_memory: case.and_then(|c| c.peak_mem_gib),
            predicted_memory: o.memory_gib,
            assumed: case.map_or_else(Vec::new, |c| c.assumed.clone()),
            not_understood: case.map_or_else(BTreeMap::new, |c| c.not_understood.clone()),
            breakdown: o.breakdown.clone(),
            kernels: o.kernels.clone(),
            workload: case.map_or(serde_json::Value::Null, |c| c.workload.clone()),
            machine: case.map_or_else(Vec::new, |c| {
                std::iter::once(c.machine.topology.clone()).chain(c.machine.sets.iter().cloned()).collect()
            }),
        }
    }

    /// The row as one line of JSON: what the report says of it, and the workload and machine that were simulated.
    pub fn line(&self) -> String {
        let mut value = stepsim_located::to_value(self).unwrap_or_default();
        if !self.workload.is_null() {
            value["workload"] = self.workload.clone();
            value["machine"] = self.machine.clone().into();
        }
        value.to_string()
    }
}
