//! Would the layout that is predicted fastest have been a good one?

use std::collections::BTreeMap;

use serde::Serialize;

use super::outcome::Outcome;
use super::statistics::kendall;

/// Fewest layouts to choose from.
const FEWEST: usize = 5;

/// How well the fastest layout is chosen, over blocks of rows of one model, machine and batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Choice {
    /// Blocks of five or more layouts.
    pub blocks: usize,
    /// Their rows.
    pub rows: usize,
    /// Measured speed of the layout predicted fastest over that of the fastest measured, mean of all blocks.
    pub mean_speed: f64,
    /// The same of the worst block.
    pub least_speed: f64,
    /// Kendall's τ over pairs of rows of a block.
    pub kendall_tau: Option<f64>,
}

impl Choice {
    /// The choice among outcomes that fit, slow ones too; `None` without a block.
    pub fn of(outcomes: &[&Outcome]) -> Option<Choice> {
        let mut blocks: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
        for outcome in outcomes.iter().filter(|o| o.fits()) {
            if let (Some(case), Some(predicted)) = (&outcome.case, outcome.predicted_s) {
                blocks.entry(&case.choice).or_default().push((case.measured_s, predicted));
            }
        }
        blocks.retain(|_, rows| rows.len() >= FEWEST);
        let speeds: Vec<f64> = blocks.values().map(|rows| speed(rows)).collect();
        let pairs = blocks.iter().flat_map(|(block, rows)| rows.iter().map(move |(m, p)| (*block, *m, *p)));
        (!speeds.is_empty()).then(|| Choice {
            blocks: speeds.len(),
            rows: blocks.values().map(Vec::len).sum(),
            mean_speed: speeds.iter().sum::<f64>() / speeds.len() as f64,
            least_speed: speeds.iter().copied().fold(f64::INFINITY, f64::min),
            kendall_tau: kendall(pairs),
        })
    }
}

/// Measured speed of the row predicted fastest over that of the fastest.
fn speed(rows: &[(f64, f64)]) -> f64 {
    let chosen = rows.iter().min_by(|a, b| a.1.total_cmp(&b.1)).map_or(f64::INFINITY, |row| row.0);
    rows.iter().map(|row| row.0).fold(f64::INFINITY, f64::min) / chosen
}

#[cfg(test)]
mod tests {
    use super::speed;

    #[test]
    fn the_chosen_layout_is_held_to_the_fastest() {
        assert_eq!(speed(&[(2.0, 1.0), (1.0, 3.0), (4.0, 2.0)]), 0.5);
        assert_eq!(speed(&[(1.0, 1.0), (2.0, 3.0)]), 1.0);
    }
}
