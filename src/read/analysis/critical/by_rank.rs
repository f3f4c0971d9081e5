//! The time of the critical path on each rank, from what ops waited for alone.

use std::collections::BTreeMap;

use stepsim_core::engine::{Cause, CauseRecord};
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::{Program, Work, World};
use stepsim_core::units::Time;

/// Walks critical paths of runs of one world, or of worlds that differ from it in draws alone.
pub struct PathWalk<'a> {
    world: &'a World,
    /// By program and slot: its ops.
    by_slot: Vec<Vec<Vec<OpId>>>,
}

impl PathWalk<'_> {
    /// Indexes the programs of a world.
    pub fn of(world: &World) -> PathWalk<'_> {
        PathWalk { world, by_slot: world.programs.iter().map(|program| by_slot(program)).collect() }
    }

    /// As [`super::CriticalPath::by_rank`] of a run that ended at `end`.
    pub fn by_rank(&self, causes: &CauseRecord, end: Time) -> Vec<(RankId, Time)> {
        let mut times: BTreeMap<RankId, Time> = BTreeMap::new();
        let mut until = end;
        let ((mut rank, mut op), _) = self.bound(causes, causes.last());
        while let Some(before) = self.before(causes, rank, op) {
            let ((bound, of_bound), since) = self.bound(causes, (rank, before));
            if bound != rank {
                *times.entry(rank).or_default() += until - since;
                until = since;
            }
            (rank, op) = (bound, of_bound);
        }
        *times.entry(rank).or_default() += until;
        times.into_iter().collect()
    }

    /// The member that an op's action waited for, and when the action ended; of a kernel, the op itself.
    fn bound(&self, causes: &CauseRecord, (rank, op): (RankId, OpId)) -> ((RankId, OpId), Time) {
        match self.world.program_of(rank).ops[op.index()].work {
            Work::Comm { slot, .. } => {
                let (slot, program) = (usize::from(slot), self.world.ranks[rank.index()].program.index());
                let number = self.by_slot[program][slot].partition_point(|other| *other < op) as u32;
                let comm = self.world.slots_of(rank)[slot];
                (causes.bound_by(rank, op, comm, number), causes.end_of(comm, number))
            }
            Work::Compute { .. } => ((rank, op), Time::ZERO),
        }
    }

    /// The op that an op waited for last.
    fn before(&self, causes: &CauseRecord, rank: RankId, op: OpId) -> Option<OpId> {
        let program = self.world.program_of(rank);
        match causes.cause(program, rank, op) {
            Cause::Wait(wait) => Some(wait),
            Cause::Predecessor => {
                let stream = &program.streams[usize::from(program.ops[op.index()].stream)].ops;
                let place = stream.partition_point(|other| *other < op);
                place.checked_sub(1).map(|before| stream[before])
            }
        }
    }
}

fn by_slot(program: &Program) -> Vec<Vec<OpId>> {
    let mut by_slot: Vec<Vec<OpId>> = Vec::new();
    for (number, op) in (0..).map(OpId).zip(&program.ops) {
        if let Work::Comm { slot, .. } = op.work {
            let slot = usize::from(slot);
            by_slot.resize(by_slot.len().max(slot + 1), Vec::new());
            by_slot[slot].push(number);
        }
    }
    by_slot
}
