//! Measured steps with how far off each was simulated: the shipped file `workloads/score/measured-steps.json`.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::coverage::ClassCoverage;
use super::traits::StepTraits;
use super::widths::Widths;
use crate::score::outcome::Outcome;
use stepsim_step::spec::catalog;

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
    /// Values that its description assumes.
    pub assumed: u32,
    /// Part of the step in which that communication runs under kernels which hides best.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hidden: Option<f64>,
    /// Its classes and size.
    pub traits: StepTraits,
}

/// The measured steps of a score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredSteps {
    /// When they were simulated.
    pub date: String,
    /// How much wider or narrower ranges are in some classes than the steps around them say.
    pub widths: Widths,
    /// How many of them lie in their range, class by class.
    pub coverage: Vec<ClassCoverage>,
    /// One for each row that counts.
    pub steps: Vec<MeasuredStep>,
}

impl MeasuredSteps {
    /// The shipped ones; none if the file is missing.
    pub fn shipped() -> &'static MeasuredSteps {
        static SHIPPED: LazyLock<MeasuredSteps> = LazyLock::new(|| {
            let text = catalog::file("workloads/score/measured-steps.json").unwrap_or_default();
            serde_json::from_str(text).unwrap_or_default()
        });
        &SHIPPED
    }

    /// The file: a class or a step a line.
    pub fn text(&self) -> String {
        let widths = self.widths.0.iter().map(|(class, width)| format!("{}: {}", json(class), json(width)));
        let lines = |lines: Vec<String>| lines.join(",\n");
        format!(
            "{{\n\"date\": {},\n\"widths\": {{\n{}\n}},\n\"coverage\": [\n{}\n],\n\"steps\": [\n{}\n]\n}}\n",
            json(&self.date),
            lines(widths.collect()),
            lines(self.coverage.iter().map(json).collect()),
            lines(self.steps.iter().map(json).collect()),
        )
    }

    /// The measured steps among outcomes: those that fit where they ran or were relieved to, and are not held apart.
    pub fn of(outcomes: &[Outcome], date: &str) -> MeasuredSteps {
        let steps: Vec<MeasuredStep> = outcomes.iter().filter_map(MeasuredStep::of).collect();
        let date = date.to_string();
        let measured = MeasuredSteps { date, widths: Widths::of(&steps), coverage: Vec::new(), steps };
        MeasuredSteps { coverage: measured.coverage(), ..measured }
    }
}

impl MeasuredStep {
    fn of(outcome: &Outcome) -> Option<MeasuredStep> {
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

fn json<T: Serialize>(value: T) -> String {
    serde_json::to_string(&value).unwrap_or_default()
}

fn thousandths(share: f64) -> f64 {
    (1e3 * share).round() / 1e3
}
