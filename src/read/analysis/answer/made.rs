//! How the answer is made of a report.

use super::{Answer, words};
use crate::analysis::candidates::{Candidate, CandidateKind};
use crate::analysis::report::Report;

/// A candidate that costs less than this part of the step has no sentence.
const TOLD: f64 = 0.005;

impl Answer {
    /// The answer with its halves, out of candidates with the dearest first.
    pub fn of(mut self, candidates: &[Candidate]) -> Answer {
        let told = || candidates.iter().filter(|c| c.cost_s() >= TOLD * self.step_time_s);
        let is_amiss = |kind| matches!(kind, CandidateKind::Fault | CandidateKind::Uneven);
        let heal = told().find(|c| is_amiss(c.kind));
        let heal = heal.or_else(|| told().find(|c| c.kind == CandidateKind::Limit)).cloned();
        let is_asked = self.not_asked.is_none();
        let set = told().find(|c| c.kind == CandidateKind::Choice).filter(|_| is_asked).cloned();
        (self.set, self.heal) = (set, heal);
        self.hangs_on = self.halves_in_words().join(". ");
        self
    }
}

impl Report {
    /// The report with its answer: what its step and its candidates say, beside the range and the doubts that it has.
    pub fn answered(mut self) -> Report {
        let r = &self;
        let hbm = r.memory.get("hbm");
        let answer = Answer {
            step_time_s: r.step_time_s,
            mfu: r.mfu,
            memory_peak_bytes: hbm.map(|hbm| hbm.peak_bytes),
            memory_capacity_bytes: hbm.map(|hbm| hbm.capacity_bytes),
            cost: r.cost.clone(),
            ..r.answer.clone()
        }
        .of(&r.candidates);
        self.answer = Answer { hangs_on: words::sentence(r, &answer), ..answer };
        self.hangs_on.clone_from(&self.answer.hangs_on);
        self
    }
}
