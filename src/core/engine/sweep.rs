//! The forward sweep: exact times without an event queue, for worlds where nothing is ever shared or waited for in
//! memory. The oracle of the event loop's tests, and the fast path of the closed-form fidelity.
//!
//! Without contention the start of an op is the longest path to it: max over its stream predecessor, its waits, and
//! for communication the same of all members. Each op is visited once, when all of these are known; any order that
//! respects them gives the same times.

use super::code::{Code, NO_SLOT, NONE, ProgramCode, WorldCode, compile};
use super::{EngineError, Record, uncontended};
use crate::ids::{CommId, OpId, RankId};
use crate::program::World;
use crate::units::Time;

/// The record of a world in which every action takes its uncontended time and every allocation fits.
///
/// # Errors
/// `Invalid` for a world that contradicts itself, and where ops remain that wait for each other; play such a world
/// to be told of the cycle.
pub fn sweep(world: &World) -> Result<Record, EngineError> {
    let WorldCode { programs: compiled, code, .. } = compile(&world.programs, true)?;
    let mut sweep = Sweep {
        rates: uncontended::path_rates(world),
        cursor: world.ranks.iter().map(|r| compiled[r.program.index()].first.clone()).collect(),
        stream_end: world
            .ranks
            .iter()
            .map(|r| vec![Time::ZERO; compiled[r.program.index()].streams()])
            .collect(),
        arrived: vec![(Vec::new(), Time::ZERO); world.comms.len()],
        known: world.ranks.iter().map(|r| vec![false; world.programs[r.program.index()].ops.len()]).collect(),
        todo: (0..world.ranks.len() as u32).map(RankId).collect(),
        record: Record::for_world(world),
        left: world.op_instances(),
        world,
        compiled,
        code,
    };
    while let Some(rank) = sweep.todo.pop() {
        sweep.rank(rank)?;
    }
    if sweep.left > 0 {
        return Err(EngineError::Invalid(format!("{} ops wait for each other", sweep.left)));
    }
    Ok(sweep.record)
}

struct Sweep<'w> {
    world: &'w World,
    compiled: Vec<ProgramCode<'w>>,
    code: Vec<Code>,
    rates: Vec<f64>,
    cursor: Vec<Vec<u32>>,
    stream_end: Vec<Vec<Time>>,
    /// By communicator: who has arrived, and when the last of them did.
    arrived: Vec<(Vec<(RankId, usize)>, Time)>,
    known: Vec<Vec<bool>>,
    todo: Vec<RankId>,
    record: Record,
    left: u64,
}

impl Sweep<'_> {
    /// Goes as far as it can on all streams of a rank.
    fn rank(&mut self, rank: RankId) -> Result<(), EngineError> {
        let mut moved = true;
        while moved {
            moved = false;
            for s in 0..self.stream_end[rank.index()].len() {
                while self.step(rank, s)? {
                    moved = true;
                }
            }
        }
        Ok(())
    }

    /// Places the op at the head of a stream; false if something it needs is not known yet.
    fn step(&mut self, rank: RankId, s: usize) -> Result<bool, EngineError> {
        let r = rank.index();
        let program = &self.compiled[self.world.ranks[r].program.index()];
        let cursor = self.cursor[r][s];
        // A cursor past its stream marks a head that has arrived and waits for the others.
        if cursor >= program.end(s) {
            return Ok(false);
        }
        let code = self.code[cursor as usize];
        let op = code.op as usize;
        let waits = &program.program.waits[program.program.ops[op].waits.range()];
        if waits.iter().any(|w| !self.known[r][w.index()]) {
            return Ok(false);
        }
        let ends =
            |w: &OpId| self.record.span(rank, *w).1 + program.program.latency_between(*w, OpId(code.op));
        let ready = waits.iter().map(ends).max().unwrap_or_default().max(self.stream_end[r][s]);
        if code.slot == NO_SLOT {
            let time = super::kernel_time(self.world, rank, OpId(op as u32), code.value);
            let varies = self.world.ranks[r].slowness != 1.0 || self.world.ranks[r].jitter_seed != 0;
            self.place(rank, s, ready, ready + Time(if varies { time } else { code.value }));
            return Ok(true);
        }
        self.cursor[r][s] = cursor | ARRIVED;
        let comm = self.world.slots_of(rank)[usize::from(code.slot)];
        let (members, last) = &mut self.arrived[comm.index()];
        members.push((rank, s));
        *last = ready.max(*last);
        if members.len() == self.world.comms[comm.index()].needed as usize {
            self.communicate(comm, code.value as u32)?;
        }
        Ok(true)
    }

    fn communicate(&mut self, comm: CommId, transfer: u32) -> Result<(), EngineError> {
        let (members, start) = std::mem::take(&mut self.arrived[comm.index()]);
        let time = uncontended::transfer_time(self.world, |path| self.rates[path], comm, transfer)
            .ok_or_else(|| EngineError::Invalid(format!("no action for transfer {transfer}")))?;
        for (rank, s) in members {
            self.cursor[rank.index()][s] &= !ARRIVED;
            self.place(rank, s, start, start + time);
            self.todo.push(rank);
        }
        Ok(())
    }

    fn place(&mut self, rank: RankId, s: usize, start: Time, end: Time) {
        let r = rank.index();
        let op = self.code[self.cursor[r][s] as usize].op;
        assert_ne!(op, NONE);
        let i = self.record.first[r] as usize + op as usize;
        self.record.spans[i] = (start, end);
        self.record.step_end = self.record.step_end.max(end);
        self.known[r][op as usize] = true;
        self.stream_end[r][s] = end;
        self.cursor[r][s] += 1;
        self.left -= 1;
    }
}

/// Set in the cursor of a stream whose head has arrived at its communicator.
const ARRIVED: u32 = 1 << 31;
