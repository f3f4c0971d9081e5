//! The work of a communication op once it starts.

use std::borrow::Cow;

use super::flow::Flow;
use super::rounds::{Rounds, Waits};
use super::span::Span;
use crate::units::Time;

/// How a transfer plays out on communicators of one profile.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// A fixed time; no resource is used (fidelity `formula`).
    Fixed(Time),
    /// Phases one after another, each over one path (fidelity `fluid`).
    Phases(Vec<Flow>),
    /// Flows with dependencies (fidelity `steps`): flow `i` starts when all flows in `parents[i]` have ended; its
    /// bytes move when those marked [`BEHIND`](super::BEHIND) have ended, too. Parents come before their children in
    /// the list.
    Graph {
        /// The flows.
        flows: Vec<Flow>,
        /// For each flow, a span of `parent_ids`.
        parents: Vec<Span>,
        /// Indices into `flows`, marked or not.
        parent_ids: Vec<u32>,
    },
    /// A graph in which stretches of flows come again and again. It is made [flat](Action::flat) before it is played.
    Rounds(Rounds),
}

impl Action {
    /// True for a graph of flows, written out or in rounds.
    pub(crate) fn is_graph(&self) -> bool {
        matches!(self, Action::Graph { .. } | Action::Rounds(_))
    }
    /// Its flows, in order; a fixed time has none, and of rounds each is written once.
    pub fn flows(&self) -> &[Flow] {
        match self {
            Action::Fixed(_) => &[],
            Action::Phases(flows) | Action::Graph { flows, .. } => flows,
            Action::Rounds(rounds) => rounds.flows(),
        }
    }
    /// The same, to be changed.
    pub(super) fn flows_mut(&mut self) -> &mut [Flow] {
        match self {
            Action::Fixed(_) => &mut [],
            Action::Phases(flows) | Action::Graph { flows, .. } => flows,
            Action::Rounds(rounds) => rounds.flows_mut(),
        }
    }
    /// The same, each with how often it is played.
    pub fn counted(&self) -> impl Iterator<Item = (&Flow, u32)> {
        (0..).zip(self.flows()).map(|(i, flow)| match self {
            Action::Rounds(rounds) => (flow, rounds.times(i)),
            _ => (flow, 1),
        })
    }
    /// Number of flows played.
    pub fn count(&self) -> usize {
        match self {
            Action::Rounds(rounds) => rounds.len() as usize,
            _ => self.flows().len(),
        }
    }
    /// Calls back with each flow as it is played, and the numbers of the flows that it waits for.
    pub fn each(&self, mut call: impl FnMut(&Flow, Waits<'_>)) {
        match self {
            Action::Fixed(_) => {}
            Action::Phases(flows) => {
                (0u32..).zip(flows).for_each(|(i, flow)| call(flow, Waits::of(i.checked_sub(1).as_slice())));
            }
            Action::Graph { flows, parents, parent_ids } => {
                let waits = parents.iter().map(|span| Waits::of(&parent_ids[span.range()]));
                flows.iter().zip(waits).for_each(|(flow, waits)| call(flow, waits));
            }
            Action::Rounds(rounds) => rounds.each(call),
        }
    }
    /// With every round written out.
    pub fn flat(&self) -> Cow<'_, Action> {
        match self {
            Action::Rounds(rounds) => Cow::Owned(rounds.flat().into()),
            _ => Cow::Borrowed(self),
        }
    }
}

impl From<Rounds> for Action {
    /// A plain graph where nothing repeats itself.
    fn from(rounds: Rounds) -> Action {
        match rounds.plain() {
            Ok((flows, parents, parent_ids)) => Action::Graph { flows, parents, parent_ids },
            Err(rounds) => Action::Rounds(rounds),
        }
    }
}
