//! Streams that run ahead: kernels whose ends are known once they need not wait any more.
//!
//! Nothing changes the time of a kernel on its way that minds no units taken beside it, moves nothing in the memory
//! of its device and takes and gives back none of it. Where all kernels of a stream are of this kind, as the launches
//! of a host are, each is *placed* as soon as what it waits for has ended: behind the one before it, however far off
//! that is. No event marks its end. A stream that has to wait for it has one ([`WAKE`]); one that comes later goes on
//! at once. A host far ahead of its device costs a sum.
//!
//! A state ([`super::State`]) is told as if each kernel had begun and ended in its time: what is placed beyond now
//! follows from that. Observers that ask for order have no such streams.

use std::collections::VecDeque;

use super::Listener;
use super::code::{Code, END, NOBODY, NONE, ProgramCode};
use super::event_loop::{Play, WAKE};
use super::ranks::{FINISHED, RUNNING, RankState, StreamState};
use crate::units::Time;

/// The state of a stream that runs ahead.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Ends of the kernels placed last; others have seen all before them.
    ends: VecDeque<Time>,
    /// The place in the code of the first of these.
    first: u32,
    /// The end of the last one placed.
    last: Time,
    /// Other streams see ends so much later.
    latency: Time,
}

impl Ahead {
    /// Lists the streams that run ahead; each stream state gets the number of its entry as its event.
    pub fn streams(compiled: &[ProgramCode], ranks: &[RankState], streams: &mut [StreamState]) -> Vec<Ahead> {
        let mut list = Vec::new();
        for rank in ranks {
            let ProgramCode { program, ahead, .. } = &compiled[rank.program as usize];
            let own = rank.all_streams().zip(&program.streams).zip(ahead);
            for ((s, stream), _) in own.filter(|(_, ahead)| **ahead) {
                let state = &mut streams[s as usize];
                state.event = list.len() as u64;
                let (ends, first, latency) = (VecDeque::new(), state.cursor, stream.latency);
                list.push(Ahead { ends, first, last: Time::ZERO, latency });
            }
        }
        list
    }

    /// Places the next kernel, which need not wait from `now` on; returns when it starts and when it ends.
    #[inline]
    fn place(&mut self, now: Time, time: Time) -> (Time, Time) {
        while self.ends.front().is_some_and(|end| *end + self.latency < now) {
            self.ends.pop_front();
            self.first += 1;
        }
        let start = self.last.max(now);
        self.last = start + time;
        self.ends.push_back(self.last);
        (start, self.last)
    }

    /// When other streams see the end of the kernel at a place in the code, if that is not long past.
    #[inline]
    pub fn sees(&self, place: u32) -> Option<Time> {
        let end = self.ends.get(place.checked_sub(self.first)? as usize)?;
        Some(*end + self.latency)
    }

    /// The place of the first kernel that ends at a moment not long past.
    pub fn ends_at(&self, moment: Time) -> Option<u32> {
        let number = self.ends.iter().position(|end| *end == moment)?;
        Some(self.first + number as u32)
    }

    /// The place of the first kernel that has not ended, of those placed or behind them.
    pub fn head(&self, now: Time) -> u32 {
        self.first + self.ends.partition_point(|end| *end <= now) as u32
    }

    /// Its state relative to now: how long the kernel under way goes on, and how soon others see the kernels that have
    /// ended.
    pub fn state(&self, now: Time, out: &mut Vec<u64>) {
        let ended = self.ends.partition_point(|end| *end <= now);
        let under_way = self.ends.get(ended).map(|end| (*end - now).0);
        let unseen = self.ends.range(..ended).map(|end| *end + self.latency).filter(|seen| *seen > now);
        let before = out.len();
        out.extend(unseen.map(|seen| (seen - now).0));
        out.extend([(out.len() - before) as u64, under_way.unwrap_or(0)]);
    }

    /// The end of the last one placed.
    pub fn last(&self) -> Time {
        self.last
    }
}

impl ProgramCode<'_> {
    /// Marks streams that run ahead, and their code.
    pub fn mark_ahead(&mut self, code: &mut [Code]) {
        self.ahead = (0..self.streams()).map(|stream| self.runs_ahead(stream, code)).collect();
        for (stream, _) in self.ahead.iter().enumerate().filter(|(_, ahead)| **ahead) {
            let stretch = self.first[stream] as usize..self.first[stream + 1] as usize;
            code[stretch].iter_mut().for_each(|of_op| (of_op.ahead, of_op.late) = (true, true));
        }
    }

    /// True if a stream is one of launches, whose ends others see late, and all its ops are kernels whose times nothing
    /// changes. Others are cheaper as rows.
    fn runs_ahead(&self, stream: usize, code: &[Code]) -> bool {
        if self.program.streams[stream].latency == Time::ZERO {
            return false;
        }
        let ops = &code[self.first[stream] as usize..self.end(stream) as usize];
        let moves = |of_op: &Code| self.program.ops[of_op.op as usize].memory_rate > 0.0;
        let is_steady = |of_op: &Code| {
            of_op.is_kernel() && of_op.slowdown == 0 && !of_op.allocates && !of_op.frees && !moves(of_op)
        };
        !ops.is_empty() && ops.iter().all(is_steady)
    }
}

impl<O: Listener + ?Sized> Play<'_, O> {
    /// The entry of stream `s`, which runs ahead.
    #[inline]
    pub fn ahead_of(&self, s: u32) -> &Ahead {
        &self.ahead[self.streams[s as usize].event as usize]
    }

    /// True if stream `s` runs ahead.
    #[inline]
    pub fn runs_ahead(&self, s: u32) -> bool {
        self.code[self.streams[s as usize].cursor as usize].ahead
    }

    /// Places all kernels at the head of stream `s` that wait for nothing any more.
    #[inline(never)]
    pub fn run_ahead(&mut self, s: u32) {
        let StreamState { rank: r, event, .. } = self.streams[s as usize];
        let rank = self.ranks[r as usize];
        loop {
            let place = self.streams[s as usize].cursor;
            let code = self.code[place as usize];
            if code.slot == END {
                return self.all_placed(s);
            }
            if code.wait != NONE
                && let Some(wait) = self.unfinished_wait(&rank, &code)
            {
                return self.block(s, wait);
            }
            if O::CAUSES && self.ahead[event as usize].last < self.now {
                self.note_wait(r, &code);
            }
            let time = Time(rank.factors.time_of(&self.world.jitter, &code));
            let ahead = &mut self.ahead[event as usize];
            let (latency, (start, end)) = (ahead.latency, ahead.place(self.now, time));
            self.streams[s as usize].cursor += 1;
            self.observer.finished(r, code.op, start, end);
            self.events += 1;
            if code.waiter != NOBODY {
                self.events += u64::from(latency > Time::ZERO);
                self.foretell(&rank, code.waiter, place, end + latency);
            }
        }
    }

    /// Wakes the streams of a rank that wait for the op at a place in the code when they see its end.
    fn foretell(&mut self, rank: &RankState, waiter: u16, place: u32, seen: Time) {
        for stream in self.compiled[rank.program as usize].waiting(&waiter) {
            let s = rank.stream(*stream);
            if self.streams[s as usize].blocked == place {
                self.schedule(seen, WAKE, s);
            }
        }
    }

    /// Stream `s` has placed all; it is over when the last has ended.
    fn all_placed(&mut self, s: u32) {
        let last = self.ahead_of(s).last;
        if last > self.now {
            self.streams[s as usize].blocked = RUNNING;
            self.schedule(last, WAKE, s);
        } else {
            self.streams[s as usize].blocked = FINISHED;
            self.unfinished -= 1;
        }
    }

    /// Stream `s` waits for the op at a place in the code; if its end is known, it goes on then.
    #[inline]
    pub fn block(&mut self, s: u32, wait: u32) {
        self.streams[s as usize].blocked = wait;
        if self.code[wait as usize].ahead {
            self.wake_when_seen(s, wait);
        }
    }

    /// Stream `s` waits for an op of a stream that runs ahead: if its end is known, it goes on then.
    fn wake_when_seen(&mut self, s: u32, wait: u32) {
        let rank = &self.ranks[self.streams[s as usize].rank as usize];
        let op = self.code[wait as usize].op;
        let stream = self.compiled[rank.program as usize].program.ops[op as usize].stream;
        if let Some(seen) = self.ahead_of(rank.stream(stream)).sees(wait) {
            self.schedule(seen, WAKE, s);
        }
    }

    /// True if other streams have seen the end of the op at a place in the code of stream `s`, which has placed it.
    #[inline]
    pub fn is_past(&self, s: u32, place: u32) -> bool {
        self.ahead_of(s).sees(place).is_none_or(|seen| seen <= self.now)
    }
}
