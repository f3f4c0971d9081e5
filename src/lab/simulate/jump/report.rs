//! The report of a step of which turns are jumped.
//!
//! Of all that a report says, most are sums over what happened, in whole numbers: each turn that is put in adds the same. So
//! two steps are played, the second longer by what lies between the two moments of one state, and [`Sums`] goes on. What is
//! no sum is held to be the same in every turn before anything is counted:
//!
//! * *Slack* is found from the end backwards. An op's slack follows from the spans about it and from the slack of what waits
//!   for it, which lies at most `reach` turns behind it. So where `reach` turns have the slack of those behind them, and
//!   spans that repeat themselves, all turns before them have it too.
//! * *The critical path* leads from the end backwards, from each op to the one it waited for. Where it crosses the second
//!   moment on the op, some turns on, on which it crosses the first, it comes by the same ops in every turn put in.
//! * *Peaks and worst cases* are those of the step that was played: turns put in only repeat what was there. Both steps have to
//!   agree on them.
//!
//! If any of this does not hold, a longer step is tried, and at last the whole one played.
//!
//! [`Sums`]: crate::read::analysis::turns::Sums

use std::time::Instant;

use super::{Asked, Found, Lengths, Options, Short, planned, shortened};
use crate::core::engine::{self, Record, State};
use crate::core::fold::Folded;
use crate::core::ids::{OpId, RankId};
use crate::core::program::Program;
use crate::core::units::Time;
use crate::lab::simulate::{Inputs, Simulation, SimulationError, WholeStep};
use crate::read::analysis::cause::Causes;
use crate::read::analysis::critical::{CriticalPath, critical_path};
use crate::read::analysis::critical_report::{self, Again};
use crate::read::analysis::idle::IdleTimes;
use crate::read::analysis::report::{JumpedReport, RankInfo, Readings, Report, report_of};
use crate::read::analysis::slack::{Slack, slack};
use crate::step::model::flops::StepFlops;
use crate::step::plan::step::Plan;

/// Slack takes longer to come to rest than the state does, and two steps are played.
const LENGTHS: Lengths = Lengths { least: 6, spared: 4 };

/// The report of a step of which nothing else is read: turns are jumped where they can be.
///
/// # Errors
/// See [`SimulationError`].
pub fn reported(inputs: &Inputs, options: &Options) -> Result<Report, SimulationError> {
    match report(inputs, options, false) {
        Some(report) => Ok(report),
        None => Ok(Simulation::run(inputs, options)?.report(false)),
    }
}

/// The report of a step, if turns of it can be jumped; `wall` adds how long that took. It is the report of the step played
/// whole, but for what it says of the playing.
pub fn report(inputs: &Inputs, options: &Options, wall: bool) -> Option<Report> {
    let begun = Instant::now();
    let report = by_turns(inputs, options, LENGTHS)?;
    Some(Report { simulation_wall_s: wall.then(|| begun.elapsed().as_secs_f64()), ..report })
}

/// The same with other lengths.
pub(super) fn by_turns(inputs: &Inputs, options: &Options, lengths: Lengths) -> Option<Report> {
    let asked = Asked { inputs, options, edits: &[], folds: None };
    shortened(asked, lengths, &mut |short| of_short(asked, &short))
}

/// A step that was played.
struct Played {
    plan: Plan,
    folded: Folded,
    record: Record,
}

impl Played {
    /// Of so many micro-batches.
    fn of(asked: Asked, micro_batches: u32) -> Option<Played> {
        let (plan, folded) = planned(asked, micro_batches)?;
        let mut record = Record::for_world(&folded.world);
        let stats = engine::run_observed(&folded.world, &mut record).ok()?;
        record.complete(stats);
        Some(Played { plan, folded, record })
    }

    /// What is read of it, as a part of a step that ends at `end`.
    fn readings(&self, end: Time) -> Readings {
        let Played { plan, folded, record } = self;
        let mut causes = Causes::new(&folded.world, record);
        let slack = slack(&causes);
        let mut idle = IdleTimes::unfolded(&plan.world, &folded.comms.representative);
        let ranks = RankInfo::of_classes(&folded.ranks.of, |rank| plan.stage(RankId(rank)));
        Readings::of(&mut causes, &mut idle, &slack, &ranks, end)
    }
}

fn of_short(asked: Asked, short: &Short) -> Option<Report> {
    let Asked { inputs, options, .. } = asked;
    let Short { plan, folded, record, jumped, .. } = short;
    let world = &folded.world;
    let mut causes = Causes::new(world, record);
    let slack = slack(&causes);
    let places = Places::of(short);
    places.rest(&slack)?;
    let mut idle = IdleTimes::unfolded(&plan.world, &folded.comms.representative);
    let path = critical_path(&mut causes, &mut idle);
    let again = again(&places, &path)?;

    let next = Played::of(asked, plan.micro_batches + short.repeats.micro_batches)?;
    let same_ranks = next.folded.ranks.of == folded.ranks.of;
    if !same_ranks || next.record.step_end != record.step_end + jumped.turn {
        return None;
    }
    let end = record.step_end + jumped.turn * jumped.times;
    let ranks = RankInfo::of_classes(&folded.ranks.of, |rank| plan.stage(RankId(rank)));
    let mut readings = Readings::of(&mut causes, &mut idle, &slack, &ranks, end);
    if !readings.go_on(&next.readings(end), jumped.times) {
        return None;
    }

    let flops =
        |of: &dyn Fn(&Plan) -> u128| of(plan) + (of(&next.plan) - of(plan)) * u128::from(jumped.times);
    let w = &inputs.workload.value;
    let (global, sequence) = (w.batch.global, w.sequence(&inputs.model));
    let step = WholeStep {
        model_flops: StepFlops::of_step(w, &inputs.model, global),
        flops: [flops(&|plan| plan.hardware_flops), flops(&|plan| plan.skipped_flops)],
        tokens: global * sequence,
        end,
        wall_s: None,
    };
    let mut report = step.told(inputs, plan, folded, |info| {
        let path = critical_report::critical_path(&path, world, Some(&again), |rank| info.place(rank));
        report_of(world, readings, path, info)
    });
    let turns = jumped.times;
    report.jumped = Some(JumpedReport { micro_batches: jumped.micro_batches, of: jumped.of, turns });
    report.run = inputs.head(options.seed);
    Some(report)
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

    /// How many turns behind an op something waits for it, at most; `None` where the next turn is not played whole.
    fn reach(&self) -> Option<i64> {
        let Found { before, after, .. } = &self.short.found;
        let world = &self.short.folded.world;
        let mut reach = 1;
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
        Some(reach)
    }

    /// Nothing unless slack and spans are those of the turn behind for as many turns as something waits for an op.
    fn rest(&self, slack: &Slack) -> Option<()> {
        let Short { folded, record, found, turns, jumped, .. } = self.short;
        let reach = self.reach()? as usize;
        let world = &folded.world;
        for (rank, &first) in (0..).map(RankId).zip(&self.streams) {
            let program = world.program_of(rank);
            let stretch = &turns.of[world.ranks[rank.index()].program.index()].period.stretch;
            for (stream, number) in program.streams.iter().zip(first..) {
                let [from, to] = [&found.before, &found.after].map(|state| state.heads[number] as usize);
                let turn = to - from;
                for at in from..from + reach * turn {
                    let (op, next) = (stream.ops[at], *stream.ops.get(at + turn)?);
                    let (start, end) = record.span(rank, op);
                    let same = record.span(rank, next) == (start + jumped.turn, end + jumped.turn)
                        && slack.get(rank, op) == slack.get(rank, next);
                    if !stretch.contains(&next.0) || !same {
                        return None;
                    }
                }
            }
        }
        Some(())
    }
}

/// The part of the critical path that comes again.
fn again(places: &Places, path: &CriticalPath) -> Option<Again> {
    let Short { plan, found, repeats, jumped, .. } = places.short;
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
        micro_batches: repeats.of_direction,
        per_direction: [per_direction, per_direction + jumped.times as u32 * repeats.of_direction],
    })
}
