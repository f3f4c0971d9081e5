//! Why the compute stream stood still.
//!
//! For every rank, in integer picoseconds,
//! ```text
//! step time = busy (kernels on the compute stream) + Σ stalls
//! ```
//! Each gap between kernels is cut into pieces by what the next kernel was waiting for *then*. The walk goes
//! backwards from the kernel: of the ops it waits for, the last to end kept it for the whole time that this op ran;
//! before that op started, it is that op's own wait that counts, and so on, until the gap is used up:
//!
//! * the op was running: the cause is its kind, and the part of its time beyond that on an idle machine
//!   (the last part) is contention;
//! * a copy towards the device stood behind another copy: prefetch queued;
//! * a copy towards the device shared a link with copies away from it: fetch behind write-back;
//! * the op was ready, a peer was not: pipeline bubble for a pipeline transfer (upstream had not produced, or
//!   downstream was not yet taking), else uneven inputs where the peer has other documents or images and is no slower
//!   itself, or peer late;
//! * the op and all its peers were ready: it waited for room on a full tier;
//! * after the last kernel: what still runs on this rank, then `step tail` until the last rank has ended.
//!
//! Communication that sits on the compute stream itself is a stall, not busy.

mod reading;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cause::{Binding, Causes};
use super::idle::IdleTimes;
use super::kind::OpKind;
pub use super::stall_cause::{Colour, StallCause, WaitKind};
use super::turns::Recurring;
pub use reading::{LongestStalls, TimeWent};
pub(crate) use reading::{breakdown as seconds_of, compare, mean};
use stepsim_core::ids::{OpId, RankId, ResourceId};
use stepsim_core::interrupt;
use stepsim_core::program::{StreamKind, Work};
use stepsim_core::units::Time;

/// A piece of a gap of a rank's compute stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Whose compute stream.
    pub rank: RankId,
    /// From when.
    pub start: Time,
    /// Until when.
    pub end: Time,
    /// Why.
    pub cause: StallCause,
    /// The kernel that could not start; `None` after the last one.
    pub waiting: Option<OpId>,
    /// The op that was running, that had not arrived, or that waited for memory.
    pub waited_for: Option<(RankId, OpId)>,
}

impl Stall {
    /// How long.
    pub fn time(&self) -> Time {
        self.end - self.start
    }
}

/// Where the time of one rank went: `busy` and the stalls sum to the step time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankTime {
    /// Kernels on the compute stream.
    pub busy: Time,
    /// The part of it that device memory added, whose bandwidth copies share.
    pub slowed_by_memory: Time,
    /// Stalls by cause: index with `cause as usize`.
    pub stalls: [Time; StallCause::COUNT],
}

impl RankTime {
    /// The stalls of one cause.
    pub fn stall(&self, cause: StallCause) -> Time {
        self.stalls[cause as usize]
    }
    /// Busy plus all stalls.
    pub fn total(&self) -> Time {
        self.busy + self.stalls.iter().copied().sum()
    }
}

/// The stalls of all ranks, rank by rank in the order of time, and the sums of each rank.
pub fn stalls(causes: &mut Causes, idle: &mut IdleTimes) -> (Vec<Stall>, Vec<RankTime>) {
    let mut all = Vec::new();
    let mut sums = Vec::new();
    for rank in 0..causes.world().ranks.len() as u32 {
        sums.push(stalls_of(causes, idle, RankId(rank), &mut all));
    }
    (all, sums)
}

/// The stalls of one rank in the order of time, added to `out`, and their sums.
pub fn stalls_of(causes: &mut Causes, idle: &mut IdleTimes, rank: RankId, out: &mut Vec<Stall>) -> RankTime {
    stalls_recurring(causes, idle, rank, &Recurring::default(), out)
}

/// The same for the sums of a step in which some ops recur.
pub(crate) fn stalls_recurring(
    causes: &mut Causes,
    idle: &mut IdleTimes,
    rank: RankId,
    recurring: &Recurring,
    out: &mut Vec<Stall>,
) -> RankTime {
    interrupt::check();
    let times = recurring.of_rank(rank, causes.world().program_of(rank));
    let step_end = causes.record().step_end;
    let first = out.len();
    let mut walk = StallWalk { causes, idle, rank, out };
    let mut time = RankTime::default();
    let mut covered = Time::ZERO;
    for kernel in walk.causes.kernels(rank) {
        let (start, end) = walk.causes.span(rank, kernel);
        if start > covered {
            walk.gap(Some(kernel), covered, start);
        }
        if end > covered {
            time.busy += (end - start.max(covered)) * times(kernel);
            covered = end;
        }
    }
    if step_end > covered {
        walk.gap(None, covered, step_end);
    }
    for stall in &out[first..] {
        time.stalls[stall.cause as usize] += stall.time() * stall.waiting.map_or(1, times);
    }
    time
}

/// The stalls of one rank in gaps of its compute stream of at least this length.
pub fn long_stalls(
    causes: &mut Causes,
    idle: &mut IdleTimes,
    rank: RankId,
    least: Time,
    out: &mut Vec<Stall>,
) {
    let step_end = causes.record().step_end;
    let mut walk = StallWalk { causes, idle, rank, out };
    let mut covered = Time::ZERO;
    for kernel in walk.causes.kernels(rank) {
        let (start, end) = walk.causes.span(rank, kernel);
        if start > covered && start - covered >= least {
            walk.gap(Some(kernel), covered, start);
        }
        covered = covered.max(end);
    }
    if step_end > covered {
        walk.gap(None, covered, step_end);
    }
}

/// The walk back through the causes of one rank's gaps.
struct StallWalk<'w, 'c, 'i> {
    causes: &'w mut Causes<'c>,
    idle: &'w mut IdleTimes<'i>,
    rank: RankId,
    out: &'w mut Vec<Stall>,
}

impl StallWalk<'_, '_, '_> {
    /// Cuts one gap into pieces, from its end backwards, and leaves them in the order of time.
    fn gap(&mut self, kernel: Option<OpId>, from: Time, until: Time) {
        let first = self.out.len();
        let mut gap = UnexplainedGap { kernel, from, until };
        let start = match kernel {
            Some(kernel) => Some(kernel),
            None => self.tail(&mut gap),
        };
        if let Some(mut op) = start {
            while gap.until > gap.from {
                match self.before(op, &mut gap) {
                    Some(dependency) => op = dependency,
                    None => break,
                }
            }
        }
        self.out[first..].reverse();
    }

    /// The time after the last kernel: the rank's last op, then waiting for the other ranks.
    fn tail(&mut self, gap: &mut UnexplainedGap) -> Option<OpId> {
        let end_of = |op| self.causes.span(self.rank, op).1;
        let program = self.causes.world().program_of(self.rank);
        let last_ops = program.streams.iter().filter_map(|s| s.ops.last().copied());
        let last = last_ops.max_by_key(|&op| (end_of(op), std::cmp::Reverse(op)));
        let end = last.map_or(Time::ZERO, end_of);
        self.piece(gap, end, StallCause::StepTail, None);
        let last = last?;
        self.running(last, false, gap);
        Some(last)
    }

    /// Explains the time before an op started, as far as one dependency goes back; returns that dependency.
    fn before(&mut self, op: OpId, gap: &mut UnexplainedGap) -> Option<OpId> {
        let own = self.causes.ready(self.rank, op);
        if own.time < gap.until {
            self.held_up(op, own.time, gap);
        }
        let dependency = own.op()?;
        let is_copy_in = self.kind(op) == OpKind::CopyIn;
        let queued = is_copy_in && matches!(own.by, Binding::Predecessor(_));
        self.running(dependency, queued, gap);
        Some(dependency)
    }

    /// The time from when an op was ready until it started: late peers first, then a full tier (its own or a peer's).
    fn held_up(&mut self, op: OpId, ready: Time, gap: &mut UnexplainedGap) {
        let own = (self.rank, op);
        let last = self.causes.last_arrival(self.rank, op).filter(|last| last.time > ready);
        let all_ready = last.map_or(ready, |last| last.time);
        if all_ready < gap.until {
            let takes_bytes = |&(r, o): &(RankId, OpId)| self.causes.allocates(r, o);
            let peer = match takes_bytes(&own) {
                true => None,
                false => self.causes.members(self.rank, op).into_iter().find(takes_bytes),
            };
            let cause = peer.map_or(StallCause::PrefetchBlocked, |(rank, _)| self.late(op, rank));
            self.piece(gap, all_ready, cause, peer.or(Some(own)));
        }
        if let Some(last) = last {
            self.piece(gap, ready, self.late(op, last.rank), Some((last.rank, last.op)));
        }
    }

    /// Why a peer of an op was late.
    fn late(&self, op: OpId, peer: RankId) -> StallCause {
        let world = self.causes.world();
        let [own, other] = [self.rank, peer].map(|rank| world.program_of(rank).inputs);
        let [own_speed, peers] = [self.rank, peer].map(|rank| world.ranks[rank.index()].slowness);
        match self.kind(op) {
            OpKind::Pipeline => StallCause::PipelineBubble,
            _ if own != other && peers <= own_speed => StallCause::UnevenInputs,
            _ => StallCause::PeerLate,
        }
    }

    /// The time during which an op ran.
    fn running(&mut self, op: OpId, queued: bool, gap: &mut UnexplainedGap) {
        let (start, end) = self.causes.span(self.rank, op);
        let program = self.causes.world().program_of(self.rank);
        let what = Some((self.rank, op));
        if queued {
            return self.piece(gap, start, StallCause::PrefetchQueued, what);
        }
        if let Some(alone) = contended_from(self.causes, self.idle, self.rank, op)
            && alone < end
        {
            let shared = match self.kind(op) {
                OpKind::Host => StallCause::HostMemoryShared,
                OpKind::CopyIn if self.write_back_beside(op) => StallCause::WriteBackBeside,
                _ => StallCause::Contention,
            };
            self.piece(gap, alone, shared, what);
        }
        let phase = program.infos[program.ops[op.index()].info as usize].phase;
        let cause = match (self.kind(op), program.ops[op.index()].work) {
            // The update by the host; launches are kernels of the host's stream.
            (OpKind::Host, Work::Comm { .. }) => StallCause::Optimizer,
            (kind, _) => StallCause::running(kind, phase),
        };
        self.piece(gap, start, cause, what);
    }

    /// True if a copy away from the device crossed the narrowest link of this copy towards it while it ran.
    fn write_back_beside(&self, op: OpId) -> bool {
        let program = self.causes.world().program_of(self.rank);
        let (start, end) = self.causes.span(self.rank, op);
        let links = self.links(op);
        let Some(narrowest) = links.iter().map(|link| link.1).min_by(f64::total_cmp) else { return false };
        let shares = |other: &OpId| {
            let crossed = self.links(*other);
            links.iter().any(|(link, rate)| *rate == narrowest && crossed.iter().any(|(l, _)| l == link))
        };
        program.streams.iter().filter(|stream| stream.kind == StreamKind::CopyOut).any(|stream| {
            let span = |other: &OpId| self.causes.span(self.rank, *other);
            let first = stream.ops.partition_point(|other| span(other).1 <= start);
            stream.ops[first..].iter().take_while(|other| span(other).0 < end).any(shares)
        })
    }
    /// The resources that a copy crosses, each with its bytes a second.
    fn links(&self, op: OpId) -> Vec<(ResourceId, f64)> {
        let world = self.causes.world();
        let Work::Comm { transfer, .. } = world.program_of(self.rank).ops[op.index()].work else {
            return Vec::new();
        };
        self.causes.comm(self.rank, op).map_or_else(Vec::new, |comm| self.idle.links(comm, transfer))
    }

    /// Takes the end of the gap, back to `from`, as one piece.
    fn piece(
        &mut self,
        gap: &mut UnexplainedGap,
        from: Time,
        cause: StallCause,
        waited_for: Option<(RankId, OpId)>,
    ) {
        let start = from.max(gap.from);
        if start >= gap.until {
            return;
        }
        let end = gap.until;
        self.out.push(Stall { rank: self.rank, start, end, cause, waiting: gap.kernel, waited_for });
        gap.until = start;
    }

    fn kind(&self, op: OpId) -> OpKind {
        self.causes.kind(self.rank, op)
    }
}

/// The rest of a gap to explain, and the kernel after it.
struct UnexplainedGap {
    kernel: Option<OpId>,
    from: Time,
    until: Time,
}

/// From when a communication op ran on only because others shared its resources: its start plus its time on an idle
/// machine. `None` for kernels, and where the difference is within the rounding of the flows' times.
pub(crate) fn contended_from(causes: &Causes, idle: &mut IdleTimes, rank: RankId, op: OpId) -> Option<Time> {
    let Work::Comm { transfer, .. } = causes.world().program_of(rank).ops[op.index()].work else {
        return None;
    };
    let (start, end) = causes.span(rank, op);
    let alone = idle.get(causes.comm(rank, op)?, transfer);
    let rounding = Time(1_000 + (end - start).0 / 1_000_000_000);
    (start + alone + rounding < end).then_some(start + alone)
}

/// `busy_s` and the stalls sum to the step time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Breakdown {
    /// Kernels on the compute stream.
    pub busy_s: f64,
    /// The part of it for which device memory gave kernels less than they use: copies share its bandwidth.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub slowed_by_memory_s: f64,
    /// Why the compute stream stood still, by cause; causes that do not occur are left out.
    pub stalls_s: BTreeMap<StallCause, f64>,
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}
