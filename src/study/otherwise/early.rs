//! Plays ahead of their turn: where candidates are played one after the other, each by what those before it came to,
//! further threads play what is asked for later in any case.

use std::collections::VecDeque;

use super::idea::Idea;
use super::step::BaseStep;
use stepsim_read::analysis::candidates::Candidate;
use stepsim_simulate::SimulationError;

/// Plays that other threads do beside one that is asked for: those that are asked for later, or nearly always are. No
/// question depends on them.
pub(super) struct EarlyPlays<'a> {
    step: &'a BaseStep<'a>,
    next: VecDeque<Idea>,
    done: Vec<(Idea, Option<Candidate>)>,
}

impl EarlyPlays<'_> {
    /// The `next` are played in their order, as threads are free.
    pub(super) fn of<'a>(step: &'a BaseStep<'a>, next: Vec<Idea>) -> EarlyPlays<'a> {
        EarlyPlays { step, next: next.into(), done: Vec::new() }
    }

    /// The candidate of an idea.
    pub(super) fn play(&mut self, idea: Idea) -> Result<Option<Candidate>, SimulationError> {
        Ok(self.all(&[idea])?.pop())
    }

    /// The candidates of ideas.
    pub(super) fn all(&mut self, ideas: &[Idea]) -> Result<Vec<Candidate>, SimulationError> {
        let is_done = |idea: &&Idea| self.done.iter().any(|(known, _)| known == *idea);
        let mut now: Vec<Idea> = ideas.iter().filter(|idea| !is_done(idea)).cloned().collect();
        self.next.retain(|next| !ideas.contains(next));
        if !now.is_empty() {
            let room = self.step.threads().saturating_sub(now.len()).min(self.next.len());
            now.extend(self.next.drain(..room));
            let played = self.step.each(&now)?;
            self.done.extend(now.into_iter().zip(played));
        }
        let played = |idea: &Idea| self.done.iter().find(|(known, _)| known == idea)?.1.clone();
        Ok(ideas.iter().filter_map(played).collect())
    }
}

/// The ideas that promise so much, by their promise.
pub(super) fn by_promise<'a>(ideas: impl Iterator<Item = &'a Idea>, least_s: f64) -> Vec<Idea> {
    let mut ideas: Vec<&Idea> = ideas.filter(|idea| idea.promise_s >= least_s).collect();
    ideas.sort_by(|a, b| b.promise_s.total_cmp(&a.promise_s));
    ideas.into_iter().cloned().collect()
}
