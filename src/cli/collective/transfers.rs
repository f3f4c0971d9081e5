//! Every transfer of one collective that was played in steps: when, and from whom to whom.
//!
//! The engine records when a collective began and ended, not its transfers. So they are played once more, as a rank
//! that has a stream for each and waits where the collective does; both take the same time. A transfer that queues is
//! two ops there: its latency, and its bytes, which wait for those before them, too.

use std::sync::Arc;

use super::row::{MOST_DRAWN, SizeRow, stopped};
use crate::Failure;
use stepsim_core::engine;
use stepsim_core::engine::Record;
use stepsim_core::ids::{CommId, OpId, ProgramId, RankId, TransferId};
use stepsim_core::program::{
    Action, BEHIND, Comm, Flow, NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, Span, StreamKind, Work, World,
};
use stepsim_core::units::Time;
use stepsim_fabric::collective::RouteEnds;

/// A transfer.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TransferRun {
    pub sent: RouteEnds,
    pub start: Time,
    pub end: Time,
}

/// The transfers of a row in order of time; `None` if it was not played in steps, or they are too many.
pub(super) fn played(row: &SizeRow) -> Result<Option<Vec<TransferRun>>, Failure> {
    let comm = row.world.comms[0];
    let action = row.world.profiles[comm.profile as usize][0] as usize;
    if row.world.actions[action].count() > MOST_DRAWN {
        return Ok(None);
    }
    let action = row.world.actions[action].flat();
    let Action::Graph { flows, parents, parent_ids } = &*action else { return Ok(None) };
    let (world, ops) = alone(row, flows, parents, parent_ids);
    let record = engine::run(&world).map_err(stopped)?;
    Ok(Some(read(row, flows, &ops, &record)))
}

/// A world with one rank, where each op is one flow or a part of it; and the first and the last op of each flow.
fn alone(row: &SizeRow, flows: &[Flow], parents: &[Span], parent_ids: &[u32]) -> (World, Vec<[OpId; 2]>) {
    let mut world = World {
        resources: row.world.resources.clone(),
        paths: row.world.paths.clone(),
        uses: row.world.uses.clone(),
        ..World::default()
    };
    let mut b = ProgramBuilder::new();
    let info = b.info(OpInfo::of("transfer", Phase::Forward, 0.0));
    let mut played = Vec::new();
    let mut op = |flow: Flow, waits: &[OpId]| {
        let (stream, slot) = (b.stream(StreamKind::Data), played.len() as u16);
        played.push(flow);
        b.op(stream, Work::Comm { slot, transfer: TransferId(0) }, waits, info, NO_MICRO_BATCH)
    };
    let mut ops: Vec<[OpId; 2]> = Vec::with_capacity(flows.len());
    for (flow, span) in flows.iter().zip(parents) {
        let ends = |queues: bool| {
            let all = parent_ids[span.range()].iter().filter(move |p| (**p & BEHIND != 0) == queues);
            all.map(|p| ops[(p & !BEHIND) as usize][1])
        };
        let (mut waits, before): (Vec<OpId>, Vec<OpId>) = (ends(false).collect(), ends(true).collect());
        let mut bytes = *flow;
        let mut first = None;
        if !before.is_empty() {
            bytes.latency = Time::ZERO;
            let latency = op(Flow { bytes: 0.0, ..*flow }, &waits);
            first = Some(latency);
            waits = before.into_iter().chain([latency]).collect();
        }
        let last = op(bytes, &waits);
        ops.push([first.unwrap_or(last), last]);
    }
    world.programs.push(Arc::new(b.finish()));
    let rank = world.add_rank(ProgramId(0), played.len() as u32);
    for (slot, flow) in (0u16..).zip(played) {
        world.actions.push(Action::Phases(vec![flow]));
        world.profiles.push(vec![u32::from(slot)]);
        let members = Span { start: world.members.len() as u32, len: 1 };
        world.members.push(rank);
        world.comms.push(Comm { needed: 1, profile: slot.into(), members, paths: row.world.comms[0].paths });
        world.bind(rank, slot, CommId(slot.into()));
    }
    (world, ops)
}

fn read(row: &SizeRow, flows: &[Flow], ops: &[[OpId; 2]], record: &Record) -> Vec<TransferRun> {
    let of = |(flow, [first, last]): (&Flow, &[OpId; 2])| {
        let sent = (*row.sent.get(flow.path as usize)?)?;
        let (start, end) = (record.span(RankId(0), *first).0, record.span(RankId(0), *last).1);
        Some(TransferRun { sent, start, end })
    };
    let mut all: Vec<TransferRun> = flows.iter().zip(ops).filter_map(of).collect();
    all.sort_by_key(|p| (p.start, p.end, p.sent.from, p.sent.to));
    all
}
