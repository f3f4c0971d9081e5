//! Ops beside kernels: gradients on their way, weights and states that are fetched ahead.
//!
//! Of each op on such a row: when it was *issued* (all that it waited for had ended), when it was *needed* (the first
//! op that waits for it had nothing else to wait for), how *late* it was then, and how long kernels ran meanwhile,
//! which *hide* it.

use super::places::span;
use super::shown::{Timeline, TracedRank};
use stepsim_core::ids::OpId;
use stepsim_core::program::{Program, StreamKind};
use stepsim_core::units::Time;

/// True if ops of a row run beside kernels by design.
pub fn beside_kernels(row: StreamKind) -> bool {
    matches!(row, StreamKind::Data | StreamKind::CopyIn | StreamKind::CopyOut)
}

/// Ops of a rank beside its kernels.
#[derive(Debug, Default)]
pub struct SideOps {
    /// Stretches of kernels in order of time: start, end, and how long kernels ran before.
    pub kernels: Vec<(Time, Time, Time)>,
    /// By op, when the first op that waits for it could have begun without it.
    pub needed: Vec<Option<Time>>,
}

impl SideOps {
    /// Reads a rank; nothing if none of its rows is of that kind.
    pub fn new(timeline: &Timeline, traced: &TracedRank) -> SideOps {
        let program = timeline.world.program_of(traced.rank);
        if !program.streams.iter().any(|stream| beside_kernels(stream.kind)) {
            return SideOps::default();
        }
        let span = |op: OpId| span(timeline, traced, op);
        SideOps { kernels: kernels(program, &span), needed: needed(program, &|op| span(op).1) }
    }

    /// How much of a stretch of time kernels ran.
    pub fn hidden(&self, start: Time, end: Time) -> Time {
        self.before(end).saturating_sub(self.before(start))
    }

    /// How long kernels ran up to a time.
    fn before(&self, at: Time) -> Time {
        match self.kernels.partition_point(|(start, ..)| *start < at) {
            0 => Time::ZERO,
            n => {
                let (start, end, before) = self.kernels[n - 1];
                before + (end.min(at) - start)
            }
        }
    }

    /// When an op was needed, if another waits for it.
    pub fn needed(&self, op: OpId) -> Option<Time> {
        self.needed.get(op.index()).copied().flatten()
    }
}

/// When the last op that `op` waits for ended, on any stream.
pub fn issued(timeline: &Timeline, traced: &TracedRank, op: OpId) -> Time {
    let program = timeline.world.program_of(traced.rank);
    let waits = &program.waits[program.ops[op.index()].waits.range()];
    waits.iter().map(|wait| span(timeline, traced, *wait).1).max().unwrap_or(Time::ZERO)
}

/// The stretches in which kernels run, on any stream of theirs.
pub fn kernels(program: &Program, span: &dyn Fn(OpId) -> (Time, Time)) -> Vec<(Time, Time, Time)> {
    let streams = program.streams.iter().filter(|stream| stream.kind == StreamKind::Compute);
    let mut spans: Vec<(Time, Time)> = streams.flat_map(|stream| &stream.ops).map(|op| span(*op)).collect();
    spans.sort_unstable();
    let mut stretches: Vec<(Time, Time, Time)> = Vec::new();
    for (start, end) in spans.into_iter().filter(|(start, end)| start < end) {
        match stretches.last_mut().filter(|last| start <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => {
                let before = stretches.last().map_or(Time::ZERO, |last| last.2 + (last.1 - last.0));
                stretches.push((start, end, before));
            }
        }
    }
    stretches
}

/// By op of a row beside kernels, the earliest time at which an op that waits for it had all else.
pub fn needed(program: &Program, end_of: &dyn Fn(OpId) -> Time) -> Vec<Option<Time>> {
    let mut needed: Vec<Option<Time>> = vec![None; program.ops.len()];
    let beside = |op: OpId| {
        let stream = &program.streams[usize::from(program.ops[op.index()].stream)];
        beside_kernels(stream.kind)
    };
    for stream in &program.streams {
        for (i, id) in stream.ops.iter().enumerate() {
            let waits = &program.waits[program.ops[id.index()].waits.range()];
            if !waits.iter().any(|wait| beside(*wait)) {
                continue;
            }
            let free = i.checked_sub(1).map_or(Time::ZERO, |before| end_of(stream.ops[before]));
            let last = waits.iter().copied().max_by_key(|wait| end_of(*wait));
            let but_last = waits.iter().filter(|wait| Some(**wait) != last).map(|wait| end_of(*wait));
            let but_last = but_last.fold(free, Time::max);
            for wait in waits.iter().filter(|wait| beside(**wait)) {
                let ready = last.filter(|last| last != wait).map_or(but_last, |last| end_of(last).max(free));
                let known = &mut needed[wait.index()];
                *known = Some(known.map_or(ready, |at| at.min(ready)));
            }
        }
    }
    needed
}
