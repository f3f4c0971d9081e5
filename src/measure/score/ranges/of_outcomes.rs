//! The measured steps among the outcomes of a score.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::measured_step::MeasuredStep;
use super::measured_steps::MeasuredSteps;
use super::widths::Widths;
use crate::score::outcome::RowOutcome;
use stepsim_spec::catalog;

impl MeasuredSteps {
    /// The measured steps among outcomes: those that fit where they ran or were relieved to, and are not held apart.
    pub fn of(outcomes: &[RowOutcome], date: &str) -> MeasuredSteps {
        let steps: Vec<MeasuredStep> = outcomes.iter().filter_map(MeasuredStep::of).collect();
        let measured =
            MeasuredSteps { date: date.to_string(), widths: Widths::of(&steps), coverage: Vec::new(), steps };
        MeasuredSteps { coverage: measured.coverage(), ..measured }
    }
}

impl MeasuredStep {
    fn of(outcome: &RowOutcome) -> Option<MeasuredStep> {
        let case = outcome.case.as_ref().filter(|case| !case.layer && !case.software_assumed())?;
        let ratio = case.measured_s / outcome.predicted_s.filter(|_| outcome.counts())?;
        Some(MeasuredStep {
            id: outcome.id.clone(),
            source: outcome.source.clone(),
            ratio: (1e4 * ratio).round() / 1e4,
            unseen: unseen().contains(&outcome.source),
            hidden: outcome.hidden_share.map(thousandths),
            traits: outcome.traits.clone()?,
        })
    }
}

fn thousandths(share: f64) -> f64 {
    (1e3 * share).round() / 1e3
}

/// The sources that nothing was fitted to: `workloads/score/unseen.json`.
fn unseen() -> &'static BTreeSet<String> {
    static UNSEEN: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
        let text = catalog::file("workloads/score/unseen.json").unwrap_or_default();
        let file: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        serde_json::from_value(file["sources"].clone()).unwrap_or_default()
    });
    &UNSEEN
}
