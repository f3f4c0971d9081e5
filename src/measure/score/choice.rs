//! Would the layout that is predicted fastest have been a good one?

use std::collections::BTreeMap;

use serde::Serialize;

use super::outcome::RowOutcome;
use super::ranges::{LayoutKind, three_unlike};
use super::statistics::kendall;

/// Fewest layouts to choose from.
const FEWEST: usize = 5;

/// How well the fastest layout is chosen, over blocks of rows of one model, machine and batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ChoiceScore {
    /// Blocks of five or more layouts.
    pub blocks: usize,
    /// Their rows.
    pub rows: usize,
    /// Measured speed of the chosen layout over the fastest one's, mean of all blocks.
    pub mean_speed: f64,
    /// The same of the worst block.
    pub least_speed: f64,
    /// The same of the fastest of the three unlike layouts that are advised, mean of all blocks.
    pub mean_speed_of_three: f64,
    /// The same of the worst block.
    pub least_speed_of_three: f64,
    /// Kendall's τ over pairs of rows of a block.
    pub kendall_tau: Option<f64>,
}

impl ChoiceScore {
    /// The choice among outcomes that fit, slow ones too; `None` without a block.
    pub fn of(outcomes: &[&RowOutcome]) -> Option<ChoiceScore> {
        let mut blocks: BTreeMap<&str, Vec<MeasuredLayout>> = BTreeMap::new();
        for outcome in outcomes.iter().filter(|o| o.fits()) {
            let Some(case) = &outcome.case else { continue };
            if let Some(layout) = MeasuredLayout::of(outcome) {
                blocks.entry(&case.choice).or_default().push(layout);
            }
        }
        blocks.retain(|_, rows| rows.len() >= FEWEST);
        let speeds: Vec<[f64; 2]> = blocks.values().map(|rows| speeds(rows)).collect();
        let mean = |i: usize| speeds.iter().map(|speed| speed[i]).sum::<f64>() / speeds.len() as f64;
        let least = |i: usize| speeds.iter().map(|speed| speed[i]).fold(f64::INFINITY, f64::min);
        let pairs = blocks
            .iter()
            .flat_map(|(block, rows)| rows.iter().map(move |row| (*block, row.measured_s, row.predicted_s)));
        (!speeds.is_empty()).then(|| ChoiceScore {
            blocks: speeds.len(),
            rows: blocks.values().map(Vec::len).sum(),
            mean_speed: mean(0),
            least_speed: least(0),
            mean_speed_of_three: mean(1),
            least_speed_of_three: least(1),
            kendall_tau: kendall(pairs),
        })
    }
}

/// A measured layout among which one is chosen.
#[derive(Clone, Copy, Debug)]
pub struct MeasuredLayout {
    /// Layouts of one kind are one choice.
    pub kind: LayoutKind,
    /// Seconds of its step, measured.
    pub measured_s: f64,
    /// Seconds of its step, predicted.
    pub predicted_s: f64,
}

impl MeasuredLayout {
    fn of(outcome: &RowOutcome) -> Option<MeasuredLayout> {
        Some(MeasuredLayout {
            kind: outcome.layout?,
            measured_s: outcome.case.as_ref()?.measured_s,
            predicted_s: outcome.predicted_s?,
        })
    }
}

/// Measured speed of the chosen layout over the fastest one's, and the same of the best of three unlike ones.
pub fn speeds(rows: &[MeasuredLayout]) -> [f64; 2] {
    let mut order: Vec<&MeasuredLayout> = rows.iter().collect();
    order.sort_by(|a, b| a.predicted_s.total_cmp(&b.predicted_s));
    let three = three_unlike(&order.iter().map(|row| row.kind).collect::<Vec<LayoutKind>>());
    let fastest = |of: &[usize]| of.iter().map(|i| order[*i].measured_s).fold(f64::INFINITY, f64::min);
    let all = rows.iter().map(|row| row.measured_s).fold(f64::INFINITY, f64::min);
    [&three[..1], &three[..]].map(|of| all / fastest(of))
}
