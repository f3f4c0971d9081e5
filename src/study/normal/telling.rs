//! The measurement that tells two causes apart, played with each.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::{CausePlay, Experiment, scaled};
use super::player::StepPlayer;

/// Two steps differ for who measures them by more than this, on a scale of logarithms.
const APART: f64 = 0.08;

/// A cause that reaches the number.
pub(super) struct Suspect {
    pub(super) class: String,
    pub(super) what: String,
    pub(super) size: Option<f64>,
    pub(super) seconds: f64,
    pub(super) weight: f64,
    /// None where it is the number that means something else.
    pub(super) played: Option<CausePlay>,
    pub(super) look: String,
}

/// The measurement that tells the first two causes apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Telling {
    /// The measurement to make.
    pub what: String,
    /// Settings of it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<String>,
    /// Seconds of a step that it takes with the first cause and with the second, played; none where it shows the
    /// first itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<[f64; 2]>,
}

/// The experiment in which two differ most, or else what shows the first. Measured steps are `longer` times
/// as long as played ones.
pub(super) fn of(
    player: &StepPlayer<'_>,
    experiments: &[Experiment],
    [first, second]: [Option<&Suspect>; 2],
    longer: f64,
) -> Option<Telling> {
    let first = first?;
    let look = Telling { what: first.look.clone(), ..Telling::default() };
    let Some([Some(a), Some(b)]) = second.map(|second| [&first.played, &second.played]) else {
        return Some(look);
    };
    let tried = experiments.iter().filter_map(|experiment| {
        let sets = scaled(&experiment.scale, player.inputs)?;
        let seconds = [player.seconds(a, &sets)?, player.seconds(b, &sets)?];
        let apart = (seconds[0] / seconds[1]).ln().abs();
        let seconds = Some(seconds.map(|s| s * longer));
        Some((apart, Telling { what: experiment.what.clone(), sets, seconds }))
    });
    let best = tried.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(apart, _)| *apart > APART);
    Some(best.map_or(look, |(_, telling)| telling))
}
