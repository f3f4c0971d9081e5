//! When simulating is worth it.

use super::{Comparison, Difference};

/// Steps nearer than this are one by the closed form: its own error on regular steps is below.
const SAME: f64 = 0.01;

impl Comparison {
    /// The effects for which a simulation tells more than the closed form: the two largest differences.
    pub fn worth_simulating(&self) -> String {
        let percent = 100.0 * self.sum_s / self.closed_form_s;
        let sum = format!("the simulated step differs from the closed form by {percent:+.2} %");
        if percent.abs() < 100.0 * SAME {
            let choice = format!(
                "the closed form is enough, but for a choice among steps nearer than {:.0} %",
                100.0 * SAME
            );
            return format!("{sum}: {choice}");
        }
        let mut all: Vec<&Difference> = self.effects.iter().chain(&self.own_error.terms).collect();
        all.sort_by(|a, b| b.percent.abs().total_cmp(&a.percent.abs()));
        let large = all.iter().take(2).filter(|d| d.percent.abs() >= 10.0 * SAME);
        let named: Vec<String> = large.map(|d| format!("{} {:+.2} %", d.name, d.percent)).collect();
        let named = if named.is_empty() { "several things together".to_string() } else { named.join(", ") };
        format!("{sum} ({named}): simulate steps like it")
    }
}
