//! Slack: how much later an op could end without moving the end of the step, everything else taking as long as it did.
//!
//! Backwards from the end of the step, the latest end of an op is the earliest of the latest starts of what waits for
//! it: the op behind it on its stream, and the ops that name it. A communication ends for all members at once, and
//! may start as late as the first of them needs. Waits for room on a tier are part of the op that waited: what freed
//! the room is not known. So ops on the critical path have no slack, and an op without slack lies on some critical
//! path.
//!
//! Every op is visited once, when all that waits for it has been: no recursion, and time linear in ops and waits.

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::Causes;
use super::kind::OpKind;
use super::turns::Recurring;
pub use reading::Slacks;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::Program;
use stepsim_core::units::{PS_PER_S, Time};

/// The slack of every op of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slack {
    first: Vec<u64>,
    of: Vec<Time>,
}

impl Slack {
    /// Of one op.
    pub fn get(&self, rank: RankId, op: OpId) -> Time {
        self.of[self.first[rank.index()] as usize + op.index()]
    }
}

const NONE: u32 = u32::MAX;

/// A communication of all its members.
#[derive(Clone, Copy, Debug)]
struct JointOp {
    /// Members that something behind them still holds back.
    pending: u32,
    /// The first member in the list of `members`.
    member: u32,
    latest: Time,
}

/// A member of an action.
#[derive(Clone, Copy, Debug)]
struct Member {
    rank: RankId,
    op: OpId,
    /// The next one of the same action.
    next: u32,
}

struct SlackWalk<'c, 'a> {
    causes: &'c Causes<'a>,
    /// By op: its latest end as known so far.
    latest: Vec<Time>,
    /// By op: what waits for it and has not been visited.
    pending: Vec<u32>,
    /// By op: its action.
    action: Vec<u32>,
    actions: Vec<JointOp>,
    members: Vec<Member>,
    todo: Vec<(RankId, OpId)>,
}

/// Finds the slack of every op of a run.
pub fn slack(causes: &Causes) -> Slack {
    let record = causes.record();
    let count = record.spans.len();
    let mut walk = SlackWalk {
        causes,
        latest: vec![record.step_end; count],
        pending: vec![0; count],
        action: vec![NONE; count],
        actions: Vec::new(),
        members: Vec::new(),
        todo: Vec::new(),
    };
    walk.count();
    walk.meet();
    while let Some((rank, op)) = walk.todo.pop() {
        walk.visit(rank, op);
    }
    let mut of = walk.latest;
    for ((latest, (_, end)), pending) in of.iter_mut().zip(&record.spans).zip(&walk.pending) {
        // Left over are actions of no time that meet in an order nobody can tell.
        *latest = if *pending == 0 { *latest - *end } else { Time::ZERO };
    }
    Slack { first: record.first.clone(), of }
}

impl SlackWalk<'_, '_> {
    fn at(&self, rank: RankId, op: OpId) -> usize {
        self.causes.record().first[rank.index()] as usize + op.index()
    }

    /// The ops that wait for each op; ops without successors come first.
    fn count(&mut self) {
        let world = self.causes.world();
        let of_program = |program: &Program| {
            let mut waiting = vec![0; program.ops.len()];
            program.waits.iter().for_each(|w| waiting[w.index()] += 1);
            for stream in &program.streams {
                stream.ops.iter().rev().skip(1).for_each(|op| waiting[op.index()] += 1);
            }
            waiting
        };
        let programs: Vec<Vec<u32>> = world.programs.iter().map(|p| of_program(p)).collect();
        for rank in (0..world.ranks.len() as u32).map(RankId) {
            let waiting = &programs[world.ranks[rank.index()].program.index()];
            let first = self.at(rank, OpId(0));
            self.pending[first..first + waiting.len()].copy_from_slice(waiting);
            let free = (0u32..).zip(waiting).filter(|(_, w)| **w == 0);
            self.todo.extend(free.map(|(op, _)| (rank, OpId(op))));
        }
    }

    /// Finds the members of each action: the n-th ops that start on each slot of a communicator belong together.
    fn meet(&mut self) {
        let world = self.causes.world();
        // By communicator: its actions so far.
        let mut known: Vec<Vec<u32>> = vec![Vec::new(); world.comms.len()];
        for rank in (0..world.ranks.len() as u32).map(RankId) {
            let by_slot = &self.causes.index_of(rank).by_slot;
            for (ops, comm) in by_slot.iter().zip(world.slots_of(rank)) {
                let mut ops = ops.clone();
                let start = |op: &OpId| self.causes.span(rank, *op);
                if !ops.is_sorted_by_key(start) {
                    ops.sort_by_key(start);
                }
                for (n, op) in ops.into_iter().enumerate() {
                    let of_comm = &mut known[comm.index()];
                    if n == of_comm.len() {
                        of_comm.push(self.actions.len() as u32);
                        let latest = self.causes.record().step_end;
                        self.actions.push(JointOp { pending: 0, member: NONE, latest });
                    }
                    let number = of_comm[n];
                    let at = self.at(rank, op);
                    let action = &mut self.actions[number as usize];
                    action.pending += 1;
                    self.action[at] = number;
                    let next = std::mem::replace(&mut action.member, self.members.len() as u32);
                    self.members.push(Member { rank, op, next });
                }
            }
        }
    }

    /// All that waits for an op has been visited.
    fn visit(&mut self, rank: RankId, op: OpId) {
        let at = self.at(rank, op);
        let end = self.causes.span(rank, op).1;
        let number = self.action[at];
        if number == NONE {
            let took = end - self.causes.ready(rank, op).time;
            return self.release(rank, op, self.latest[at] - took);
        }
        let action = &mut self.actions[number as usize];
        action.latest = action.latest.min(self.latest[at]);
        action.pending -= 1;
        if action.pending > 0 {
            return;
        }
        let JointOp { latest, member, .. } = *action;
        // When the last member had arrived.
        let mut arrived = Time::ZERO;
        let mut each = member;
        while each != NONE {
            let Member { rank, op, next } = self.members[each as usize];
            arrived = arrived.max(self.causes.ready(rank, op).time);
            each = next;
        }
        each = member;
        while each != NONE {
            let Member { rank, op, next } = self.members[each as usize];
            let at = self.at(rank, op);
            self.latest[at] = latest;
            self.release(rank, op, latest - (end - arrived));
            each = next;
        }
    }

    /// An op may start as late as `start`: what it waits for may end then.
    fn release(&mut self, rank: RankId, op: OpId, start: Time) {
        let (program, index) = (self.causes.world().program_of(rank), self.causes.index_of(rank));
        let waits = &program.waits[program.ops[op.index()].waits.range()];
        for &before in waits.iter().chain(&self.causes.predecessor(rank, op)) {
            let at = self.at(rank, before);
            self.latest[at] = self.latest[at].min(start - index.latency_between(program, before, op));
            self.pending[at] -= 1;
            if self.pending[at] == 0 {
                self.todo.push((rank, before));
            }
        }
    }
}

/// Slack of the ops of one kind, means of a rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SlackReport {
    /// Ops.
    pub ops: f64,
    /// Their time.
    pub time_s: f64,
    /// The part of it in ops without slack: each of them moves the step.
    pub binding_s: f64,
    /// The part of it in ops whose slack is less than a hundredth of the step.
    pub near_s: f64,
    /// The least slack of all.
    pub least_s: f64,
}

/// The slack of the ops of one kind on all ranks.
#[derive(Clone, Debug, Default)]
pub struct KindSlack {
    ops: u64,
    all: u128,
    binding: u128,
    near: u128,
    least: Option<Time>,
}

/// All kinds: index with `kind as usize`.
pub type SlackByKind = [KindSlack; OpKind::ALL.len()];

/// By kind of op. Rank `r` of the world stands for `weights[r]`.
pub fn sums(causes: &Causes, slack: &Slack, weights: &[u64], recurring: &Recurring) -> SlackByKind {
    let near = Time((causes.record().step_end + recurring.longer()).0 / 100);
    let mut sums = SlackByKind::default();
    for (rank, &weight) in (0..).map(RankId).zip(weights) {
        let times = recurring.of_rank(rank, causes.world().program_of(rank));
        for (op, &kind) in (0..).map(OpId).zip(&causes.index_of(rank).kinds) {
            let (start, end) = causes.span(rank, op);
            let weight = weight * times(op);
            let (took, slack) = (u128::from(weight) * u128::from((end - start).0), slack.get(rank, op));
            let sum = &mut sums[kind as usize];
            sum.ops += weight;
            sum.all += took;
            sum.binding += if slack == Time::ZERO { took } else { 0 };
            sum.near += if slack < near { took } else { 0 };
            sum.least = Some(sum.least.map_or(slack, |least| least.min(slack)));
        }
    }
    sums
}

/// By kind of op: means of `ranks` ranks.
pub fn by_kind(sums: SlackByKind, ranks: u64) -> BTreeMap<OpKind, SlackReport> {
    let ranks = ranks.max(1) as f64;
    let seconds = |ps: u128| ps as f64 / ranks / PS_PER_S;
    let report = |sum: KindSlack| SlackReport {
        ops: sum.ops as f64 / ranks,
        time_s: seconds(sum.all),
        binding_s: seconds(sum.binding),
        near_s: seconds(sum.near),
        least_s: sum.least.unwrap_or_default().s(),
    };
    let present = OpKind::ALL.into_iter().zip(sums).filter(|(_, sum)| sum.least.is_some());
    present.map(|(kind, sum)| (kind, report(sum))).collect()
}
