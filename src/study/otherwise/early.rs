//! Plays ahead of their turn: where candidates are played one after the other, each by what those before it came to,
//! further threads play what is asked for later in any case.

use std::collections::VecDeque;

use super::idea::Idea;
use super::step::{BaseStep, Depth, TABLE};
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
    pub(super) fn of<'a>(step: &'a BaseStep<'a>) -> EarlyPlays<'a> {
        EarlyPlays { step, next: VecDeque::new(), done: Vec::new() }
    }

    /// For a table those that promise so much are played in the order of their promise, as threads are free. The answer
    /// alone plays few: one at a time, for the memory that each takes.
    pub(super) fn expect(&mut self, ideas: &mut dyn Iterator<Item = &Idea>, least_s: f64) {
        let is_table = self.step.depth == Depth::Tables;
        let mut next: Vec<&Idea> = ideas.filter(|idea| is_table && idea.promise_s >= least_s).collect();
        next.sort_by(|a, b| b.promise_s.total_cmp(&a.promise_s));
        next.truncate(TABLE);
        next.retain(|idea| !self.done.iter().any(|(known, _)| known == *idea));
        self.next = next.into_iter().cloned().collect();
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
