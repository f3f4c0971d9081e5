//! Kernels beside communication: a communication kernel takes compute units, so the kernel beside it slows down.
//!
//! An op says by how many thousandths it is longer while the usual number of compute units is taken; an action, how many
//! it takes in thousandths of the usual. In between and beyond, with several at once, slowness is linear in the units
//! taken. When a communication kernel comes or goes, the time left of a running kernel is stretched or shrunk.

use super::Observer;
use super::code::{Code, NO_SLOT};
use super::event_loop::{Play, RUNNING, STREAM};
use crate::units::Time;

/// Who runs beside whom.
#[derive(Debug)]
pub(super) struct Interference {
    on: bool,
    /// By rank: units taken by the communication kernels that run, in thousandths of the usual.
    taken: Vec<u32>,
    /// By stream: the running kernel.
    kernels: Vec<Kernel>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Kernel {
    slowdown: u16,
    /// Units taken beside it, in thousandths of the usual.
    taken: u32,
    since: Time,
    /// Picoseconds left at `since` if undisturbed.
    left: u64,
}

impl Interference {
    /// Off altogether when no op minds.
    pub fn new(code: &[Code], ranks: usize, streams: usize) -> Self {
        let on = code.iter().any(|c| c.slowdown > 0);
        let size = |n| if on { n } else { 0 };
        Interference { on, taken: vec![0; size(ranks)], kernels: vec![Kernel::default(); size(streams)] }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.on
    }

    /// Notes a kernel of nominal `time` that starts, and returns how long it takes as things are.
    #[inline]
    pub fn kernel_starts(&mut self, rank: u32, stream: u32, slowdown: u16, now: Time, time: u64) -> u64 {
        if !self.on {
            return time;
        }
        let kernel = Kernel { slowdown, taken: self.taken[rank as usize], since: now, left: time };
        self.kernels[stream as usize] = kernel;
        kernel.span()
    }
}

impl Kernel {
    /// Its length over that of an undisturbed kernel, in millionths.
    fn stretch(&self) -> u64 {
        MILLION + u64::from(self.slowdown) * u64::from(self.taken)
    }
    fn span(&self) -> u64 {
        if self.taken > 0 { scale(self.left, self.stretch(), MILLION) } else { self.left }
    }
    fn change(&mut self, now: Time, taken: u32) {
        let elapsed = (now - self.since).0;
        let progress = if self.taken > 0 { scale(elapsed, MILLION, self.stretch()) } else { elapsed };
        *self = Kernel { left: self.left.saturating_sub(progress), since: now, taken, ..*self };
    }
}

const MILLION: u64 = 1_000_000;

fn scale(x: u64, num: u64, den: u64) -> u64 {
    ((u128::from(x) * u128::from(num) + u128::from(den / 2)) / u128::from(den)) as u64
}

impl<O: Observer> Play<'_, O> {
    /// A communication kernel comes to (or goes from) the devices of all members.
    pub fn take_units(&mut self, comm: u32, comes: bool) {
        let state = self.comms.states[comm as usize];
        let units = self.world.action_units.get(state.action as usize).copied().unwrap_or(1000);
        for i in state.first_arrival..state.first_arrival + state.needed {
            let s = self.comms.arrivals[i as usize];
            let r = self.streams[s as usize].rank;
            let rank = self.ranks[r as usize];
            let program = &self.compiled[rank.program as usize];
            if !program.takes_units[(s - rank.first_stream) as usize] {
                continue;
            }
            let taken = &mut self.interference.taken[r as usize];
            *taken = if comes { *taken + u32::from(units) } else { *taken - u32::from(units) };
            let taken = *taken;
            if units > 0 {
                self.retime_kernels(r, taken);
            }
        }
    }

    fn retime_kernels(&mut self, r: u32, taken: u32) {
        let rank = self.ranks[r as usize];
        for s in rank.first_stream..rank.first_stream + u32::from(rank.streams) {
            if self.blocked[s as usize] != RUNNING {
                continue;
            }
            let code = self.code[self.streams[s as usize].cursor as usize];
            if code.slot != NO_SLOT || code.slowdown == 0 {
                continue;
            }
            let kernel = &mut self.interference.kernels[s as usize];
            kernel.change(self.now, taken);
            let ends = self.now + Time(kernel.span());
            let seq = self.schedule(ends, STREAM, s);
            self.streams[s as usize].event = seq;
        }
    }
}
