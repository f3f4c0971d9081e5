//! The last wait of each op, noted as the run goes: a byte an op and 16 an action, where a record takes 16 an op.
//!
//! An op without a note waited for the op before it on its stream; a wait that ended at the same moment
//! does not count beside it, and of several that did the first is noted. Of an action it is noted which member was
//! ready last, the first in the order of members, and which others came no sooner than it began. From this follows
//! the chain that a step's length hangs on, as it follows from a record.

use rustc_hash::FxHashMap;

use super::code::{Code, NONE, is_open};
use super::comms::CommState;
use super::event_loop::Play;
use super::ranks::{ARRIVED, RUNNING, StreamState};
use super::{Listener, Observer};
use crate::ids::{CommId, OpId, RankId};
use crate::program::{Program, Work, World};
use crate::units::Time;

/// The mark of an op that came last to its action.
const CAME_LAST: u8 = 1 << 7;
/// The number of a wait that has no room in a byte.
const FAR: u8 = CAME_LAST - 1;

/// The last wait of an op on its own rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The op before it on its stream, if there is one.
    Predecessor,
    /// Another op.
    Wait(OpId),
}

/// An action of a communicator.
#[derive(Clone, Copy, Debug, Default)]
struct JointAction {
    end: Time,
    /// The member that was ready last, and its op.
    last: (u32, u32),
}

/// The last wait of each op of a run.
#[derive(Debug)]
pub struct CauseRecord {
    /// `first[rank]` is where the rank's ops begin in `causes`.
    first: Vec<usize>,
    /// By op: 0 or 1 more than the number of its wait, and a mark.
    causes: Vec<u8>,
    far: FxHashMap<(u32, u32), u32>,
    /// `first_action[comm]` is where the actions of a communicator begin, in order of time.
    first_action: Vec<u32>,
    actions: Vec<JointAction>,
    /// By communicator: its actions that have ended.
    parted: Vec<u32>,
    last: (u32, u32),
}

impl CauseRecord {
    /// Room for a world.
    pub fn for_world(world: &World) -> CauseRecord {
        let mut first = Vec::with_capacity(world.ranks.len() + 1);
        let mut total = 0;
        for rank in &world.ranks {
            first.push(total);
            total += world.programs[rank.program.index()].ops.len();
        }
        let of_programs: Vec<Vec<u32>> = world.programs.iter().map(|program| slot_uses(program)).collect();
        let mut counts = vec![0; world.comms.len()];
        for (r, rank) in (0..).zip(&world.ranks) {
            for (comm, uses) in world.slots_of(RankId(r)).iter().zip(&of_programs[rank.program.index()]) {
                if let Some(count) = counts.get_mut(comm.index()) {
                    *count = u32::max(*count, *uses);
                }
            }
        }
        let mut actions = 0;
        let first_action = counts.iter().map(|count| {
            actions += count;
            actions - count
        });
        CauseRecord {
            first,
            first_action: first_action.collect(),
            causes: vec![0; total],
            far: FxHashMap::default(),
            actions: vec![JointAction::default(); actions as usize],
            parted: vec![0; world.comms.len()],
            last: (0, 0),
        }
    }

    /// Forgets a run.
    pub(super) fn clear(&mut self) {
        self.causes.fill(0);
        self.far.clear();
        self.parted.fill(0);
    }

    /// The op that ended last, the first of the lowest rank of several.
    pub fn last(&self) -> (RankId, OpId) {
        (RankId(self.last.0), OpId(self.last.1))
    }

    /// The last wait of an op of a rank that does `program`.
    pub fn cause(&self, program: &Program, rank: RankId, op: OpId) -> Cause {
        let number = match self.causes[self.place(rank.0, op.0)] & !CAME_LAST {
            FAR => self.far.get(&(rank.0, op.0)).copied(),
            byte => u32::from(byte).checked_sub(1),
        };
        let waits = &program.waits[program.ops[op.index()].waits.range()];
        let mut open = waits.iter().filter(|wait| is_open(program, op.0, wait.0));
        let wait = number.and_then(|wait| open.nth(wait as usize));
        wait.map_or(Cause::Predecessor, |wait| Cause::Wait(*wait))
    }

    /// The member on which a communication op waited, itself included: the op is the `number`-th of its communicator.
    pub fn bound_by(&self, rank: RankId, op: OpId, comm: CommId, number: u32) -> (RankId, OpId) {
        if self.causes[self.place(rank.0, op.0)] & CAME_LAST != 0 {
            return (rank, op);
        }
        let (rank, op) = self.action(comm, number).last;
        (RankId(rank), OpId(op))
    }

    /// When the `number`-th action of a communicator ended.
    pub fn end_of(&self, comm: CommId, number: u32) -> Time {
        self.action(comm, number).end
    }

    fn action(&self, comm: CommId, number: u32) -> JointAction {
        self.actions[(self.first_action[comm.index()] + number) as usize]
    }

    fn place(&self, rank: u32, op: u32) -> usize {
        self.first[rank as usize] + op as usize
    }

    fn under_way(&mut self, comm: u32) -> &mut JointAction {
        let place = self.first_action[comm as usize] + self.parted[comm as usize];
        &mut self.actions[place as usize]
    }
}

/// By slot: how many ops of a program use it.
fn slot_uses(program: &Program) -> Vec<u32> {
    let mut uses = Vec::new();
    for op in &program.ops {
        if let Work::Comm { slot, .. } = op.work {
            let slot = usize::from(slot);
            uses.resize(uses.len().max(slot + 1), 0);
            uses[slot] += 1;
        }
    }
    uses
}

impl Observer for CauseRecord {
    #[inline]
    fn finished(&mut self, _: u32, _: u32, _: Time, _: Time) {}
}

impl Listener for CauseRecord {
    const CAUSES: bool = true;
    #[inline]
    fn waited(&mut self, rank: u32, op: u32, wait: u32) {
        let place = self.place(rank, op);
        self.causes[place] = u8::try_from(wait + 1).map_or(FAR, |byte| byte.min(FAR));
        if self.causes[place] == FAR {
            self.far.insert((rank, op), wait);
        }
    }
    #[inline]
    fn came_last(&mut self, rank: u32, op: u32) {
        let place = self.place(rank, op);
        self.causes[place] |= CAME_LAST;
    }
    fn joined(&mut self, comm: u32, rank: u32, op: u32) {
        self.under_way(comm).last = (rank, op);
    }
    fn parted(&mut self, comm: u32, end: Time) {
        self.under_way(comm).end = end;
        self.parted[comm as usize] += 1;
    }
    fn ended_last(&mut self, rank: u32, op: u32) {
        self.last = (rank, op);
    }
}

/// A moment at which ops of a stream ended, and the place in the code of the first of them.
type EndMoment = (Time, u32);

/// The ops of a stream that ended last.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamEnds {
    ended: EndMoment,
    /// The same as other streams see it, where they see it later.
    seen: EndMoment,
}

impl Default for StreamEnds {
    fn default() -> Self {
        StreamEnds { ended: (Time::MAX, 0), seen: (Time::MAX, 0) }
    }
}

impl StreamEnds {
    #[inline]
    pub fn end(&mut self, now: Time, place: u32) {
        if self.ended.0 != now {
            self.ended = (now, place);
        }
    }
    pub fn see(&mut self, now: Time, place: u32) {
        if self.seen.0 != now {
            self.seen = (now, place);
        }
    }
}

impl<O: Listener + ?Sized> Play<'_, O> {
    /// Notes what the op at the head of stream `s`, which is ready now, waited for last.
    #[inline]
    pub fn note_cause(&mut self, s: u32, r: u32, code: &Code) {
        let StreamState { blocked, .. } = self.streams[s as usize];
        self.streams[s as usize].start = self.now;
        if code.wait != NONE
            && !matches!(blocked, RUNNING | ARRIVED)
            && self.ended[s as usize].ended.0 != self.now
        {
            self.note_wait(r, code);
        }
    }

    /// Notes the first of the waits of an op that ended now.
    pub fn note_wait(&mut self, r: u32, code: &Code) {
        if code.wait == NONE {
            return;
        }
        if !code.more_waits {
            return self.observer.waited(r, code.op, 0);
        }
        let rank = self.ranks[r as usize];
        for (number, wait) in (0..).zip(&self.waits[code.wait as usize..]) {
            if self.is_seen_now(rank.stream(wait.stream), wait.place) {
                return self.observer.waited(r, code.op, number);
            }
            if wait.last {
                return;
            }
        }
    }

    /// True if other streams see the end of the op at a place in the code of stream `s` now, and not before.
    fn is_seen_now(&self, s: u32, place: u32) -> bool {
        let code = &self.code[place as usize];
        let StreamEnds { ended, seen } = self.ended[s as usize];
        match (code.ahead, code.late) {
            (true, _) => self.ahead_of(s).sees(place) == Some(self.now),
            (_, true) => seen.0 == self.now && seen.1 <= place,
            _ => ended.0 == self.now && ended.1 <= place,
        }
    }

    /// Notes who was ready last of those that have come to a communicator, and who came as its action begins.
    pub fn note_arrivals(&mut self, comm: u32) {
        let CommState { first_arrival, needed, .. } = self.comms.states[comm as usize];
        let mut last = (Time::ZERO, u32::MAX, 0);
        for i in first_arrival..first_arrival + needed {
            let s = self.comms.arrivals[i as usize];
            let StreamState { rank, cursor, start: ready, .. } = self.streams[s as usize];
            let op = self.code[cursor as usize].op;
            if ready == self.now {
                self.observer.came_last(rank, op);
            }
            let comes_before = || self.member_place(comm, rank) < self.member_place(comm, last.1);
            if last.1 == u32::MAX || ready > last.0 || (ready == last.0 && comes_before()) {
                last = (ready, rank, op);
            }
        }
        self.observer.joined(comm, last.1, last.2);
    }

    fn member_place(&self, comm: u32, rank: u32) -> Option<usize> {
        self.world.members_of(CommId(comm)).iter().position(|member| member.0 == rank)
    }

    /// Tells the op that ended last.
    pub fn tell_last(&mut self) {
        let ends_now = |s: u32| {
            let place = if self.runs_ahead(s) {
                self.ahead_of(s).ends_at(self.now)
            } else {
                let (end, place) = self.ended[s as usize].ended;
                (end == self.now).then_some(place)
            };
            place.map(|place| (self.streams[s as usize].rank, self.code[place as usize].op))
        };
        if let Some((rank, op)) = (0..self.streams.len() as u32).filter_map(ends_now).min() {
            self.observer.ended_last(rank, op);
        }
    }
}
