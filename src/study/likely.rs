//! The time that a step likely takes, in words and numbers.

/// The time that a step likely takes.
#[derive(Clone, Debug, Default)]
pub struct LikelyTime {
    /// The estimate and its range in words, or why no range is known.
    pub words: String,
    /// Seconds of the estimate; none where nothing like the step was measured.
    pub estimate_s: Option<f64>,
    /// Seconds between which four in five steps like it lie.
    pub range_s: Option<[f64; 2]>,
}
