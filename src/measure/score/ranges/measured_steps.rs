//! Measured steps with how far off each was simulated: the shipped file `workloads/score/measured-steps.json`.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::class_coverage::ClassCoverage;
use super::measured_step::MeasuredStep;
use super::widths::Widths;
use stepsim_spec::catalog;

/// The measured steps of a score.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeasuredSteps {
    /// When they were simulated.
    pub date: String,
    /// How much wider ranges are, by how near the nearest measured step is, than the steps around say.
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
}

fn json<T: Serialize>(value: T) -> String {
    serde_json::to_string(&value).unwrap_or_default()
}
