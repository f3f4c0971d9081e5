//! How the answer is made of a report.

use super::{Answer, words};
use crate::analysis::candidates::CandidateKind;
use crate::analysis::report::Report;

/// A candidate that costs less than this part of the step has no sentence.
const TOLD: f64 = 0.005;

impl Report {
    /// The report with its answer: what its step and its candidates say, beside the range and the doubts that it has.
    pub fn answered(mut self) -> Report {
        let r = &self;
        let told = || r.candidates.iter().filter(|c| c.cost_s() >= TOLD * r.step_time_s);
        let is_amiss = |kind| matches!(kind, CandidateKind::Fault | CandidateKind::Uneven);
        let heal = told().find(|c| is_amiss(c.kind));
        let heal = heal.or_else(|| told().find(|c| c.kind == CandidateKind::Limit)).cloned();
        let is_asked = r.answer.not_asked.is_none();
        let set = told().find(|c| c.kind == CandidateKind::Choice).filter(|_| is_asked).cloned();
        let hbm = r.memory.get("hbm");
        let answer = Answer {
            step_time_s: r.step_time_s,
            mfu: r.mfu,
            set,
            heal,
            memory_peak_bytes: hbm.map(|hbm| hbm.peak_bytes),
            memory_capacity_bytes: hbm.map(|hbm| hbm.capacity_bytes),
            cost: r.cost.clone(),
            ..r.answer.clone()
        };
        self.answer = Answer { hangs_on: words::sentence(r, &answer), ..answer };
        self.hangs_on.clone_from(&self.answer.hangs_on);
        self
    }
}
