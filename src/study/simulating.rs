//! The differences of a search's simulated layouts from the closed form, and the cost of a choice without simulation.

use schemars::JsonSchema;
use serde::Serialize;

use super::objective::{Measures, Objective};

/// Closed form and simulation of the layouts that were simulated.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Simulating {
    /// The simulated step less the closed form's, in parts of the latter: least, mean and most.
    pub longer: [f64; 3],
    /// By how much the layout that is best in closed form is worse, simulated, than the best; 0: both choose the same.
    pub choice_costs: f64,
}

impl Simulating {
    /// Of these layouts, in closed form and simulated; `None` of none.
    pub fn of(both: &[[Measures; 2]], objective: Objective) -> Option<Simulating> {
        let scores = |which: usize| both.iter().map(move |both| both[which].score(objective));
        let by_form = scores(0).zip(scores(1)).min_by(|a, b| a.0.total_cmp(&b.0))?;
        let best = scores(1).fold(f64::INFINITY, f64::min);
        let longer: Vec<f64> = both.iter().map(|[form, found]| found.seconds / form.seconds - 1.0).collect();
        let mean = longer.iter().sum::<f64>() / longer.len() as f64;
        let [least, most] = [f64::min, f64::max].map(|of| longer.iter().copied().reduce(of).unwrap_or(mean));
        Some(Simulating { longer: [least, mean, most], choice_costs: by_form.1 / best - 1.0 })
    }

    /// In a sentence: whether the closed form alone would have done.
    pub fn sentence(&self) -> String {
        let [least, mean, most] = self.longer.map(|part| 100.0 * part);
        let choice = match 100.0 * self.choice_costs {
            costs if costs < 0.005 => "chooses the same".to_string(),
            costs => format!("chooses a layout that is {costs:.2} % worse"),
        };
        format!(
            "simulated steps are {least:+.1} to {most:+.1} % ({mean:+.1} on the mean) longer than the closed form, \
             which alone {choice}"
        )
    }
}
