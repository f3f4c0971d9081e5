//! Kernels beside communication: a communication kernel takes compute units, so the kernel beside it slows down.
//!
//! An op says by how many thousandths it is longer while the usual number of compute units is taken; an action, how
//! many it takes in thousandths of the usual. In between and beyond, with several at once, slowness is linear in the
//! units taken. When communication kernels come or go, the time left of a running kernel is stretched or shrunk, once
//! for all changes of an instant: pieces of one transfer follow each other, and where one goes the next one comes.
//! A kernel that is held up by its memory (`device_memory`) goes at the lesser of both paces.

use super::Listener;
use super::code::{NO_SLOT, NOBODY, NONE, SEVERAL};
use super::comms::CommState;
use super::event_loop::Play;
use super::ranks::{RUNNING, RankState, StreamState};
use super::sharing::FlowId;
use crate::units::{Time, round};

/// How fast kernels go.
#[derive(Debug)]
pub(super) struct KernelPace {
    on: bool,
    units: bool,
    /// Ranks on which other units are taken than at the end of the last instant.
    changed: Vec<u32>,
    /// By rank and stream with kernels: the running kernel. Empty where pace does not matter.
    pub kernels: Vec<RunningKernel>,
}

/// A running kernel, in one line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct RunningKernel {
    slowdown: u16,
    /// Units taken beside it, in thousandths of the usual.
    taken: u32,
    /// Those taken when it started, whether it minds them or those behind it in its row.
    pub at_start: u32,
    /// When it started, or its pace last changed.
    pub since: Time,
    /// Picoseconds left at `since` if undisturbed.
    left: u64,
    /// When it ends as things are.
    pub ends: Time,
    /// The moment of its event, which is no later.
    pub due: Time,
    /// Its flow on the device's memory, or `NONE`.
    pub flow: FlowId,
    /// Its pace as its memory allows, 1 being undisturbed; 0 where memory does not hold it up.
    pub share: f64,
}

impl KernelPace {
    /// Off altogether when no kernel minds units taken and none shares memory.
    pub fn new(units: bool, kernels: u32, shares_memory: bool) -> Self {
        let on = units || shares_memory;
        let idle = RunningKernel::starts(0, 0, Time::ZERO, 0);
        KernelPace {
            on,
            units,
            changed: Vec::new(),
            kernels: vec![idle; if on { kernels as usize } else { 0 }],
        }
    }

    /// True if kernels may take longer than undisturbed ones.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// True if a kernel is to be timed anew before time moves.
    #[inline]
    pub fn has_changed(&self) -> bool {
        !self.changed.is_empty()
    }

    /// True if units taken slow any kernel.
    #[inline]
    pub fn minds_units(&self) -> bool {
        self.units
    }
}

impl RunningKernel {
    /// A kernel that starts and is not held up by its memory.
    #[inline]
    pub fn starts(slowdown: u16, taken: u32, now: Time, time: u64) -> RunningKernel {
        // Units that it does not mind are no part of its state.
        let (at_start, taken) = (taken, if slowdown > 0 { taken } else { 0 });
        let ends = now + Time(beside(taken, slowdown, time));
        RunningKernel {
            slowdown,
            taken,
            at_start,
            since: now,
            left: time,
            ends,
            due: ends,
            flow: NONE,
            share: 0.0,
        }
    }
    /// The same kernel, whose event comes when the kernels behind it have ended as well.
    #[inline]
    pub fn until(self, ends: Time) -> RunningKernel {
        RunningKernel { ends, due: ends, ..self }
    }
    fn stretch(&self) -> u64 {
        stretch(self.taken, self.slowdown)
    }
    /// The bytes per second that it can use, of those that it would if undisturbed.
    pub fn limit(&self, wanted: f64) -> f64 {
        if self.taken > 0 { wanted * (MILLION as f64 / self.stretch() as f64) } else { wanted }
    }
    /// Picoseconds to its end as things are.
    pub fn span(&self) -> u64 {
        if self.share > 0.0 {
            return round(self.left as f64 / self.share);
        }
        beside(self.taken, self.slowdown, self.left)
    }
    /// The state that decides how it goes on, relative to now.
    pub fn state(&self, now: Time) -> [u64; 4] {
        [u64::from(self.taken), (now - self.since).0, self.left, self.share.to_bits()]
    }
    /// Lets time pass until `now`; returns how much of it memory added.
    pub fn pass(&mut self, now: Time) -> Time {
        let elapsed = (now - self.since).0;
        let progress = match self.share {
            share if share > 0.0 => round(elapsed as f64 * share),
            _ if self.taken > 0 => scale(elapsed, MILLION, self.stretch()),
            _ => elapsed,
        };
        let added = if self.share > 0.0 {
            elapsed.saturating_sub(beside(self.taken, self.slowdown, progress))
        } else {
            0
        };
        (self.left, self.since) = (self.left.saturating_sub(progress), now);
        Time(added)
    }
}

const MILLION: u64 = 1_000_000;

/// Picoseconds of a kernel, or a part of one, beside units taken, where memory does not hold it up.
#[inline]
pub(super) fn beside(taken: u32, slowdown: u16, time: u64) -> u64 {
    if taken > 0 && slowdown > 0 { scale(time, stretch(taken, slowdown), MILLION) } else { time }
}

/// The length of a kernel beside units taken over the undisturbed length, in millionths.
fn stretch(taken: u32, slowdown: u16) -> u64 {
    MILLION + u64::from(slowdown) * u64::from(taken)
}

#[inline]
fn scale(x: u64, num: u64, den: u64) -> u64 {
    // Nearly all fits, and a wide division takes longer than all else here.
    if let Some(product) = x.checked_mul(num).and_then(|product| product.checked_add(den / 2)) {
        return product / den;
    }
    ((u128::from(x) * u128::from(num) + u128::from(den / 2)) / u128::from(den)) as u64
}

impl<O: Listener + ?Sized> Play<'_, O> {
    /// A communication kernel comes to (or goes from) the devices of all members.
    pub fn take_units(&mut self, comm: u32, comes: bool) {
        let CommState { action, first_arrival, needed, .. } = self.comms.states[comm as usize];
        let units = u32::from(self.world.units_of(action));
        if units == 0 {
            return;
        }
        for i in first_arrival..first_arrival + needed {
            let StreamState { rank: r, cursor, .. } = self.streams[self.comms.arrivals[i as usize] as usize];
            if !self.code[cursor as usize].takes_units {
                continue;
            }
            let rank = &mut self.ranks[r as usize];
            rank.taken = if comes { rank.taken + units } else { rank.taken - units };
            if rank.slowed != NOBODY && !rank.changed {
                rank.changed = true;
                self.pace.changed.push(r);
            }
        }
    }

    /// Times the kernels anew beside which other units are taken.
    pub fn retime_changed(&mut self) {
        let mut changed = std::mem::take(&mut self.pace.changed);
        for r in changed.drain(..) {
            self.ranks[r as usize].changed = false;
            let rank = self.ranks[r as usize];
            match rank.slowed {
                SEVERAL => self.retime_kernels(rank),
                stream => self.retime_kernel(rank.stream(stream), rank.taken),
            }
        }
        self.pace.changed = changed;
    }

    /// Other units are taken on a rank with several streams of kernels that mind.
    fn retime_kernels(&mut self, rank: RankState) {
        for stream in &self.compiled[rank.program as usize].slowed {
            self.retime_kernel(rank.stream(*stream), rank.taken);
        }
    }

    /// Other units are taken beside stream `s` than before.
    #[inline]
    fn retime_kernel(&mut self, s: u32, taken: u32) {
        if self.streams[s as usize].blocked != RUNNING {
            return;
        }
        self.break_row(s);
        let code = &self.code[self.streams[s as usize].cursor as usize];
        if code.slot != NO_SLOT || code.slowdown == 0 {
            return;
        }
        self.retime(s, |kernel| kernel.taken = taken);
        let flow = self.kernel(s).flow;
        if flow != NONE {
            self.limit_changed(s, flow);
        }
    }
}
