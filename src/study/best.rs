//! The scores of what was simulated.

/// The best scores so far, as many as are ranked, best first.
pub(super) struct BestScores {
    scores: Vec<f64>,
    ranked: usize,
}

impl BestScores {
    /// None so far; `ranked` of them will be ranked.
    pub fn new(ranked: usize) -> BestScores {
        BestScores { scores: Vec::new(), ranked: ranked.max(1) }
    }
    /// One more.
    pub fn add(&mut self, score: f64) {
        let place = self.scores.partition_point(|known| *known <= score);
        self.scores.insert(place, score);
        self.scores.truncate(self.ranked);
    }
    /// The best; infinite where there is none.
    pub fn best(&self) -> f64 {
        self.scores.first().copied().unwrap_or(f64::INFINITY)
    }
    /// The last value of the ranking: worse layouts are not ranked.
    pub fn last(&self) -> f64 {
        self.scores.get(self.ranked - 1).copied().unwrap_or(f64::INFINITY)
    }
}
