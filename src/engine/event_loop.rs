//! The event loop: streams that advance, one event at a time.

use super::agenda::Agenda;
use super::code::{Code, Compiled, NO_SLOT, NONE, compile};
use super::comms::Comms;
use super::device_memory::DeviceMemory;
use super::interference::Pace;
use super::memory::Ledger;
use super::{EngineError, Observer, Stats};
use crate::ids::{RankId, TierId};
use crate::program::{MemoryWhen, World};
use crate::units::Time;

/// What the head of a stream does when it does not wait for an op: values of `Play::blocked` above all op numbers.
pub(super) const RUNNING: u32 = NONE - 1;
pub(super) const FINISHED: u32 = NONE - 2;
/// Waits for room on a tier.
pub(super) const NO_ROOM: u32 = NONE - 3;
/// Has arrived at its communicator.
pub(super) const ARRIVED: u32 = NONE - 4;
/// Has not been looked at yet: its head is no op in progress, and it may be empty.
pub(super) const NOT_BEGUN: u32 = NONE - 5;

/// What an event ends, in the three bits above an index of 28.
pub(super) const STREAM: u32 = 0;
pub(super) const COMM: u32 = 1;
pub(super) const LATENCY: u32 = 2;
pub(super) const FLOW: u32 = 3;
/// Other streams see the end of an op.
pub(super) const SEEN: u32 = 4;
const INDEX_BITS: u32 = 28;
const KIND_BITS: u32 = 3;
const SEQ_BITS: u32 = 33;
/// Longest step: half of what the clock counts, 106 days. Times saturate, so nothing wraps around before it is met.
const LONGEST: Time = Time(1 << 63);

/// A rank's place in the tables of the loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct RankState {
    pub program: u32,
    pub first_stream: u32,
    pub streams: u16,
    pub done_words: u32,
    pub slots: u32,
    /// Kernels do not take their nominal time (slow device or jitter).
    pub varies: bool,
}

/// An in-order queue of one rank, in one line of the cache.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct StreamState {
    pub rank: u32,
    /// The rank's entry, here so that an op that ends reads one place.
    pub home: RankState,
    /// Where in `Play::code` the op at the head is, and where the stream ends.
    pub cursor: u32,
    pub end: u32,
    /// Sequence number of the event that ends the running kernel; an event with another number is out of date.
    pub event: u64,
    /// When the op at the head started; of kernels in a row, the last.
    pub start: Time,
    /// How much later other streams see its ops end, and the first op that they have not seen.
    pub latency: Time,
    pub seen: u32,
    /// Kernels behind the head that its event ends as well (`kernels`).
    pub further: u32,
}

/// A run in progress.
pub(super) struct Play<'w, O> {
    pub world: &'w World,
    pub compiled: Vec<Compiled<'w>>,
    /// The ops of all programs, each stream's in a row.
    pub code: Vec<Code>,
    pub now: Time,
    seq: u64,
    pub events: u64,
    agenda: Agenda,
    pub ranks: Vec<RankState>,
    pub streams: Vec<StreamState>,
    /// By stream: the op that its head waits for, or one of the values above.
    pub blocked: Vec<u32>,
    unfinished: usize,
    done: Vec<u64>,
    pub comms: Comms<'w>,
    pub ledger: Ledger,
    /// Streams whose head asks for memory: decided at the end of the instant, when all that gives back has done so.
    asking: Vec<u32>,
    pub pace: Pace,
    pub device_memory: DeviceMemory,
    pub error: Option<EngineError>,
    pub observer: &'w mut O,
}

impl<'w, O: Observer> Play<'w, O> {
    /// Everything at its beginning.
    pub fn new(world: &'w World, observer: &'w mut O) -> Result<Self, EngineError> {
        let (compiled, code) = compile(world)?;
        let mut ranks = Vec::with_capacity(world.ranks.len());
        let mut streams = Vec::new();
        let mut words = 0usize;
        for (r, rank) in world.ranks.iter().enumerate() {
            let program = &compiled[rank.program.index()];
            let home = RankState {
                program: rank.program.0,
                first_stream: streams.len() as u32,
                streams: program.streams() as u16,
                done_words: words as u32,
                slots: rank.slots.start,
                varies: rank.slowness != 1.0 || rank.jitter_seed != 0,
            };
            ranks.push(home);
            words += program.words;
            streams.extend(program.first.windows(2).zip(&program.program.streams).map(|(w, stream)| {
                StreamState {
                    rank: r as u32,
                    home,
                    cursor: w[0],
                    end: w[1],
                    event: 0,
                    start: Time::ZERO,
                    latency: stream.latency,
                    seen: w[0],
                    further: 0,
                }
            }));
        }
        if streams.len().max(world.comms.len()) >= 1 << INDEX_BITS || words > u32::MAX as usize {
            let need = streams.len().max(world.comms.len()) as u64;
            return Err(EngineError::Limit { what: "streams", need, limit: 1 << INDEX_BITS });
        }
        let ledger = Ledger::new(world).map_err(|(rank, room, ledger)| {
            super::stalled::out_of_memory(world, &ledger, Time::ZERO, rank, None, room)
        })?;
        let felt = world.felt_by_kernels();
        let device_memory = DeviceMemory::new(world, &felt);
        let minds_units = compiled.iter().any(|program| !program.slowed.is_empty());
        let pace = Pace::new(minds_units, ranks.len(), streams.len(), device_memory.is_on());
        Ok(Play {
            comms: Comms::new(world, &felt),
            blocked: vec![NOT_BEGUN; streams.len()],
            unfinished: streams.len(),
            done: vec![0; words],
            agenda: Agenda::new(),
            now: Time::ZERO,
            seq: 0,
            events: 0,
            error: None,
            world,
            compiled,
            code,
            ranks,
            streams,
            ledger,
            asking: Vec::new(),
            pace,
            device_memory,
            observer,
        })
    }

    /// Plays until every stream has finished.
    pub fn run(mut self) -> Result<Stats, EngineError> {
        for s in 0..self.streams.len() as u32 {
            self.advance(s);
        }
        // Not until no event is left: those of kernels that ended sooner than once thought are out of date, and late.
        while self.unfinished > 0
            && let Some((kind, index, seq)) = self.next_event()
        {
            self.events += 1;
            match kind {
                STREAM => self.kernel_ended(index, seq),
                COMM => self.comm_ended(index),
                LATENCY => self.latency_over(index),
                SEEN => self.seen(index),
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
            return Err(self.stalled());
        }
        for (rank, &added) in (0..).zip(&self.device_memory.added).filter(|(_, added)| **added > Time::ZERO) {
            self.observer.slowed_by_memory(rank, added);
        }
        self.ledger.settle();
        self.observer.peaks(&self.ledger.peaks());
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
            if !self.asking.is_empty() && time.is_none_or(|t| t > self.now) {
                self.admit();
                continue;
            }
            if self.comms.sharing.is_dirty() && time.is_none_or(|t| t > self.now) {
                self.reshare();
                continue;
            }
            let time = time?;
            debug_assert!(time >= self.now);
            if self.observer.wants_state() && time > self.now {
                let state = self.state();
                self.observer.state(state);
            }
            if time > self.now && self.ledger.has_grown() {
                self.ledger.settle();
            }
            if time > LONGEST {
                self.error = Some(EngineError::TooLong { limit: LONGEST });
                return None;
            }
            self.now = time;
            if planned == Some(time) {
                self.agenda.pop();
                return first.map(event_of);
            }
            let (index, seq) = self.comms.pop_finish()?;
            return Some((FLOW, index, seq));
        }
    }

    /// The events of the agenda, out-of-date ones among them: when, what, of which entry, sequence number.
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
        let rank_index = stream.rank;
        let (start, latency) = (stream.start, stream.latency);
        let Code { op, frees, awaited, .. } = self.code[stream.cursor as usize];
        stream.cursor += 1;
        let rank = stream.home;
        if awaited {
            if latency == Time::ZERO {
                self.mark(&rank, op);
            } else {
                self.schedule(self.now + latency, SEEN, s);
            }
        }
        self.observer.finished(rank_index, op, start, self.now);
        if frees {
            self.free(rank_index, op, MemoryWhen::FreeAtEnd);
        }
        self.advance(s);
        if awaited && latency == Time::ZERO {
            self.wake(&rank, op);
        }
    }

    /// Other streams see the end of the next op of stream `s` that one of them waits for.
    fn seen(&mut self, s: u32) {
        let stream = &mut self.streams[s as usize];
        while !self.code[stream.seen as usize].awaited {
            stream.seen += 1;
        }
        let op = self.code[stream.seen as usize].op;
        stream.seen += 1;
        let rank = stream.home;
        self.mark(&rank, op);
        self.wake(&rank, op);
    }

    /// Notes that an op has ended.
    #[inline]
    fn mark(&mut self, rank: &RankState, op: u32) {
        self.done[rank.done_words as usize + (op >> 6) as usize] |= 1 << (op & 63);
    }

    /// Streams of the rank that wait for an op go on.
    #[inline]
    fn wake(&mut self, rank: &RankState, op: u32) {
        let (mut from, until) =
            (rank.first_stream as usize, rank.first_stream as usize + rank.streams as usize);
        while let Some(ahead) = self.blocked[from..until].iter().position(|waits_for| *waits_for == op) {
            self.advance((from + ahead) as u32);
            from += ahead + 1;
        }
    }

    #[inline]
    fn is_done(&self, rank: &RankState, op: u32) -> bool {
        self.done[rank.done_words as usize + (op >> 6) as usize] >> (op & 63) & 1 == 1
    }

    /// The first op that `code` waits for and that has not ended.
    #[inline]
    pub fn unfinished_wait(&self, rank: &RankState, op: u32, code: Code) -> Option<u32> {
        if code.wait == NONE {
            return None;
        }
        if !self.is_done(rank, code.wait) {
            return Some(code.wait);
        }
        if !code.more_waits {
            return None;
        }
        let program = self.compiled[rank.program as usize].program;
        let waits = &program.waits[program.ops[op as usize].waits.range()];
        waits.iter().map(|w| w.0).find(|&w| !self.is_done(rank, w))
    }

    /// Starts the op at the head of stream `s`, or notes what it waits for.
    #[inline]
    pub fn advance(&mut self, s: u32) {
        let stream = &self.streams[s as usize];
        if stream.cursor == stream.end {
            self.blocked[s as usize] = FINISHED;
            self.unfinished -= 1;
            return;
        }
        let (rank, r) = (stream.home, stream.rank);
        let code = self.code[stream.cursor as usize];
        let op = code.op;
        if let Some(wait) = self.unfinished_wait(&rank, op, code) {
            self.blocked[s as usize] = wait;
            return;
        }
        if code.allocates {
            self.streams[s as usize].start = self.now;
            self.blocked[s as usize] = NO_ROOM;
            self.asking.push(s);
            return;
        }
        self.launch(s, rank, r, code);
    }

    /// Starts an op that waits for nothing any more.
    #[inline]
    fn launch(&mut self, s: u32, rank: RankState, r: u32, code: Code) {
        if code.slot == NO_SLOT {
            self.start_kernel(s, rank, r, code);
        } else {
            self.arrive(s, rank.slots + u32::from(code.slot), code.value as u32);
        }
    }

    /// Decides who gets memory: kernels before copies, then who asked first, then by number of rank and stream. The
    /// order in which events of one instant came has no say, so that ranks which behave alike are treated alike.
    fn admit(&mut self) {
        let mut asking = std::mem::take(&mut self.asking);
        asking.sort_unstable_by_key(|&s| (!self.is_urgent(s), self.streams[s as usize].start, s));
        for &s in &asking {
            let stream = self.streams[s as usize];
            let code = self.code[stream.cursor as usize];
            if self.allocate(s, code.op) {
                self.launch(s, stream.home, stream.rank, code);
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
                self.blocked[s as usize] = RUNNING;
                if effects.iter().any(|e| e.when == MemoryWhen::FreeAtStart) {
                    self.wake_waiting(r, op, MemoryWhen::FreeAtStart);
                }
                true
            }
            Err(room) => {
                self.blocked[s as usize] = NO_ROOM;
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
        self.compiled[rank.program as usize].urgent[(s - rank.first_stream) as usize]
    }
}

/// What an entry of the agenda ends, of which entry, and its sequence number.
fn event_of(event: u128) -> (u32, u32, u64) {
    let low = event as u64;
    let index = low as u32 & ((1 << INDEX_BITS) - 1);
    let kind = (low >> INDEX_BITS) as u32 & ((1 << KIND_BITS) - 1);
    (kind, index, low >> (INDEX_BITS + KIND_BITS))
}
