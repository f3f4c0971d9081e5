//! Ranks and their streams as the loop lays them out.

use super::code::{NOBODY, NONE, ProgramCode, SEVERAL};
use super::factors::Factors;
use crate::ids::{CommId, RankId};
use crate::program::{Rank, World};
use crate::units::Time;

/// The state of a stream's head that does not wait for an op: values of `StreamState::blocked` above all places.
pub(super) const RUNNING: u32 = NONE - 1;
pub(super) const FINISHED: u32 = NONE - 2;
/// Waits for room on a tier.
pub(super) const NO_ROOM: u32 = NONE - 3;
/// Has arrived at its communicator.
pub(super) const ARRIVED: u32 = NONE - 4;
/// Has not been looked at yet: its head is no op in progress, and it may be empty.
pub(super) const NOT_BEGUN: u32 = NONE - 5;

/// The loop's state of a rank, in one line of the cache.
///
/// Its streams, running kernels and slots stand in tables of their own, column by column for all ranks of a program:
/// first the first of each rank, then the second of each. In a large run most of a rank lies idle, and its busy parts
/// then lie together.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct RankState {
    pub program: u32,
    /// From one column to the next: the number of ranks with this program.
    stride: u32,
    first_stream: u32,
    first_kernel: u32,
    first_slot: u32,
    pub streams: u16,
    /// The stream with kernels that mind units taken beside them, `NOBODY` or `SEVERAL`.
    pub slowed: u16,
    /// Units taken by the communication kernels that run, in thousandths of the usual.
    pub taken: u32,
    /// Other units are taken than at the end of the last instant.
    pub changed: bool,
    /// The factors that vary the time of its kernels.
    pub factors: Factors,
}

impl RankState {
    /// The place of one of its streams in `Play::streams`.
    #[inline]
    pub fn stream(&self, stream: u16) -> u32 {
        self.first_stream + u32::from(stream) * self.stride
    }

    /// The places of all its streams, in order.
    #[inline]
    pub fn all_streams(&self) -> impl Iterator<Item = u32> + use<> {
        let rank = *self;
        (0..rank.streams).map(move |stream| rank.stream(stream))
    }

    /// The number of its stream at a place.
    pub fn number_of(&self, s: u32) -> u16 {
        ((s - self.first_stream) / self.stride) as u16
    }

    /// The place of one of its running kernels in `Pace::kernels`.
    #[inline]
    pub fn kernel(&self, kernel: u16) -> usize {
        (self.first_kernel + u32::from(kernel) * self.stride) as usize
    }

    /// The place of one of its slots in `Play::slots`.
    #[inline]
    pub fn slot(&self, slot: u16) -> usize {
        (self.first_slot + u32::from(slot) * self.stride) as usize
    }
}

/// An in-order queue of one rank, two in a line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct StreamState {
    pub rank: u32,
    /// Where in `Play::code` the op at the head is.
    pub cursor: u32,
    /// Where in the code the op is that its head waits for, or one of the values above.
    pub blocked: u32,
    /// Kernels behind the head that its event ends as well (`kernels`).
    pub further: u16,
    /// The index of its kernel among the rank's running ones.
    pub kernel: u16,
    /// Sequence number of the event that ends the running kernel; an event with another number is out of date. Of a
    /// stream that runs ahead, the number of its entry in `Play::ahead`.
    pub event: u64,
    /// When the op at the head started; of kernels in a row, the last.
    pub start: Time,
}

/// The tables of all ranks at the beginning.
pub(super) struct Tables {
    pub ranks: Vec<RankState>,
    pub streams: Vec<StreamState>,
    /// Communicators of the slots.
    pub slots: Vec<CommId>,
    /// How many kernels can run at once.
    pub kernels: u32,
}

impl Tables {
    pub fn new(world: &World, compiled: &[ProgramCode]) -> Tables {
        let mut ranks_of = vec![0; compiled.len()];
        world.ranks.iter().for_each(|rank| ranks_of[rank.program.index()] += 1);
        // By program: where the next rank's streams, kernels and slots begin.
        let mut next = Vec::with_capacity(compiled.len());
        let [mut streams, mut kernels, mut slots] = [0; 3];
        for (program, ranks) in compiled.iter().zip(&ranks_of) {
            next.push([streams, kernels, slots]);
            streams += program.streams() as u32 * ranks;
            kernels += u32::from(program.streams_with_kernels) * ranks;
            slots += u32::from(program.slots) * ranks;
        }
        let rank_state = |rank: &Rank| {
            let of_program = rank.program.index();
            let (program, stride, next) =
                (&compiled[of_program], ranks_of[of_program], &mut next[of_program]);
            let [first_stream, first_kernel, first_slot] = *next;
            next.iter_mut().for_each(|place| *place += 1);
            RankState {
                program: rank.program.0,
                stride,
                first_stream,
                first_kernel,
                first_slot,
                streams: program.streams() as u16,
                slowed: match program.slowed[..] {
                    [] => NOBODY,
                    [only] => only,
                    _ => SEVERAL,
                },
                taken: 0,
                changed: false,
                factors: Factors::of(world, rank),
            }
        };
        let ranks: Vec<RankState> = world.ranks.iter().map(rank_state).collect();
        let streams = stream_states(&ranks, compiled, streams);
        let slots = slots_in_columns(world, &ranks, compiled, slots);
        Tables { ranks, streams, slots, kernels }
    }
}

/// The streams of all ranks at the beginning, `count` in all.
fn stream_states(ranks: &[RankState], compiled: &[ProgramCode], count: u32) -> Vec<StreamState> {
    let (rank, start) = (0, Time::ZERO);
    let none = StreamState { rank, cursor: 0, blocked: NOT_BEGUN, further: 0, kernel: 0, event: 0, start };
    let mut streams = vec![none; count as usize];
    for (r, rank) in (0..).zip(ranks) {
        let program = &compiled[rank.program as usize];
        for ((s, &cursor), &kernel) in rank.all_streams().zip(&program.first).zip(&program.kernels) {
            streams[s as usize] = StreamState { rank: r, cursor, kernel, ..none };
        }
    }
    streams
}

/// The communicators of the slots of all ranks, `count` in all.
fn slots_in_columns(world: &World, ranks: &[RankState], compiled: &[ProgramCode], count: u32) -> Vec<CommId> {
    let mut slots = vec![CommId(0); count as usize];
    for (r, rank) in (0..).zip(ranks) {
        let used = 0..compiled[rank.program as usize].slots;
        used.zip(world.slots_of(RankId(r))).for_each(|(slot, &comm)| slots[rank.slot(slot)] = comm);
    }
    slots
}
