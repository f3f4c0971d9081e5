//! The measured steps among the outcomes of a score.

use super::measured_step::MeasuredStep;
use super::measured_steps::MeasuredSteps;
use super::widths::Widths;
use crate::score::outcome::RowOutcome;

impl MeasuredSteps {
    /// The measured steps among outcomes: those that fit where they ran or were relieved to, and are not held apart.
    pub fn of(outcomes: &[RowOutcome], date: &str) -> MeasuredSteps {
        let steps: Vec<MeasuredStep> = outcomes.iter().filter_map(MeasuredStep::of).collect();
        let date = date.to_string();
        let measured = MeasuredSteps { date, widths: Widths::of(&steps), coverage: Vec::new(), steps };
        MeasuredSteps { coverage: measured.coverage(), ..measured }
    }
}

impl MeasuredStep {
    fn of(outcome: &RowOutcome) -> Option<MeasuredStep> {
        let case = outcome.case.as_ref().filter(|case| !case.layer)?;
        let ratio = case.measured_s / outcome.predicted_s.filter(|_| outcome.counts())?;
        Some(MeasuredStep {
            id: outcome.id.clone(),
            source: outcome.source.clone(),
            ratio: (1e4 * ratio).round() / 1e4,
            assumed: case.assumed_values(),
            hidden: outcome.hidden_share.map(thousandths),
            traits: outcome.traits.clone()?,
        })
    }
}

fn thousandths(share: f64) -> f64 {
    (1e3 * share).round() / 1e3
}
