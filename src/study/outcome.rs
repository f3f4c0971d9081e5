//! The outcome of one point.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::columns::ReportColumns;
use super::formula_columns::formula_columns;
use stepsim_form::analytic::ClosedForm;
use stepsim_form::compare::Estimators;
use stepsim_measure::score::ranges::{known, told};
use stepsim_plan::step::PlanError;
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::report::Report;
use stepsim_simulate::jump::{self, Figures, figures_among};
use stepsim_simulate::{Fault, Inputs, Options, RunStatus, StepCache};

/// How a point is valued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It is simulated.
    Simulated,
    /// It is simulated, and neither what communication exposed nor its range is read.
    TimeAndMemory,
    /// It is estimated in closed form.
    ClosedForm,
}

/// The columns of a row. Values that an infeasible point lacks are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointOutcome {
    /// How it ended.
    pub status: RunStatus,
    /// Why there is no result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Seconds of the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step_time_s: Option<f64>,
    /// Tokens per second and device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens_per_s_per_device: Option<f64>,
    /// Model FLOP utilisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mfu: Option<f64>,
    /// The fullest device memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_peak_bytes: Option<u64>,
    /// Of a simulated step: four in five steps like it lie between these two; absent where none is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range_s: Option<[f64; 2]>,
    /// Seconds of a mean rank that stood still for communication, by its kind (`tp`, `cp`, `ep`, `pp`, `dp`, `h2d`,
    /// ...).
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub exposed_s: BTreeMap<String, f64>,
    /// The requested fields of the step's report, by path.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub columns: BTreeMap<String, Value>,
}

impl PointOutcome {
    /// An infeasible point.
    pub fn of_fault(fault: Fault) -> PointOutcome {
        PointOutcome { status: fault.status, message: Some(fault.message), ..PointOutcome::default() }
    }

    /// A step in closed form, none of whose orders is walked where it does not fit. Copies count as copies to the
    /// device, bubbles as pipeline.
    ///
    /// # Errors
    /// As [`ClosedForm::with_batch`].
    pub fn of_form(form: &mut ClosedForm<'_>, global: u64, devices: u32) -> Result<PointOutcome, PlanError> {
        if let Some([needed, capacity]) = form.over_memory(global)? {
            let [needed, capacity] = [needed, capacity].map(|bytes| bytes / GIB);
            let status = RunStatus::OutOfMemory;
            let message = format!(
                "the closed form needs {needed:.1} GiB of device memory, there are {capacity:.1} GiB"
            );
            return Ok(PointOutcome { status, message: Some(message), ..PointOutcome::default() });
        }
        let step = form.with_batch(global)?;
        let terms = &step.terms;
        let exposed = [
            (OpKind::Tensor, terms.tensor),
            (OpKind::Context, terms.context),
            (OpKind::Expert, terms.expert),
            (OpKind::Pipeline, terms.p2p),
            (OpKind::Data, terms.data),
            (OpKind::CopyIn, terms.offload),
            (OpKind::Host, terms.host),
        ];
        let seconds = terms.total();
        Ok(PointOutcome {
            status: RunStatus::Ok,
            message: None,
            step_time_s: Some(seconds),
            tokens_per_s_per_device: Some(step.tokens / seconds / f64::from(devices)),
            mfu: Some(step.mfu),
            memory_peak_bytes: Some(step.fullest().total() as u64),
            exposed_s: named(exposed.into_iter().filter(|(_, seconds)| *seconds > 0.0)),
            ..PointOutcome::default()
        })
    }

    /// A simulated step, without its range.
    fn of_figures(step: Figures, devices: u32) -> PointOutcome {
        PointOutcome {
            status: RunStatus::Ok,
            message: None,
            step_time_s: Some(step.step_end.s()),
            tokens_per_s_per_device: Some(step.tokens_per_s / f64::from(devices)),
            mfu: Some(step.mfu),
            memory_peak_bytes: step.memory_peak_bytes,
            exposed_s: named(step.exposed.into_iter()),
            ..PointOutcome::default()
        }
    }

    /// A step with a report, without its range and what it exposed.
    pub(super) fn of_report(report: &Report) -> PointOutcome {
        PointOutcome {
            status: RunStatus::Ok,
            step_time_s: Some(report.step_time_s),
            tokens_per_s_per_device: Some(report.tokens_per_s / report.devices as f64),
            mfu: Some(report.mfu),
            memory_peak_bytes: report.answer.memory_peak_bytes,
            ..PointOutcome::default()
        }
    }

    /// The same with the range of its step.
    pub(super) fn ranged(self, inputs: &Inputs) -> PointOutcome {
        let range_s = self.step_time_s.and_then(|step_s| known(inputs, step_s).range_s);
        PointOutcome { range_s, ..self }
    }
}

fn named(exposed: impl Iterator<Item = (OpKind, f64)>) -> BTreeMap<String, f64> {
    exposed.map(|(kind, seconds)| (kind.name().to_string(), seconds)).collect()
}

const GIB: f64 = (1u64 << 30) as f64;

/// The results that the points of a study share.
#[derive(Debug, Default)]
pub(super) struct StudyCache {
    /// Closed forms.
    pub estimators: Estimators,
    /// Programs, folds, and how many micro-batches are enough.
    pub steps: StepCache,
}

/// Plays or estimates a point, by itself.
pub fn outcome(inputs: &Inputs, how: How) -> PointOutcome {
    outcome_beside(&StudyCache::default(), inputs, how)
}

/// Plays or estimates a point of a study.
pub(super) fn outcome_beside(shared: &StudyCache, inputs: &Inputs, how: How) -> PointOutcome {
    let valued = match how {
        How::Simulated | How::TimeAndMemory => {
            let is_whole = how == How::Simulated;
            let step = figures_among(&shared.steps, inputs, &Options::default(), is_whole);
            let outcome = step.map(|step| PointOutcome::of_figures(step, inputs.machine.devices()));
            outcome.map(|outcome| if is_whole { outcome.ranged(inputs) } else { outcome })
        }
        How::ClosedForm => {
            let (global, devices) = (inputs.workload.value.batch.global, inputs.machine.devices());
            let valued = &mut |form: &mut ClosedForm<'_>| PointOutcome::of_form(form, global, devices);
            shared.estimators.of_any_batch(inputs, valued).and_then(|valued| Ok(valued?))
        }
    };
    valued.unwrap_or_else(|e| PointOutcome::of_fault((&e).into()))
}

/// Plays or estimates a point, takes columns from its report, and holds a formula to it.
pub(super) fn reported(
    shared: &StudyCache,
    inputs: &Inputs,
    how: How,
    columns: &ReportColumns,
) -> PointOutcome {
    let mut outcome = outcome_beside(shared, inputs, how);
    if outcome.status == RunStatus::Ok && !columns.is_empty() {
        match jump::reported(inputs, &Options::default()) {
            Ok(report) => outcome.columns = columns.of(&told(inputs, report)),
            Err(e) => return PointOutcome::of_fault((&e).into()),
        }
    }
    if let (Some(formula), Some(step_s)) = (columns.formula(), outcome.step_time_s) {
        match formula_columns(formula, &shared.estimators, inputs, step_s) {
            Ok(own) => outcome.columns.extend(own),
            Err(e) => return PointOutcome::of_fault((&e).into()),
        }
    }
    outcome
}
