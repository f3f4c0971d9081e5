//! Communication by kind: how much of it kernels hid, and how much the compute stream sat through.
//!
//! On one rank, a kind *ran* while at least one op of the kind was on its way (the union over time, not the sum over
//! ops: two transfers side by side count once). That time has three parts:
//!
//! * *under kernels*: the compute stream was busy. Only this is overlap;
//! * *exposed*: the compute stream stood still for an op of the kind, queues behind it and contention included;
//! * *while idle*: the compute stream stood still for something else, as a transfer in a pipeline bubble.
//!
//! Waiting for a peer that has not arrived is not communication: it is no part of the time that a kind ran.

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Causes;
use super::idle::IdleTimes;
use super::kind::OpKind;
use super::stalls::{Stall, stalls_of};
use super::turns::Recurring;
pub use reading::CommunicationReading;
pub(crate) use reading::communication;
use stepsim_core::engine::Record;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::intervals::Intervals;
use stepsim_core::program::{Work, World};
use stepsim_core::units::{PS_PER_S, Time};

/// Communication of one kind, mean over ranks. `under_kernels_s`, `while_idle_s` and `exposed_s` sum to `ran_s`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CommunicationReport {
    /// Time during which at least one op of the kind ran.
    pub ran_s: f64,
    /// The part during which a kernel ran: overlap.
    pub under_kernels_s: f64,
    /// The part during which the compute stream stood still for something else.
    pub while_idle_s: f64,
    /// The part during which the compute stream stood still for it.
    pub exposed_s: f64,
    /// The sum over the ops: more than `ran_s` where they ran side by side.
    pub op_seconds: f64,
    /// Bytes of the messages of one rank.
    pub bytes: f64,
    /// Operations of one rank.
    pub ops: f64,
}

/// Communication of one kind on one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KindTime {
    /// Ops of the kind.
    pub ops: u64,
    /// The sum of their times.
    pub op_time: Time,
    /// Time during which at least one of them ran.
    pub ran: Time,
    /// The part during which a kernel ran.
    pub under_kernels: Time,
    /// The part that stalled the compute stream.
    pub exposed: Time,
    /// Bytes of their messages on this rank, of each in whole bytes.
    pub bytes: u128,
}

impl KindTime {}

/// All kinds on one rank: index with `kind as usize`; kernels and host work stay zero.
pub type OverlapByKind = [KindTime; OpKind::ALL.len()];

/// The communication of one rank. `stalls` are that rank's, as [`super::stalls::stalls_of`] finds them.
pub fn overlap(causes: &Causes, rank: RankId, recurring: &Recurring, stalls: &[Stall]) -> OverlapByKind {
    let world = causes.world();
    let program = world.program_of(rank);
    let times = recurring.of_rank(rank, program);
    let mut kinds = OverlapByKind::default();
    let mut spans: [Vec<(Time, Time)>; OpKind::ALL.len()] = Default::default();
    for (i, op) in program.ops.iter().enumerate() {
        if let Work::Comm { .. } = op.work {
            let id = OpId(i as u32);
            let ((start, end), times) = (causes.span(rank, id), times(id));
            let of = causes.kind(rank, id) as usize;
            let kind = &mut kinds[of];
            kind.ops += times;
            kind.op_time += (end - start) * times;
            kind.bytes += u128::from(times) * program.infos[op.info as usize].bytes.round() as u128;
            spans[of].push((start, end));
        }
    }
    let kernels = Intervals::union(causes.index_of(rank).kernels.iter().map(|k| causes.span(rank, *k)));
    let time = |spans: &Intervals<Time>| spans.iter().map(|(start, end)| recurring.time(start, end)).sum();
    for (kind, spans) in kinds.iter_mut().zip(spans) {
        let spans = Intervals::union(spans);
        kind.ran = time(&spans);
        kind.under_kernels = time(&spans.meet(&kernels));
    }
    for stall in stalls {
        if let Some(kind) = exposes(causes, stall) {
            kinds[kind as usize].exposed += stall.time() * stall.waiting.map_or(1, times);
        }
    }
    kinds
}

/// The kind of communication that a stall exposes: it ran on the stalled rank, and the rank stood still for it.
fn exposes(causes: &Causes, stall: &Stall) -> Option<OpKind> {
    let (on, op) = stall.waited_for?;
    let ran = stall.start >= causes.span(on, op).0;
    let is_comm = matches!(causes.world().program_of(on).ops[op.index()].work, Work::Comm { .. });
    (on == stall.rank && is_comm && ran).then(|| causes.kind(on, op))
}

/// A stretch of time, and the number of times that it comes more than it was played.
pub type RepeatedTime = ((Time, Time), u64);

/// Seconds for which the compute stream of a mean rank stood still.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StoodStill {
    /// For communication, by its kind: the report's `exposed_s`.
    pub exposed: BTreeMap<OpKind, f64>,
    /// For other ranks: bubbles, late peers, the end of the step.
    pub for_others: f64,
}

/// The standstill of a mean rank. `weights` are the ranks that each simulated one stands for; time in a section counts
/// as often as the section comes.
pub fn exposed(
    world: &World,
    record: &Record,
    idle: &mut IdleTimes,
    weights: &[u64],
    section: Option<RepeatedTime>,
) -> StoodStill {
    let mut causes = Causes::new(world, record);
    let (mut times, mut occurs) = ([0u128; OpKind::ALL.len()], [false; OpKind::ALL.len()]);
    let mut for_others = 0u128;
    let mut pieces = Vec::new();
    for (rank, weight) in weights.iter().enumerate() {
        let rank = RankId(rank as u32);
        pieces.clear();
        stalls_of(&mut causes, idle, rank, &mut pieces);
        for stall in &pieces {
            let again = section.map_or(0, |((from, until), more)| {
                u128::from(stall.end.min(until).saturating_sub(stall.start.max(from)).0) * u128::from(more)
            });
            let time = u128::from(*weight) * (u128::from(stall.time().0) + again);
            if stall.cause.is_for_others() {
                for_others += time;
            }
            if let Some(kind) = exposes(&causes, stall) {
                times[kind as usize] += time;
            }
        }
        let index = causes.index_of(rank);
        index.by_slot.iter().flatten().for_each(|op| occurs[index.kinds[op.index()] as usize] = true);
    }
    let all: f64 = weights.iter().map(|weight| *weight as f64).sum();
    let seconds = |time: u128| time as f64 / all / PS_PER_S;
    let of_kind = |kind: OpKind| occurs[kind as usize].then(|| (kind, seconds(times[kind as usize])));
    StoodStill {
        exposed: OpKind::ALL.into_iter().filter_map(of_kind).collect(),
        for_others: seconds(for_others),
    }
}
