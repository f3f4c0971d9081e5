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
use super::event_loop::{Play, RUNNING, RankState, STREAM};
use super::interference::Kernel;
use crate::ids::{OpId, RankId};
use crate::program::World;
use crate::units::{Time, round};

impl<O: Observer> Play<'_, O> {
    /// Starts the kernel at the head of stream `s`, and with it the row that follows.
    #[inline]
    pub fn start_kernel(&mut self, s: u32, rank: RankState, r: u32, code: Code) {
        let (mut time, mut start) = (self.time_of(r, rank.varies, code), self.now);
        if code.runs_on && !O::IN_ORDER && self.pace.is_even(r) && !self.device_memory.is_on() {
            (time, start) = self.start_row(s, rank, r, time);
        }
        let ends = self.pace.kernel_starts(r, s, code.slowdown, self.now, time);
        let seq = self.schedule(ends, STREAM, s);
        let stream = &mut self.streams[s as usize];
        stream.event = seq;
        stream.start = start;
        self.blocked[s as usize] = RUNNING;
        if self.device_memory.is_on() {
            self.kernel_uses_memory(s, code);
        }
    }

    /// Tells of the kernels of a row but the last, whose first takes `time`; returns the time of all, and when the last starts.
    fn start_row(&mut self, s: u32, rank: RankState, r: u32, mut time: u64) -> (u64, Time) {
        let head = self.streams[s as usize].cursor as usize;
        let (mut at, mut start, mut sum) = (head, self.now, time);
        while self.code[at].runs_on {
            let next = self.code[at + 1];
            if next.wait != NONE && self.unfinished_wait(&rank, next.op, next).is_some() {
                break;
            }
            let end = start + Time(time);
            self.observer.finished(r, self.code[at].op, start, end);
            time = self.time_of(r, rank.varies, next);
            (at, start, sum) = (at + 1, end, sum.saturating_add(time));
        }
        self.streams[s as usize].further = (at - head) as u32;
        (sum, start)
    }

    /// The row of stream `s`, if one runs, ends with the kernel under way.
    pub fn break_row(&mut self, s: u32) {
        let stream = self.streams[s as usize];
        if stream.further == 0 {
            return;
        }
        let (mut cursor, end_of_row) = (stream.cursor, stream.cursor + stream.further);
        let time_of =
            |cursor: u32| Time(self.time_of(stream.rank, stream.home.varies, self.code[cursor as usize]));
        let row: Time = (cursor..=end_of_row).map(time_of).sum();
        let mut start = self.pace.kernels[s as usize].ends.saturating_sub(row);
        while cursor < end_of_row && start + time_of(cursor) <= self.now {
            (cursor, start) = (cursor + 1, start + time_of(cursor));
        }
        // No unit was taken beside it so far.
        let kernel = Kernel::starts(self.code[cursor as usize].slowdown, 0, start, time_of(cursor).0);
        self.pace.kernels[s as usize] = kernel;
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
        stream.cursor += stream.further;
        self.events += u64::from(std::mem::take(&mut stream.further));
    }

    /// Whether the running kernel of stream `s` has been slowed down, so that its event came too early: it gets another.
    #[inline]
    fn ends_later(&mut self, s: u32) -> bool {
        let Some(ends) = self.pace.kernels.get(s as usize).map(|kernel| kernel.ends) else { return false };
        let later = ends > self.now;
        if later {
            self.kernel_due(s, ends);
        }
        later
    }

    pub fn kernel_due(&mut self, s: u32, at: Time) {
        self.pace.kernels[s as usize].due = at;
        let seq = self.schedule(at, STREAM, s);
        self.streams[s as usize].event = seq;
    }

    /// Picoseconds of a kernel that nothing disturbs.
    #[inline]
    fn time_of(&self, r: u32, varies: bool, code: Code) -> u64 {
        if varies { kernel_time(self.world, RankId(r), OpId(code.op), code.value) } else { code.value }
    }
}

/// The time of one kernel on one rank in picoseconds: the nominal time, times the rank's slowness, times its jitter for
/// this op. What takes units or bandwidth from it comes on top.
#[inline]
pub fn kernel_time(world: &World, rank: RankId, op: OpId, nominal: u64) -> u64 {
    let rank = &world.ranks[rank.index()];
    let mut factor = rank.slowness;
    if factor == 1.0 && rank.jitter_seed == 0 {
        return nominal;
    }
    if rank.jitter_seed != 0 && !world.jitter.is_empty() {
        let draw = mix(rank.jitter_seed ^ mix(u64::from(op.0)));
        // A division takes longer than all else here, and tables have a power of two entries.
        let entries = world.jitter.len() as u64;
        let entry = if entries.is_power_of_two() { draw & (entries - 1) } else { draw % entries };
        factor *= world.jitter[entry as usize];
    }
    round(nominal as f64 * factor)
}

/// SplitMix64's finisher (Steele, Lea, Flood 2014): a fixed, portable map from a counter to a uniform draw.
#[inline]
fn mix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
