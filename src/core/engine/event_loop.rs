//! The event loop: streams that advance, one event at a time.

use super::agenda::Agenda;
use super::ahead::Ahead;
use super::causes::StreamEnds;
use super::code::{Code, CodeWait, END, LISTS, NO_SLOT, NOBODY, NONE, ProgramCode, WorldCode};
use super::comms::CommStates;
use super::device_memory::DeviceMemory;
use super::interference::KernelPace;
use super::memory::Ledger;
use super::ranks::{FINISHED, NO_ROOM, RUNNING, RankState, StreamState, Tables};
use super::{EngineError, Listener, Stats};
use crate::ids::{CommId, RankId, TierId};
use crate::interrupt;
use crate::program::{MemoryWhen, World};
use crate::units::Time;

/// The kind of thing that an event ends, in the three bits above an index of 28.
pub(super) const STREAM: u32 = 0;
pub(super) const COMM: u32 = 1;
pub(super) const LATENCY: u32 = 2;
pub(super) const FLOW: u32 = 3;
/// Other streams see the end of an op.
pub(super) const SEEN: u32 = 4;
/// A stream has waited long enough for one that runs ahead.
pub(super) const WAKE: u32 = 5;
const INDEX_BITS: u32 = 28;
const KIND_BITS: u32 = 3;
const SEQ_BITS: u32 = 33;
/// Longest step: half of what the clock counts, 106 days. Times saturate, so nothing wraps around before it is met.
const LONGEST: Time = Time(1 << 63);

/// A run in progress.
pub(super) struct Play<'w, O: ?Sized> {
    pub world: &'w World,
    pub compiled: &'w [ProgramCode<'w>],
    /// The ops of all programs, each stream's in a row.
    pub code: &'w [Code],
    pub waits: &'w [CodeWait],
    pub now: Time,
    seq: u64,
    /// Completions so far: an event that was out of date is none.
    pub events: u64,
    agenda: Agenda,
    pub ranks: Vec<RankState>,
    pub streams: Vec<StreamState>,
    /// Communicators of the slots.
    slots: Vec<CommId>,
    /// By stream: where the first op is whose end other streams have not seen, if they see ends late.
    pub seen: Vec<u32>,
    /// Streams that run ahead.
    pub ahead: Vec<Ahead>,
    pub unfinished: usize,
    pub comms: CommStates<'w>,
    pub ledger: Ledger,
    /// Streams whose head asks for memory: decided at the end of the instant, when all that gives back has done so.
    asking: Vec<u32>,
    pub pace: KernelPace,
    pub device_memory: DeviceMemory,
    pub error: Option<EngineError>,
    /// By stream: the ops that ended last; empty where causes are not asked for.
    pub ended: Vec<StreamEnds>,
    pub observer: &'w mut O,
    /// True if the observer asks for order.
    pub in_order: bool,
}

impl<'w, O: Listener + ?Sized> Play<'w, O> {
    /// Everything at its beginning.
    pub fn new(
        world: &'w World,
        compiled: &'w WorldCode<'w>,
        observer: &'w mut O,
    ) -> Result<Self, EngineError> {
        let WorldCode { programs: compiled, code, waits } = compiled;
        let Tables { ranks, mut streams, slots, kernels } = Tables::new(world, compiled);
        let ahead = Ahead::streams(compiled, &ranks, &mut streams);
        let need = streams.len().max(world.comms.len());
        if need >= 1 << INDEX_BITS {
            return Err(EngineError::Limit { what: "streams", need: need as u64, limit: 1 << INDEX_BITS });
        }
        let ledger = Ledger::new(world).map_err(|(rank, room, ledger)| {
            super::stalled::out_of_memory(world, &ledger, Time::ZERO, rank, None, room)
        })?;
        let felt = world.felt_by_kernels();
        let device_memory = DeviceMemory::new(world, &felt);
        let minds_units = compiled.iter().any(|program| !program.slowed.is_empty());
        let pace = KernelPace::new(minds_units, kernels, device_memory.is_on());
        Ok(Play {
            comms: CommStates::new(world, &felt),
            seen: streams.iter().map(|stream| stream.cursor).collect(),
            unfinished: streams.len(),
            ended: vec![StreamEnds::default(); if O::CAUSES { streams.len() } else { 0 }],
            ahead,
            agenda: Agenda::default(),
            now: Time::ZERO,
            seq: 0,
            events: 0,
            error: None,
            world,
            compiled,
            code,
            waits,
            ranks,
            streams,
            slots,
            ledger,
            asking: Vec::new(),
            pace,
            device_memory,
            in_order: observer.in_order(),
            observer,
        })
    }

    /// Plays until every stream has finished.
    pub fn run(mut self) -> Result<Stats, EngineError> {
        for r in 0..self.ranks.len() {
            for s in self.ranks[r].all_streams() {
                self.advance(s);
            }
        }
        // The loop ends before the last event: events of kernels that ended sooner than once thought are out of date,
        // and late.
        while self.unfinished > 0
            && let Some((kind, index, seq)) = self.next_event()
        {
            self.events += 1;
            if self.events.is_multiple_of(1 << 14) {
                interrupt::check();
            }
            match kind {
                STREAM => self.kernel_ended(index, seq),
                COMM => self.comm_ended(index),
                LATENCY => self.latency_over(index),
                SEEN => self.seen(index),
                WAKE => {
                    self.events -= 1;
                    self.advance(index);
                }
                _ => self.flow_ended(index, seq),
            }
            if self.error.is_some() {
                break;
            }
        }
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if self.unfinished > 0 {
            self.now = self.ahead.iter().map(Ahead::last).fold(self.now, Time::max);
            return Err(self.stalled());
        }
        for (rank, &added) in (0..).zip(&self.device_memory.added).filter(|(_, added)| **added > Time::ZERO) {
            self.observer.slowed_by_memory(rank, added);
        }
        self.ledger.settle();
        self.observer.peaks(&self.ledger.peaks());
        if O::CAUSES {
            self.tell_last();
        }
        Ok(Stats { step_end: self.now, events: self.events, reshares: self.comms.sharing.solves() })
    }

    /// The earliest event; moves time there. Rates are brought up to date before time moves.
    fn next_event(&mut self) -> Option<(u32, u32, u64)> {
        loop {
            let first = self.agenda.first();
            let planned = first.map(|event| Time((event >> 64) as u64));
            let queue = self.comms.next_finish();
            let time = match (planned, queue) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            if time == Some(self.now) {
                return self.take_event(planned == time);
            }
            if !self.asking.is_empty() {
                self.admit();
                continue;
            }
            if self.pace.has_changed() {
                self.retime_changed();
                continue;
            }
            if self.comms.sharing.is_dirty() {
                self.reshare();
                continue;
            }
            let time = time?;
            assert!(time >= self.now);
            if self.observer.wants_state() {
                self.tell_state();
                continue;
            }
            if self.ledger.has_grown() {
                self.ledger.settle();
            }
            if time > LONGEST {
                self.error = Some(EngineError::TooLong { limit: LONGEST });
                return None;
            }
            self.now = time;
            return self.take_event(planned == Some(time));
        }
    }

    /// Takes the first event: of the agenda, or of the flows whose finish has moved.
    #[inline]
    fn take_event(&mut self, planned: bool) -> Option<(u32, u32, u64)> {
        if planned {
            let first = self.agenda.first();
            self.agenda.pop();
            return first.map(event_of);
        }
        let (index, seq) = self.comms.pop_finish()?;
        Some((FLOW, index, seq))
    }

    /// The events of the agenda, out-of-date ones among them: time, kind, entry, sequence number.
    pub fn pending(&self) -> impl Iterator<Item = (Time, u32, u32, u64)> + '_ {
        self.agenda.iter().map(|event| {
            let (kind, index, seq) = event_of(event);
            (Time((event >> 64) as u64), kind, index, seq)
        })
    }

    /// Schedules an event and returns its sequence number.
    #[inline]
    pub fn schedule(&mut self, at: Time, kind: u32, index: u32) -> u64 {
        self.seq = (self.seq + 1) & ((1 << SEQ_BITS) - 1);
        let low = (self.seq << (INDEX_BITS + KIND_BITS)) | (u64::from(kind) << INDEX_BITS) | u64::from(index);
        self.agenda.push((u128::from(at.0) << 64) | u128::from(low));
        self.seq
    }

    /// Ends the op at the head of stream `s` and starts what can start now.
    #[inline]
    pub fn finish(&mut self, s: u32) {
        let stream = &mut self.streams[s as usize];
        let StreamState { rank: r, cursor: place, start, .. } = *stream;
        stream.cursor += 1;
        let Code { op, frees, waiter, late, .. } = self.code[place as usize];
        if late && waiter != NOBODY {
            let latency = self.latency(s);
            self.schedule(self.now + latency, SEEN, s);
        }
        self.observer.finished(r, op, start, self.now);
        if O::CAUSES {
            self.ended[s as usize].end(self.now, place);
        }
        if frees {
            self.free(r, op, MemoryWhen::FreeAtEnd);
        }
        self.advance(s);
        if !late {
            self.wake(r, waiter, place);
        }
    }

    /// How much later other streams see the ends of ops of stream `s`.
    #[cold]
    pub fn latency(&self, s: u32) -> Time {
        let rank = &self.ranks[self.streams[s as usize].rank as usize];
        let program = self.compiled[rank.program as usize].program;
        program.streams[usize::from(rank.number_of(s))].latency
    }

    /// Other streams see the end of the next op of stream `s` that one of them waits for.
    fn seen(&mut self, s: u32) {
        let seen = &mut self.seen[s as usize];
        while self.code[*seen as usize].waiter == NOBODY {
            *seen += 1;
        }
        let place = *seen;
        *seen += 1;
        if O::CAUSES {
            self.ended[s as usize].see(self.now, place);
        }
        self.wake(self.streams[s as usize].rank, self.code[place as usize].waiter, place);
    }

    /// Streams of a rank that wait for the op at a place in the code go on.
    #[inline]
    fn wake(&mut self, r: u32, waiter: u16, place: u32) {
        match waiter {
            NOBODY => {}
            LISTS.. => self.wake_several(r, waiter, place),
            stream => self.advance_behind(self.ranks[r as usize].stream(stream), place),
        }
    }

    fn wake_several(&mut self, r: u32, waiter: u16, place: u32) {
        let rank = self.ranks[r as usize];
        for stream in self.compiled[rank.program as usize].waiting(&waiter) {
            self.advance_behind(rank.stream(*stream), place);
        }
    }

    /// Stream `s` goes on if it waits for the op at a place in the code.
    #[inline]
    fn advance_behind(&mut self, s: u32, place: u32) {
        if self.streams[s as usize].blocked == place {
            self.advance(s);
        }
    }

    /// True if the streams of a rank have seen the end of the op at a place in the code of one of them.
    #[inline]
    fn is_over(&self, rank: &RankState, stream: u16, place: u32) -> bool {
        let s = rank.stream(stream) as usize;
        if self.streams[s].cursor <= place {
            return false;
        }
        // One that others see late has not ended sooner than they see it.
        let code = &self.code[place as usize];
        !code.late || if code.ahead { self.is_past(s as u32, place) } else { self.seen[s] > place }
    }

    /// The place of the first op that the head of a stream waits for and that has not ended.
    #[inline]
    pub fn unfinished_wait(&self, rank: &RankState, code: &Code) -> Option<u32> {
        if code.wait == NONE {
            return None;
        }
        if !code.more_waits {
            return (!self.is_over(rank, code.wait_stream, code.wait)).then_some(code.wait);
        }
        for wait in &self.waits[code.wait as usize..] {
            if !self.is_over(rank, wait.stream, wait.place) {
                return Some(wait.place);
            }
            if wait.last {
                break;
            }
        }
        None
    }

    /// Starts the op at the head of stream `s`, or notes what it waits for.
    #[inline]
    pub fn advance(&mut self, s: u32) {
        let StreamState { rank: r, cursor, .. } = self.streams[s as usize];
        let all = self.code;
        let code = &all[cursor as usize];
        if code.ahead {
            return self.run_ahead(s);
        }
        if code.wait != NONE
            && let Some(wait) = self.unfinished_wait(&self.ranks[r as usize], code)
        {
            return self.block(s, wait);
        }
        if O::CAUSES {
            self.note_cause(s, r, code);
        }
        if code.allocates {
            let stream = &mut self.streams[s as usize];
            (stream.start, stream.blocked) = (self.now, NO_ROOM);
            self.asking.push(s);
            return;
        }
        self.launch(s, r, code);
    }

    /// Starts an op that waits for nothing any more.
    #[inline]
    fn launch(&mut self, s: u32, r: u32, code: &Code) {
        match code.slot {
            NO_SLOT => self.start_kernel(s, r, code),
            END => {
                self.streams[s as usize].blocked = FINISHED;
                self.unfinished -= 1;
            }
            slot => {
                let comm = self.slots[self.ranks[r as usize].slot(slot)];
                self.arrive(s, comm.0, code.value as u32);
            }
        }
    }

    /// Decides who gets memory: kernels before copies, then who asked first, then by number of rank and stream. The
    /// order in which events of one instant came has no say, so that ranks which behave alike are treated alike.
    fn admit(&mut self) {
        let mut asking = std::mem::take(&mut self.asking);
        asking.sort_unstable_by_key(|&s| {
            let stream = &self.streams[s as usize];
            (!self.is_urgent(s), stream.start, stream.rank, s)
        });
        for &s in &asking {
            let stream = self.streams[s as usize];
            let all = self.code;
            let code = &all[stream.cursor as usize];
            if self.allocate(s, code.op) {
                self.launch(s, stream.rank, code);
            }
        }
        if self.asking.is_empty() {
            asking.clear();
            self.asking = asking;
        }
    }

    /// Takes the memory of the op at the head of stream `s`; where it does not fit, the stream waits for room.
    fn allocate(&mut self, s: u32, op: u32) -> bool {
        let r = self.streams[s as usize].rank;
        let world = self.world;
        let program = world.program_of(RankId(r));
        let effects = &program.memory[program.ops[op as usize].memory.range()];
        match self.ledger.start(effects, world.tiers_of(RankId(r))) {
            Ok(()) => {
                self.streams[s as usize].blocked = RUNNING;
                if effects.iter().any(|e| e.when == MemoryWhen::FreeAtStart) {
                    self.wake_waiting(r, op, MemoryWhen::FreeAtStart);
                }
                true
            }
            Err(room) => {
                self.streams[s as usize].blocked = NO_ROOM;
                self.ledger.wait(room.tier, s);
                false
            }
        }
    }

    fn free(&mut self, r: u32, op: u32, when: MemoryWhen) {
        let program = self.world.program_of(RankId(r));
        let effects = &program.memory[program.ops[op as usize].memory.range()];
        self.ledger.end(effects, self.world.tiers_of(RankId(r)));
        self.wake_waiting(r, op, when);
    }

    /// Streams that wait for room on a tier that an op gives back ask again.
    fn wake_waiting(&mut self, r: u32, op: u32, when: MemoryWhen) {
        let world = self.world;
        let program = world.program_of(RankId(r));
        for effect in
            program.memory[program.ops[op as usize].memory.range()].iter().filter(|e| e.when == when)
        {
            let tier: TierId = world.tiers_of(RankId(r))[usize::from(effect.tier)].tier;
            self.asking.extend(self.ledger.take_waiting(tier));
        }
    }

    fn is_urgent(&self, s: u32) -> bool {
        let rank = &self.ranks[self.streams[s as usize].rank as usize];
        self.compiled[rank.program as usize].urgent[usize::from(rank.number_of(s))]
    }
}

/// The kind of thing that an entry of the agenda ends, its entry, and its sequence number.
fn event_of(event: u128) -> (u32, u32, u64) {
    let low = event as u64;
    let index = low as u32 & ((1 << INDEX_BITS) - 1);
    let kind = (low >> INDEX_BITS) as u32 & ((1 << KIND_BITS) - 1);
    (kind, index, low >> (INDEX_BITS + KIND_BITS))
}
