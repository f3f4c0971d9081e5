//! The proof of a search: its decisions held against the simulation of every layout.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::candidates::LayoutCandidate;
use super::options::SearchOptions;
use super::outcome::PointOutcome;
use super::queue::CandidateQueue;
use super::rows::StudyError;
use super::simulations::{SearchSimulations, Simulate};
use stepsim_measure::score::kendall;

/// A search beside the truth.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Proof {
    /// Layouts that were simulated: all but those that are invalid or do not fit for certain.
    pub simulated: u64,
    /// Of these, how many have a result that counts.
    pub counted: u64,
    /// Layouts that the search simulates by itself.
    pub searched: u64,
    /// By how much of the best the search's best is worse.
    pub regret: f64,
    /// Rank correlation of closed form and simulation by what is best (Kendall's tau; 1: the same order).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kendall_tau: Option<f64>,
}

/// Simulates all candidates, and lets the search decide once more on what is known then.
pub(super) fn prove(
    line: &mut CandidateQueue<'_>,
    options: &SearchOptions,
    threads: usize,
    simulate: Simulate<'_>,
    tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
) -> Result<(SearchSimulations, Proof), StudyError> {
    line.all();
    let all = SearchSimulations::of_all(&line.candidates, options, threads, simulate, tell)?;
    let candidates = line.candidates.clone();
    let known: BTreeMap<&[String], &PointOutcome> =
        all.outcomes.iter().map(|(at, outcome)| (candidates[*at].sets.as_slice(), outcome)).collect();
    let recall = |candidate: &LayoutCandidate| known[candidate.sets.as_slice()].clone();
    let searched = SearchSimulations::over(line, options, 1, &recall, &mut |_| Ok(()))?;
    let score = |(at, outcome): &(usize, PointOutcome)| {
        let found = candidates[*at].form.simulated(outcome).filter(|found| options.in_time(*found))?;
        Some((candidates[*at].form.score(options.objective), found.score(options.objective)))
    };
    let counted: Vec<(f64, f64)> = all.outcomes.iter().filter_map(score).collect();
    let best =
        |scores: &mut dyn Iterator<Item = (f64, f64)>| scores.map(|(_, s)| s).fold(f64::INFINITY, f64::min);
    let truth = best(&mut counted.iter().copied());
    let found = best(&mut searched.outcomes.iter().filter_map(score));
    let proof = Proof {
        simulated: all.outcomes.len() as u64,
        counted: counted.len() as u64,
        searched: searched.outcomes.len() as u64,
        regret: if truth.is_finite() { found / truth - 1.0 } else { 0.0 },
        kendall_tau: kendall(counted.iter().map(|&(form, simulated)| ("", simulated, form))),
    };
    Ok((all, proof))
}
