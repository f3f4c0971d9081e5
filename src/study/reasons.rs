//! Why one layout is slower than another: where the step of a mean rank goes, side by side.

use schemars::JsonSchema;
use serde::Serialize;

use stepsim_read::analysis::waterfall::BarsReport;

/// The time or memory that a layout spends beyond the best one's (or saves).
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Reason {
    /// Group of the waterfall, and what of it.
    pub what: String,
    /// Seconds of a mean rank more than the best layout; negative: less.
    pub more_s: f64,
}

/// Differences of `slower` from `best`, largest first. With what the model itself needs (`model`, where devices or
/// tokens differ) they sum to the difference of the steps.
pub fn reasons(best: &BarsReport, best_s: f64, slower: &BarsReport, slower_s: f64) -> Vec<Reason> {
    let mut named: Vec<(String, f64)> = vec![("model".into(), slower.mfu * slower_s - best.mfu * best_s)];
    for (bars, sign) in [(best, -1.0), (slower, 1.0)] {
        for bar in &bars.bars {
            let name = match bar.what.as_str() {
                "" => bar.group.clone(),
                what => format!("{}: {what}", bar.group),
            };
            match named.iter_mut().find(|(known, _)| *known == name) {
                Some((_, seconds)) => *seconds += sign * bar.time_s,
                None => named.push((name, sign * bar.time_s)),
            }
        }
    }
    let mut reasons: Vec<Reason> = named.into_iter().map(|(what, more_s)| Reason { what, more_s }).collect();
    reasons.sort_by(|a, b| b.more_s.abs().total_cmp(&a.more_s.abs()));
    reasons
}
