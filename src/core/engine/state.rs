//! The state of a run relative to now: all of the past that decides what comes.
//!
//! Two moments of a run with equal states go on alike, one later than the other, for as long as the ops ahead of both
//! are alike: the loop only ever adds times to now and takes now from them. `simulate::jump` builds on that.
//!
//! Not in it are the numbers of events, flows and transits, and the order in which members arrived or flows came to a
//! resource: they order what happens within one instant, and that order decides nothing (`fold`, whose exactness
//! rests on the same).

use super::Listener;
use super::code::NONE;
use super::comms::CommStates;
use super::event_loop::{COMM, FLOW, LATENCY, Play, SEEN, STREAM, WAKE};
use super::ranks::{ARRIVED, FINISHED, NO_ROOM, NOT_BEGUN, RUNNING};
use crate::program::{Action, World};
use crate::units::Time;

/// The state at the end of an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// When.
    pub at: Time,
    /// By stream, rank after rank: how many of its ops have ended.
    pub heads: Vec<u32>,
    /// All else, relative to `at` and to the heads.
    pub rest: Vec<u64>,
    /// By rank: what sharing device memory has added to its kernels so far; empty where none shares it. It decides
    /// nothing.
    pub slowed_by_memory: Vec<Time>,
}

impl<O: Listener + ?Sized> Play<'_, O> {
    /// Tells the observer the state now, nothing of this instant being left to do: each kernel by itself, those in a
    /// row too.
    pub fn tell_state(&mut self) {
        for s in 0..self.streams.len() as u32 {
            self.break_row(s);
        }
        let state = self.state();
        self.observer.state(state);
    }

    fn state(&self) -> State {
        let mut state = State {
            at: self.now,
            heads: Vec::with_capacity(self.streams.len()),
            rest: Vec::new(),
            slowed_by_memory: self.device_memory.added.clone(),
        };
        for rank in &self.ranks {
            let first = &self.compiled[rank.program as usize].first;
            for (s, begin) in rank.all_streams().zip(first) {
                let ahead = self.runs_ahead(s).then(|| self.ahead_of(s).head(self.now));
                state.heads.push(ahead.unwrap_or(self.streams[s as usize].cursor) - begin);
                self.stream_state(s as usize, &mut state.rest);
            }
        }
        state.rest.extend(self.ranks.iter().map(|rank| u64::from(rank.taken)));
        self.events_state(&mut state.rest);
        self.comms.state(self.world, self.now, &mut state.rest);
        self.ledger.state(&mut state.rest);
        state
    }

    /// The state of the head of a stream: its work, or the op that it waits for.
    fn stream_state(&self, s: usize, out: &mut Vec<u64>) {
        let stream = &self.streams[s];
        if self.runs_ahead(s as u32) {
            let ahead = self.ahead_of(s as u32);
            ahead.state(self.now, out);
            if ahead.head(self.now) < stream.cursor {
                return;
            }
        }
        match stream.blocked {
            what @ (FINISHED | NOT_BEGUN | ARRIVED) => out.push(u64::from(what)),
            what @ (RUNNING | NO_ROOM) => out.extend([u64::from(what), (self.now - stream.start).0]),
            place => {
                let [head, awaited] = [stream.cursor, place].map(|place| self.code[place as usize].op);
                out.push(u64::from(head - awaited));
            }
        }
        if !self.runs_ahead(s as u32) && self.latency(s as u32) > Time::ZERO {
            out.push(u64::from(stream.cursor - self.seen[s]));
        }
        if stream.blocked == RUNNING && self.pace.is_on() {
            let kernel = self.kernel(s as u32);
            out.extend(kernel.state(self.now));
            if kernel.flow != NONE {
                out.extend(self.comms.sharing.state(kernel.flow, self.now));
            }
        }
    }

    /// Pending ends and their times: of flows, the communicator and the place in its action.
    fn events_state(&self, out: &mut Vec<u64>) {
        let mut events: Vec<[u64; 4]> = Vec::new();
        for (at, kind, index, number) in self.pending() {
            let after = (at - self.now).0;
            match kind {
                STREAM
                    if self.streams[index as usize].event != number
                        || self.streams[index as usize].blocked != RUNNING => {}
                STREAM => {
                    let ends = if self.pace.is_on() { self.kernel(index).ends } else { at };
                    events.push([u64::from(kind), u64::from(index), 0, (ends - self.now).0]);
                }
                FLOW if self.comms.transits[index as usize].event != number => {}
                COMM | SEEN | WAKE => events.push([u64::from(kind), u64::from(index), 0, after]),
                _ => {
                    let transit = &self.comms.transits[index as usize];
                    let kind = if kind == LATENCY { LATENCY } else { FLOW };
                    events.push([u64::from(kind), u64::from(transit.comm), u64::from(transit.node), after]);
                }
            }
        }
        events.sort_unstable();
        out.push(events.len() as u64);
        out.extend(events.iter().flatten());
    }
}

impl CommStates<'_> {
    /// Communicators that members have come to, and flows on their way.
    fn state(&self, world: &World, now: Time, out: &mut Vec<u64>) {
        for (c, comm) in self.states.iter().enumerate().filter(|(_, comm)| comm.arrived > 0) {
            out.extend([c as u64, u64::from(comm.arrived), u64::from(comm.transfer)]);
            let first = comm.first_arrival as usize;
            let mut arrived = self.arrivals[first..first + comm.arrived as usize].to_vec();
            arrived.sort_unstable();
            out.extend(arrived.into_iter().map(u64::from));
            if comm.arrived < comm.needed {
                continue;
            }
            out.extend([u64::from(comm.action), (now - comm.start).0]);
            match &world.actions[comm.action as usize] {
                Action::Graph { flows, .. } if !flows.is_empty() => {
                    let run = &self.runs[comm.stage as usize];
                    out.push(u64::from(run.left));
                    out.extend(run.pending.iter().chain(&run.before).map(|left| u64::from(*left)));
                }
                Action::Phases(_) if !comm.exclusive => out.push(u64::from(comm.stage)),
                _ => {}
            }
        }
        let mut free = vec![false; self.transits.len()];
        self.free_transits.iter().for_each(|transit| free[*transit as usize] = true);
        let mut transits: Vec<_> = (0..).zip(&self.transits).filter(|(i, _)| !free[*i as usize]).collect();
        transits.sort_unstable_by_key(|(_, transit)| (transit.comm, transit.node));
        for (i, transit) in transits {
            out.extend([u64::from(transit.comm), u64::from(transit.node), u64::from(transit.flow != NONE)]);
            if transit.flow != NONE {
                out.extend(self.sharing.state(transit.flow, now));
                let moved = self.moving.end(i).filter(|end| end.1 == transit.event);
                out.push(moved.map_or(u64::MAX, |(end, _)| (end - now).0));
            }
        }
    }
}
