//! Telling why nothing moves: out of memory, or a wait cycle.

use std::cmp::Reverse;

use super::event_loop::Play;
use super::memory::{Ledger, NoRoom};
use super::ranks::{ARRIVED, FINISHED, NO_ROOM, NOT_BEGUN, RUNNING};
use super::{EngineError, Listener, WaitingOp};
use crate::ids::{OpId, RankId, TierId};
use crate::program::{MemoryWhen, NO_MICRO_BATCH, Program, Work, World};
use crate::units::{Bytes, Time};

/// An op in words: `F qkv, layer 3, micro-batch 2`.
pub fn describe(program: &Program, op: OpId) -> String {
    let op = &program.ops[op.index()];
    let Some(info) = program.infos.get(op.info as usize) else {
        return "op".into();
    };
    let mut text = format!("{} `{}`", info.phase.name(), info.name);
    if let Some(layer) = info.layer {
        text += &format!(", layer {layer}");
    }
    if op.micro_batch != NO_MICRO_BATCH {
        text += &format!(", micro-batch {}", op.micro_batch);
    }
    text
}

pub(super) fn out_of_memory(
    world: &World,
    ledger: &Ledger,
    at: Time,
    rank: RankId,
    op: Option<OpId>,
    room: NoRoom,
) -> EngineError {
    let tier = &world.tiers[room.tier.index()];
    EngineError::OutOfMemory {
        at,
        rank,
        op: op.map_or("the state before the step".into(), |op| describe(world.program_of(rank), op)),
        need: Bytes(room.need),
        tier: tier.name.to_string(),
        level: ledger.level(room.tier),
        capacity: tier.capacity,
        holds: ledger.holdings(room.tier),
    }
}

impl<O: Listener + ?Sized> Play<'_, O> {
    fn head(&self, s: u32) -> (RankId, OpId) {
        let stream = &self.streams[s as usize];
        (RankId(stream.rank), OpId(self.code[stream.cursor as usize].op))
    }

    fn stream_name(&self, s: u32) -> &'static str {
        let rank = &self.ranks[self.streams[s as usize].rank as usize];
        self.compiled[rank.program as usize].program.streams[usize::from(rank.number_of(s))].kind.name()
    }

    pub fn mismatch(&self, s: u32, transfer: u32, expected: u32) -> EngineError {
        let (rank, op) = self.head(s);
        let op = describe(self.world.program_of(rank), op);
        EngineError::Mismatch { at: self.now, rank, op, transfer, expected }
    }

    /// Why the run stands still: room that never comes, else the cycle of waits. Where a device and a tier behind it
    /// are both full, the tier behind it is the cause: what would leave the device has nowhere to go.
    pub fn stalled(&self) -> EngineError {
        let behind = |&(s, tier): &(u32, TierId)| {
            let tiers = self.world.tiers_of(RankId(self.streams[s as usize].rank));
            tiers.iter().position(|t| t.tier == tier)
        };
        if let Some((s, tier)) = self.ledger.waiting().max_by_key(|w| (behind(w), Reverse(w.1))) {
            let (rank, op) = self.head(s);
            let program = self.world.program_of(rank);
            let tiers = self.world.tiers_of(rank);
            let asked = program.memory[program.ops[op.index()].memory.range()].iter();
            let need = asked
                .filter(|e| e.when == MemoryWhen::AllocAtStart && tiers[usize::from(e.tier)].tier == tier)
                .map(|e| e.bytes * u64::from(tiers[usize::from(e.tier)].count))
                .sum();
            return out_of_memory(self.world, &self.ledger, self.now, rank, Some(op), NoRoom { tier, need });
        }
        let mut streams = self.ranks.iter().flat_map(|rank| rank.all_streams());
        let stuck = streams.find(|&s| self.streams[s as usize].blocked != FINISHED).unwrap_or(0);
        let mut chain: Vec<(u32, WaitingOp)> = Vec::new();
        let mut s = stuck;
        while !chain.iter().any(|(seen, _)| *seen == s) {
            let (next, waits_for) = self.waits_for(s);
            let (rank, op) = self.head(s);
            let op = describe(self.world.program_of(rank), op);
            chain.push((s, WaitingOp { rank, stream: self.stream_name(s), op, waits_for }));
            match next {
                Some(next) => s = next,
                None => break,
            }
        }
        let from = chain.iter().position(|(seen, _)| *seen == s).unwrap_or(0);
        EngineError::Deadlock { at: self.now, cycle: chain.drain(from..).map(|(_, w)| w).collect() }
    }

    /// The stream whose head keeps stream `s` waiting, and in words why.
    fn waits_for(&self, s: u32) -> (Option<u32>, String) {
        let (rank, op) = self.head(s);
        let program = self.world.program_of(rank);
        let state = self.ranks[rank.index()];
        match self.streams[s as usize].blocked {
            ARRIVED => self.absent_member(rank, program, op),
            RUNNING | NO_ROOM | FINISHED | NOT_BEGUN => (None, "nothing".into()),
            wait => {
                let wait = OpId(self.code[wait as usize].op);
                let stream = state.stream(program.ops[wait.index()].stream);
                (Some(stream), format!("{} on its {}", describe(program, wait), self.stream_name(stream)))
            }
        }
    }

    /// A member that has not come to the communicator where `op` waits, and the stream that should bring it.
    fn absent_member(&self, rank: RankId, program: &Program, op: OpId) -> (Option<u32>, String) {
        let Work::Comm { slot, .. } = program.ops[op.index()].work else {
            return (None, "nothing".into());
        };
        let comm = self.world.slots_of(rank)[usize::from(slot)];
        for &member in self.world.members_of(comm) {
            let state = self.ranks[member.index()];
            let compiled = &self.compiled[state.program as usize];
            for (slot, _) in self.world.slots_of(member).iter().enumerate().filter(|(_, c)| **c == comm) {
                for t in 0..state.streams {
                    let s = state.stream(t);
                    let stream = &self.streams[s as usize];
                    let ops = &self.code[stream.cursor as usize..compiled.end(usize::from(t)) as usize];
                    let Some(at) = ops.iter().position(|c| c.slot == slot as u16) else { continue };
                    if self.streams[s as usize].blocked == ARRIVED && at == 0 {
                        continue;
                    }
                    let what = describe(compiled.program, OpId(ops[at].op));
                    return (Some(s), format!("rank {} to join with {what}", member.0));
                }
            }
        }
        (None, "members that have no op left for this communicator".into())
    }
}
