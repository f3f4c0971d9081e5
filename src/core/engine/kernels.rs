//! Kernels: how long one takes, and several in a row as one event.
//!
//! Where a kernel ends that nobody waits for and that gives nothing back, and the next one of its stream need not
//! wait, nothing happens but that the next one starts. Such a *row* has one event, at its end. The times of its
//! ops are known when it starts; only other compute units taken beside it change them: the row then ends with the
//! kernel under way ([`Play::break_row`]), and the kernels behind are told anew when they run.
//!
//! Rows are made where device memory is not shared and the observer asks for no order. Of a row that is broken the
//! rest was told in vain: beside units taken, which often change, rows are not long, and there are none where times
//! are drawn, which costs as much as an event.

use super::Listener;
use super::code::{Code, NONE};
use super::event_loop::{Play, STREAM};
use super::interference::{RunningKernel, beside};
use super::ranks::{RUNNING, RankState};
use crate::units::Time;

/// Most kernels behind the first of a row, and of one beside units taken.
const FURTHER: usize = u16::MAX as usize;
const FURTHER_BESIDE_UNITS: usize = 15;

impl<O: Listener + ?Sized> Play<'_, O> {
    /// Starts the kernel at the head of stream `s`, and with it the row that follows.
    #[inline]
    pub fn start_kernel(&mut self, s: u32, r: u32, code: &Code) {
        let rank = &self.ranks[r as usize];
        let (time, taken) = (rank.factors.time_of(&self.world.jitter, code), rank.taken);
        let (mut ends, mut start, mut further) =
            (self.now + Time(beside(taken, code.slowdown, time)), self.now, 0);
        let steady = taken == 0 || !rank.factors.vary;
        if code.runs_on && !self.in_order && steady && !self.device_memory.is_on() {
            (ends, start, further) = self.tell_row(s, r, ends);
        }
        if self.pace.is_on() {
            *self.kernel_mut(s) = RunningKernel::starts(code.slowdown, taken, self.now, time).until(ends);
        }
        let seq = self.schedule(ends, STREAM, s);
        let stream = &mut self.streams[s as usize];
        (stream.event, stream.start, stream.further, stream.blocked) = (seq, start, further, RUNNING);
        if self.device_memory.is_on() {
            self.kernel_uses_memory(s, code);
        }
    }

    /// Tells of the kernels of a row but the last, whose first `ends`; returns the end of all, when the last starts,
    /// and how many follow the first.
    fn tell_row(&mut self, s: u32, r: u32, mut ends: Time) -> (Time, Time, u16) {
        let head = self.streams[s as usize].cursor as usize;
        let rank = &self.ranks[r as usize];
        let (mut at, mut start) = (head, self.now);
        let most = head + if rank.taken > 0 { FURTHER_BESIDE_UNITS } else { FURTHER };
        while self.code[at].runs_on && at < most {
            let next = &self.code[at + 1];
            if next.wait != NONE && self.unfinished_wait(rank, next).is_some() {
                break;
            }
            self.observer.finished(r, self.code[at].op, start, ends);
            (at, start, ends) = (at + 1, ends, ends + self.span_of(rank, rank.taken, next));
        }
        (ends, start, (at - head) as u16)
    }

    /// How long a kernel takes beside units taken.
    #[inline]
    fn span_of(&self, rank: &RankState, taken: u32, code: &Code) -> Time {
        Time(beside(taken, code.slowdown, rank.factors.time_of(&self.world.jitter, code)))
    }

    /// The row of stream `s`, if one runs, ends with the kernel under way.
    pub fn break_row(&mut self, s: u32) {
        let stream = self.streams[s as usize];
        if stream.further == 0 {
            return;
        }
        let rank = &self.ranks[stream.rank as usize];
        let taken = if self.pace.is_on() { self.kernel(s).at_start } else { 0 };
        let (mut cursor, mut start) = (stream.cursor, self.row_began(s, taken));
        let end_of_row = cursor + u32::from(stream.further);
        let mut ends = start + self.span_of(rank, taken, &self.code[cursor as usize]);
        while cursor < end_of_row && ends <= self.now {
            (cursor, start) = (cursor + 1, ends);
            ends = start + self.span_of(rank, taken, &self.code[cursor as usize]);
        }
        let code = self.code[cursor as usize];
        if self.pace.is_on() {
            let time = rank.factors.time_of(&self.world.jitter, &code);
            *self.kernel_mut(s) = RunningKernel::starts(code.slowdown, taken, start, time);
        }
        self.events += u64::from(cursor - stream.cursor);
        let stream = &mut self.streams[s as usize];
        (stream.cursor, stream.start, stream.further) = (cursor, start, 0);
        if cursor < end_of_row {
            self.kernel_due(s, ends);
        }
    }

    /// When the row of stream `s` began.
    fn row_began(&self, s: u32, taken: u32) -> Time {
        if self.pace.is_on() {
            return self.kernel(s).since;
        }
        let stream = &self.streams[s as usize];
        let rank = &self.ranks[stream.rank as usize];
        let before_last = (stream.cursor..stream.cursor + u32::from(stream.further)).map(|at| at as usize);
        stream.start - before_last.map(|at| self.span_of(rank, taken, &self.code[at])).sum()
    }

    pub fn kernel_ended(&mut self, s: u32, seq: u64) {
        // A kernel that was made faster on its way has ended at an earlier event, one that was slowed down ends later.
        if self.streams[s as usize].event != seq || self.ends_later(s) {
            self.events -= 1;
            return;
        }
        if self.device_memory.is_on() {
            self.leave_memory(s);
        }
        if self.streams[s as usize].further > 0 {
            self.row_ended(s);
        }
        self.finish(s);
    }

    /// Leaves the last kernel of a row, which ends now, at the head of its stream.
    fn row_ended(&mut self, s: u32) {
        let stream = &mut self.streams[s as usize];
        let further = std::mem::take(&mut stream.further);
        stream.cursor += u32::from(further);
        self.events += u64::from(further);
    }

    /// True if the running kernel of stream `s` has been slowed down, so that its event came too early: it gets
    /// another.
    #[inline]
    fn ends_later(&mut self, s: u32) -> bool {
        let ends = if self.pace.is_on() { self.kernel(s).ends } else { self.now };
        let later = ends > self.now;
        if later {
            self.kernel_due(s, ends);
        }
        later
    }

    pub fn kernel_due(&mut self, s: u32, at: Time) {
        if self.pace.is_on() {
            self.kernel_mut(s).due = at;
        }
        let seq = self.schedule(at, STREAM, s);
        self.streams[s as usize].event = seq;
    }

    /// The running kernel of a stream; there only where pace matters.
    #[inline]
    pub fn kernel(&self, s: u32) -> &RunningKernel {
        &self.pace.kernels[self.place_of_kernel(s)]
    }

    #[inline]
    pub fn kernel_mut(&mut self, s: u32) -> &mut RunningKernel {
        let place = self.place_of_kernel(s);
        &mut self.pace.kernels[place]
    }

    #[inline]
    fn place_of_kernel(&self, s: u32) -> usize {
        let stream = &self.streams[s as usize];
        self.ranks[stream.rank as usize].kernel(stream.kernel)
    }
}
