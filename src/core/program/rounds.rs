//! A graph of flows in which stretches come again and again: what a collective in rounds is, without every round of it.

use std::ops::{Range, RangeInclusive};

use super::flow::Flow;
use super::span::Span;

/// Marks, among the parents of a flow, one that it only queues behind: the latency of the flow may run while the
/// other is on its way, but its bytes follow the other's. An unmarked parent must have ended before the latency
/// begins.
///
/// So a link carries one message after the other, each as soon as it is there, and pays its latency for all of them
/// at once.
pub const BEHIND: u32 = 1 << 31;

/// Flows with dependencies as in a graph, written once and played several times in a row where they repeat
/// themselves. Flows are numbered as they are played.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rounds {
    flows: Vec<Flow>,
    parents: Vec<Span>,
    parent_ids: Vec<u32>,
    repeats: Vec<Repeat>,
    /// Flows played beyond those written.
    again: u32,
}

/// Flows, the spans of what they wait for, and the numbers of that.
pub(super) type FlowRounds = (Vec<Flow>, Vec<Span>, Vec<u32>);

/// The `len` flows written before the flow `end` are played `times` times more.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Repeat {
    end: u32,
    len: u32,
    times: u32,
}

/// The flows that a flow waits for, by the numbers under which they are played.
#[derive(Clone, Copy, Debug)]
pub struct Waits<'a> {
    ids: &'a [u32],
    /// How many flows later than it is written the flow is played.
    later: u32,
}

impl<'a> Waits<'a> {
    /// Waits of a flow that is played once.
    pub(super) fn of(ids: &'a [u32]) -> Waits<'a> {
        Waits { ids, later: 0 }
    }
    /// The numbers, of what the flow waits for and of what it queues behind.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.marked().map(|id| id & !BEHIND)
    }
    /// The numbers; flows that it queues behind are marked ([`BEHIND`]).
    #[inline]
    pub fn marked(self) -> impl Iterator<Item = u32> + 'a {
        self.ids.iter().map(move |id| id + self.later)
    }
}

impl Rounds {
    /// Number of flows played.
    pub fn len(&self) -> u32 {
        self.flows.len() as u32 + self.again
    }
    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }
    /// Adds a flow that waits for flows added before it, or queues behind them ([`BEHIND`]); returns its number.
    pub fn flow(&mut self, flow: Flow, parents: &[u32]) -> u32 {
        let number = self.len();
        assert!(parents.iter().all(|p| *p & !BEHIND < number), "a flow follows those before it");
        self.parents.push(Span::append(&mut self.parent_ids, parents.iter().copied()));
        self.flows.push(flow);
        number
    }
    /// True if the last `len` flows wait for none before number `from`.
    pub fn last_wait_from(&self, len: u32, from: u32) -> bool {
        let ids = self.parents[self.flows.len() - len as usize].start as usize;
        self.parent_ids[ids..].iter().all(|p| *p & !BEHIND >= from)
    }
    /// Plays the last `len` flows `times` times more, each time waiting for the time before as the last does.
    pub fn repeat(&mut self, len: u32, times: u32) {
        if len > 0 && times > 0 {
            self.repeats.push(Repeat { end: self.flows.len() as u32, len, times });
            self.again += len * times;
        }
    }
    /// Flows, parents and their numbers, where nothing repeats itself.
    pub fn plain(self) -> Result<FlowRounds, Rounds> {
        if self.repeats.is_empty() { Ok((self.flows, self.parents, self.parent_ids)) } else { Err(self) }
    }
    /// Every round written out.
    pub fn flat(&self) -> Rounds {
        let (mut flat, mut ids) = (Rounds::default(), Vec::new());
        self.each(|flow, waits| {
            ids.clear();
            ids.extend(waits.marked());
            flat.flow(*flow, &ids);
        });
        flat
    }
    /// The flows that are written.
    pub(super) fn flows(&self) -> &[Flow] {
        &self.flows
    }
    /// The same, to be changed in all their rounds.
    pub(super) fn flows_mut(&mut self) -> &mut [Flow] {
        &mut self.flows
    }
    /// How often the `i`-th flow that is written is played.
    pub fn times(&self, i: u32) -> u32 {
        let repeats = self.repeats.iter().filter(|r| (r.end - r.len..r.end).contains(&i));
        1 + repeats.map(|r| r.times).sum::<u32>()
    }
    /// Stretches of written flows in the order in which they are played, each with the times that it is: 0 the first
    /// time, from 1 on again.
    pub fn stretches(&self) -> impl Iterator<Item = (Range<usize>, RangeInclusive<u32>)> {
        let ends = self.repeats.iter().map(|r| (r.end as usize, r.len as usize, r.times));
        let mut written = 0;
        ends.chain([(self.flows.len(), 0, 0)]).flat_map(move |(end, len, times)| {
            let first = std::mem::replace(&mut written, end)..end;
            [(first, 0..=0), (end - len..end, 1..=times)]
        })
    }
    /// A flow of a stretch, and its waits, when the stretch is played a number of times.
    #[inline]
    pub fn played(&self, i: usize, stretch: &Range<usize>, time: u32) -> (&Flow, Waits<'_>) {
        let later = time * stretch.len() as u32;
        (&self.flows[i], Waits { ids: &self.parent_ids[self.parents[i].range()], later })
    }
    /// Calls back with each flow as it is played, and what it waits for.
    pub(super) fn each<'a>(&'a self, mut call: impl FnMut(&'a Flow, Waits<'a>)) {
        for (stretch, times) in self.stretches() {
            for time in times {
                for i in stretch.clone() {
                    let (flow, waits) = self.played(i, &stretch, time);
                    call(flow, waits);
                }
            }
        }
    }
}
