//! Kernels: how long one takes, and several in a row as one event.
//!
//! Where a kernel ends that nobody waits for and that gives nothing back, and the next one of its stream need not wait, nothing
//! happens but that the next one starts. Such a *row* has one event, at its end. What is told of its ops is known when it
//! starts; only compute units that are taken beside it change that: the row then ends with the kernel under way
//! ([`Play::break_row`]), and what was told of the kernels behind that is told anew when they run.
//!
//! Rows are made where no unit is taken at their start, device memory is not shared, and the observer asks for no order.

use super::Observer;
use super::code::{Code, NONE};
use super::event_loop::{Play, STREAM};
use super::interference::Kernel;
use super::ranks::RUNNING;
use crate::core::units::Time;

impl<O: Observer> Play<'_, O> {
    /// Starts the kernel at the head of stream `s`, and with it the row that follows.
    #[inline]
    pub fn start_kernel(&mut self, s: u32, r: u32, code: Code) {
        let rank = &self.ranks[r as usize];
        let (factors, taken) = (rank.factors, rank.taken);
        let (mut time, mut start, mut further) = (factors.time_of(&self.world.jitter, &code), self.now, 0);
        if code.runs_on && !O::IN_ORDER && taken == 0 && !self.device_memory.is_on() {
            (time, start, further) = self.tell_row(s, r, time);
        }
        let mut ends = self.now + Time(time);
        if self.pace.is_on() {
            let kernel = Kernel::starts(code.slowdown, taken, self.now, time);
            ends = kernel.ends;
            *self.kernel_mut(s) = kernel;
        }
        let seq = self.schedule(ends, STREAM, s);
        let stream = &mut self.streams[s as usize];
        (stream.event, stream.start, stream.further, stream.blocked) = (seq, start, further, RUNNING);
        if self.device_memory.is_on() {
            self.kernel_uses_memory(s, code);
        }
    }

    /// Tells of the kernels of a row but the last, whose first takes `time`; returns the time of all, when the last starts, and
    /// how many follow the first.
    fn tell_row(&mut self, s: u32, r: u32, mut time: u64) -> (u64, Time, u16) {
        let head = self.streams[s as usize].cursor as usize;
        let rank = &self.ranks[r as usize];
        let (mut at, mut start, mut sum) = (head, self.now, time);
        let most = head + usize::from(u16::MAX);
        while self.code[at].runs_on && at < most {
            let next = &self.code[at + 1];
            if next.wait != NONE && self.unfinished_wait(rank, next).is_some() {
                break;
            }
            let end = start + Time(time);
            self.observer.finished(r, self.code[at].op, start, end);
            time = rank.factors.time_of(&self.world.jitter, next);
            (at, start, sum) = (at + 1, end, sum.saturating_add(time));
        }
        (sum, start, (at - head) as u16)
    }

    /// The row of stream `s`, if one runs, ends with the kernel under way.
    pub fn break_row(&mut self, s: u32) {
        let stream = self.streams[s as usize];
        if stream.further == 0 {
            return;
        }
        let (mut cursor, end_of_row) = (stream.cursor, stream.cursor + u32::from(stream.further));
        let factors = self.ranks[stream.rank as usize].factors;
        let time_of = |cursor: u32| Time(factors.time_of(&self.world.jitter, &self.code[cursor as usize]));
        // No unit was taken beside it so far: it has gone undisturbed since it started.
        let mut start = self.kernel(s).since;
        while cursor < end_of_row && start + time_of(cursor) <= self.now {
            (cursor, start) = (cursor + 1, start + time_of(cursor));
        }
        let kernel = Kernel::starts(self.code[cursor as usize].slowdown, 0, start, time_of(cursor).0);
        *self.kernel_mut(s) = kernel;
        self.events += u64::from(cursor - stream.cursor);
        let stream = &mut self.streams[s as usize];
        (stream.cursor, stream.start, stream.further) = (cursor, start, 0);
        if cursor < end_of_row {
            self.kernel_due(s, kernel.ends);
        }
    }

    pub fn kernel_ended(&mut self, s: u32, seq: u64) {
        // A kernel that was made faster on its way has ended at an earlier event, one that was slowed down ends later.
        if self.streams[s as usize].event != seq || self.ends_later(s) {
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

    /// Whether the running kernel of stream `s` has been slowed down, so that its event came too early: it gets another.
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
        self.kernel_mut(s).due = at;
        let seq = self.schedule(at, STREAM, s);
        self.streams[s as usize].event = seq;
    }

    /// The running kernel of a stream; there only where pace matters.
    #[inline]
    pub fn kernel(&self, s: u32) -> &Kernel {
        &self.pace.kernels[self.place_of_kernel(s)]
    }

    #[inline]
    pub fn kernel_mut(&mut self, s: u32) -> &mut Kernel {
        let place = self.place_of_kernel(s);
        &mut self.pace.kernels[place]
    }

    #[inline]
    fn place_of_kernel(&self, s: u32) -> usize {
        let stream = &self.streams[s as usize];
        self.ranks[stream.rank as usize].kernel(stream.kernel)
    }
}
