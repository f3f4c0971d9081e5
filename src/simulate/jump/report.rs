//! The report of a step whose turns are jumped.
//!
//! Of all that a report says, most are sums over what happened, in whole numbers: each turn that is put in adds the
//! same, which is what the turn between the two moments of one state adds ([`Recurring`]).
//!
//! * *Spans*: what ends behind the first moment t began as long before it as its like did before the second, u. That is
//!   part of the state.
//! * *Gaps*: why a kernel stood still is read back to the end of the kernel before it. If that lies behind t, so does
//!   all that explains the gap: of what an op waited for the last to end counts, and what had ended by t had ended by
//!   u a turn later. Only the gap before the first kernel behind t may be older. The one before its like behind u is
//!   not, and counts in its place; all that begins before that kernel has ended has to be played as it is in every
//!   turn.
//!
//! Readings that are no sums must be equal in every turn before anything is counted:
//!
//! * *Slack*, where it is asked for, is found from the end backwards. An op's slack follows from the spans about it
//!   and from the slack of what waits for it, which lies at most `reach` turns behind it. So where `reach` turns have
//!   the slack of those behind them, and spans that repeat themselves, all turns before them have it too.
//! * *The critical path* leads from the end backwards, from each op to the one it waited for. Where it crosses the
//!   second moment on the op, some turns on, on which it crosses the first, it comes by the same ops in every turn
//!   put in.
//! * *Peaks and worst cases* come from the step that was played: turns put in only repeat what was there. Where
//!   kernels wait for copies, the turn behind u is played as the one before it, and its kernels hang on nothing before
//!   t.
//!
//! If any of this does not hold, a longer step is tried, and at last the whole one played.

use super::{LENGTHS, Options, RepeatedState, Short, ShortLengths, shortened};
use crate::{Inputs, Simulation, SimulationError, StepRequest, WholeStep};
use stepsim_core::clock::Clock;
use stepsim_core::engine::State;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::{Program, Stream, StreamKind, Work};
use stepsim_plan::step::executed;
use stepsim_price::model::flops::StepFlops;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::critical::{Again, CriticalPath, critical_path};
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::prefetch;
use stepsim_read::analysis::report::{self, Extent, JumpedReport, Report};
use stepsim_read::analysis::run::{RecurringTurn, Run};
use stepsim_read::analysis::slack::{Slack, slack};
use stepsim_read::analysis::turns::Recurring;

/// Slack takes longer to come to rest than the state does.
const FOR_SLACK: ShortLengths = ShortLengths { least: 6, spared: 2 };

/// The report of a step for a caller that reads nothing else: turns are jumped where they can be.
///
/// # Errors
/// See [`SimulationError`].
pub fn reported(inputs: &Inputs, options: &Options) -> Result<Report, SimulationError> {
    read(inputs, options, Extent::Whole)
}

/// The same, or what of it one screen shows.
///
/// # Errors
/// See [`SimulationError`].
pub fn glanced(inputs: &Inputs, options: &Options) -> Result<Report, SimulationError> {
    read(inputs, options, Extent::Screen)
}

/// The same, as far as it is asked for.
///
/// # Errors
/// See [`SimulationError`].
pub fn read(inputs: &Inputs, options: &Options, extent: Extent) -> Result<Report, SimulationError> {
    let report = match report(inputs, options, extent, false) {
        Some(report) => report,
        None => Simulation::run(inputs, options)?.read(extent, false),
    };
    report.impossible().map_or(Ok(report), |what| Err(SimulationError::Impossible(what)))
}

/// The report of a step, if turns of it can be jumped; `wall` adds how long that took. It is the report of the step
/// played whole, but for what it says of the playing.
pub fn report(inputs: &Inputs, options: &Options, extent: Extent, wall: bool) -> Option<Report> {
    if !inputs.readings.iter().all(|own| own.counts_turns()) {
        return None;
    }
    let begun = Clock::start();
    let lengths = if extent == Extent::Whole { FOR_SLACK } else { LENGTHS };
    let asked = StepRequest { inputs, options, edits: &[], common: None };
    let report = shortened(asked, lengths, &mut |short| of_short(asked, extent, &short))?;
    Some(Report { simulation_wall_s: wall.then(|| begun.elapsed().as_secs_f64()), ..report })
}

fn of_short(asked: StepRequest, extent: Extent, short: &Short) -> Option<Report> {
    let Short { plan, folded, record, found, jumped, .. } = short;
    let world = &folded.world;
    let places = Places::of(short);
    let recurring = places.recurring()?;
    let mut causes = Causes::new(world, record);
    if prefetch::has_copies(world) {
        places
            .rest(1, |_, _, _| true)
            .filter(|()| prefetch::recur(&causes, found.before.at, found.after.at))?;
    }
    let slack = match extent {
        Extent::Whole => Some(places.slack_at_rest(&causes)?),
        Extent::Overlap | Extent::Screen => None,
    };
    let mut idle = IdleTimes::unfolded(&plan.world, &folded.comms.representative);
    let path = critical_path(&mut causes, &mut idle);
    let again = Some(again(&places, &path)?);
    let step = whole(asked, extent, short, &recurring);
    let mut report = step.told(asked.inputs, plan, folded, |info| {
        let turn = RecurringTurn { recurring, path, again };
        let run = Run::of_turn(&mut causes, &mut idle, slack.as_ref(), info, turn);
        report::report(run, &asked.inputs.readings)
    });
    let turns = jumped.times;
    report.jumped = Some(JumpedReport { micro_batches: jumped.micro_batches, of: jumped.of, turns });
    report.run = asked.inputs.head(asked.options.seed);
    Some(report)
}

/// The facts of the whole step beside the part of it that was played.
fn whole(asked: StepRequest, extent: Extent, short: &Short, recurring: &Recurring) -> WholeStep {
    let Short { plan, folded, record, .. } = short;
    let (model, w) = (&asked.inputs.model, &asked.inputs.workload.value);
    let (global, sequence) = (w.batch.global, w.sequence(model));
    let mut flops = [plan.hardware_flops, plan.skipped_flops];
    for (rank, size) in (0..).map(RankId).zip(&folded.ranks.size) {
        let program = folded.world.program_of(rank);
        let times = recurring.of_rank(rank, program);
        let more = executed(program, w, model, |op| times(op) - 1);
        flops.iter_mut().zip(more).for_each(|(sum, more)| *sum += more * u128::from(*size));
    }
    WholeStep {
        model_flops: StepFlops::of_step(w, model, global, None),
        flops,
        tokens: global * sequence,
        end: record.step_end + recurring.longer(),
        wall_s: None,
        extent,
    }
}

/// Where ops are in their streams.
struct Places<'a> {
    short: &'a Short,
    /// By rank, the number of its first stream.
    streams: Vec<usize>,
    /// By program and op.
    of: Vec<Vec<u32>>,
}

impl Places<'_> {
    fn of(short: &Short) -> Places<'_> {
        let world = &short.folded.world;
        let of_program = |program: &Program| {
            let mut at = vec![0; program.ops.len()];
            for stream in &program.streams {
                (0..).zip(&stream.ops).for_each(|(place, op)| at[op.index()] = place);
            }
            at
        };
        let counts = world.ranks.iter().map(|rank| world.programs[rank.program.index()].streams.len());
        let streams = counts.scan(0, |next, count| Some(std::mem::replace(next, *next + count)));
        Places {
            short,
            streams: streams.collect(),
            of: world.programs.iter().map(|p| of_program(p)).collect(),
        }
    }

    /// The number of an op's stream, and how far behind the head of the stream in a state the op is.
    fn behind(&self, state: &State, rank: RankId, op: OpId) -> (usize, i64) {
        let world = &self.short.folded.world;
        let program = world.ranks[rank.index()].program.index();
        let stream = self.streams[rank.index()] + usize::from(world.programs[program].ops[op.index()].stream);
        (stream, i64::from(self.of[program][op.index()]) - i64::from(state.heads[stream]))
    }

    /// The slack of all ops, if it repeats itself for as many turns as something waits for an op.
    fn slack_at_rest(&self, causes: &Causes) -> Option<Slack> {
        let reach = self.reach()?;
        self.rest(reach, |_, _, _| true)?;
        let slack = slack(causes);
        self.rest(reach, |rank, op, next| slack.get(rank, op) == slack.get(rank, next))?;
        Some(slack)
    }

    /// How many turns behind an op something waits for it, at most; `None` where the next turn is not played whole.
    fn reach(&self) -> Option<usize> {
        let RepeatedState { before, after, .. } = &self.short.found;
        let world = &self.short.folded.world;
        let mut reach: i64 = 1;
        for (rank, &first) in (0..).map(RankId).zip(&self.streams) {
            let program = world.program_of(rank);
            for (stream, number) in program.streams.iter().zip(first..) {
                let [from, to] = [before, after].map(|state| state.heads[number] as usize);
                for at in from..to {
                    let waits = |op: &OpId| &program.waits[program.ops[op.index()].waits.range()];
                    let (now, next) = (waits(&stream.ops[at]), waits(stream.ops.get(at + to - from)?));
                    for (wait, _) in now.iter().zip(next).filter(|(wait, later)| wait != later) {
                        let (of, behind) = self.behind(before, rank, *wait);
                        let turn = i64::from(after.heads[of]) - i64::from(before.heads[of]);
                        reach = reach.max(-behind.checked_div_euclid(turn)?);
                    }
                }
            }
        }
        usize::try_from(reach).ok()
    }

    /// By rank and stream, how many ops a turn has, and the first that had not ended when it began.
    fn heads(&self) -> impl Iterator<Item = (RankId, &Stream, usize, usize)> {
        let Short { folded, found, .. } = self.short;
        (0..).map(RankId).zip(&self.streams).flat_map(move |(rank, &first)| {
            let streams = folded.world.program_of(rank).streams.iter().zip(first..);
            streams.map(move |(stream, number)| {
                let [from, to] = [&found.before, &found.after].map(|state| state.heads[number] as usize);
                (rank, stream, to - from, from)
            })
        })
    }

    /// Nothing unless spans equal the spans of the turn behind, and `same` holds of ops and the ops behind them, for
    /// `turns` turns.
    fn rest(&self, turns: usize, same: impl Fn(RankId, OpId, OpId) -> bool) -> Option<()> {
        let again = |(rank, stream, turn, from): (RankId, &Stream, usize, usize)| {
            (from..from + turns * turn).all(|at| {
                let ops = (stream.ops.get(at), stream.ops.get(at + turn));
                self.again(rank, ops).is_some_and(|(op, next)| same(rank, op, next))
            })
        };
        self.heads().all(again).then_some(())
    }

    /// An op and the one a turn behind it, if that does the same so much later.
    fn again(&self, rank: RankId, ops: (Option<&OpId>, Option<&OpId>)) -> Option<(OpId, OpId)> {
        let Short { folded, record, turns, jumped, .. } = self.short;
        let (op, next) = (*ops.0?, *ops.1?);
        let program = folded.world.ranks[rank.index()].program.index();
        let (start, end) = record.span(rank, op);
        let later = record.span(rank, next) == (start + jumped.turn, end + jumped.turn);
        (later && turns.of[program].period.stretch.contains(&next.0)).then_some((op, next))
    }

    /// Where the turn that counts begins on a stream: on a compute stream behind the first kernel that ends behind t,
    /// whose gap may be older than that.
    fn begin(&self, rank: RankId, stream: &Stream, turn: usize, from: usize) -> usize {
        let program = self.short.folded.world.program_of(rank);
        let is_kernel = |op: &OpId| matches!(program.ops[op.index()].work, Work::Compute { .. });
        let first = stream.ops[from..from + turn].iter().position(is_kernel);
        from + first.filter(|_| stream.kind == StreamKind::Compute).map_or(0, |kernel| kernel + 1)
    }

    /// Nothing unless all that begins before those first kernels have ended is played again a turn later.
    fn begins_again(&self) -> Option<()> {
        let span = |rank, stream: &Stream, at: usize| self.short.record.span(rank, stream.ops[at]);
        let first_kernels = self.heads().filter_map(|(rank, stream, turn, from)| {
            let begin = self.begin(rank, stream, turn, from);
            (begin > from).then(|| span(rank, stream, begin - 1).1)
        });
        let ended = first_kernels.max().unwrap_or_default();
        let again = |(rank, stream, turn, from): (RankId, &Stream, usize, usize)| {
            let before = (from..from + turn).take_while(|&at| span(rank, stream, at).0 < ended);
            before
                .map(|at| (stream.ops.get(at), stream.ops.get(at + turn)))
                .all(|ops| self.again(rank, ops).is_some())
        };
        self.heads().all(again).then_some(())
    }

    /// The turn that counts, if its like behind it begins as it does.
    fn recurring(&self) -> Option<Recurring> {
        self.begins_again()?;
        let Short { found: RepeatedState { before, after, .. }, jumped, .. } = self.short;
        let mut ops = vec![Vec::new(); self.streams.len()];
        for (rank, stream, turn, from) in self.heads() {
            let begin = self.begin(rank, stream, turn, from);
            let in_turn = &stream.ops[begin..begin + turn];
            ops[rank.index()]
                .push(in_turn.first().zip(in_turn.last()).map_or(0..0, |(first, last)| first.0..last.0 + 1));
        }
        let added = after.slowed_by_memory.iter().zip(&before.slowed_by_memory);
        Some(Recurring {
            more: jumped.times,
            within: (before.at, after.at),
            ops,
            slowed_by_memory: added.map(|(after, before)| *after - *before).collect(),
        })
    }
}

/// The part of the critical path that comes again.
fn again(places: &Places, path: &CriticalPath) -> Option<Again> {
    let Short { plan, found, of_direction, jumped, .. } = places.short;
    let across = |state: &State| {
        let at = path.links.partition_point(|link| link.end <= state.at);
        let link = path.links.get(at)?;
        Some((at, places.behind(state, link.rank, link.op)))
    };
    let ((first, before), (second, after)) = (across(&found.before)?, across(&found.after)?);
    let per_direction = plan.order.per_direction();
    (before == after).then(|| Again {
        links: first + 1..second + 1,
        turns: jumped.times,
        turn: jumped.turn,
        micro_batches: *of_direction,
        per_direction: [per_direction, per_direction + jumped.times as u32 * of_direction],
    })
}
