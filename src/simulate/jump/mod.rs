//! Jumping over whole turns of a schedule.
//!
//! A step of many micro-batches has a beginning, a long stretch in which every few micro-batches the same happens,
//! and an end. [`figures`] plays a step of fewer micro-batches, sees the run return to a state in which it has been,
//! and counts the stretch between the two as often as the turns that were left out. Its cost follows the warm-up and a
//! few turns instead of the number of micro-batches.
//!
//! # Why it is exact
//!
//! *Programs.* In the order of passes of the whole step, found for all its micro-batches, every rank does what it does
//! in the short one with n turns of one length put in at one place (`Order::goes_on_by_turns` compares the two slot by
//! slot). A program is written pass by pass along its order, so it equals the short step's with the ops of n turns put
//! in; where in the stretch that repeats itself ([`Period`]) they are put in makes no difference. Edits
//! ([`figures_edited`]) speak of kinds of streams, classes of kernels, ranks and links, never of single ops, so they
//! change both programs alike.
//!
//! *States.* Let the run be in one [`State`] at two moments t and u = t + d, u with all heads g turns further on, all
//! of them inside the stretches of their programs. The loop never looks at an op behind a head, and only adds times
//! to now or takes now from them. So what the whole step does from t to u it does again from u to u + d, and so on
//! for the n turns that were put in (n is a multiple of g), at whose end it has the rest of the short step's program
//! before it, in the short step's state at u: it goes on as the short step did, n/g · d later. To the picosecond,
//! because times are integers, and rates and bytes left are found from differences of times.
//!
//! *Sums.* What happened from t to u counts 1 + n/g times. Why a kernel stood still at a moment is read from what ran
//! then: ops that were under way at t began equally long before it as those at u did, for that is part of a state,
//! and ends before t explain nothing behind it. `report` says what more a whole report takes.
//!
//! # When it is off
//!
//! Kernel times that are drawn differ from op to op, and so do micro-batches of unlike documents. Searched and given
//! orders need not repeat themselves. Where no state recurs, or anything fails, the whole step is played: a step that
//! does not fit in memory says so as always. Replicas of a job that go at paces of their own until they meet at the
//! end of the step never come back to one state.
//!
//! # Steps of a study
//!
//! Any short step that comes to rest gives the same figures, so a step may begin with the length that the one before
//! it in a study has left over ([`StepCache`]): the length of a run that came to the same state without the turns that
//! nobody had begun.
//!
//! # What holds it
//!
//! `src/simulate/tests/jump.rs` plays shipped workloads and random steps (schedules, sharding, recomputation,
//! transfers, offload, stragglers, stacks) both ways and compares the end, the peak of memory and what was exposed; so
//! it does with each edit, and with the what-ifs of a step. Of 600 random steps 186 could be planned and 93 were
//! jumped, each equal to the picosecond (`STEPSIM_JUMP_CASES=600 cargo test --test simulate jump`). Reports are
//! compared whole: of 200 random steps 70 could be planned, 34 were jumped, all of them with one screen of their
//! report and 22 with all of it; of the shipped workloads 13 were, 9 of them with all of it.

mod report;

pub use report::{glanced, read, report, reported};

use std::collections::{BTreeMap, VecDeque};
use std::iter::successors;

use super::common::SteadyStep;
use super::{Brief, Inputs, Options, SimulationError, StepCache, StepRequest, fullest, stood_still_in};
use stepsim_core::engine::{self, Observer, Record, State};
use stepsim_core::fold::FoldedWorld;
use stepsim_core::program::{Edit, Period, StreamKind, World};
use stepsim_core::units::{Bytes, Time};
use stepsim_plan::step::{Plan, fewest_micro_batches, order};
use stepsim_price::model::flops::StepFlops;
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::overlap::StoodStill;
use stepsim_schedule::ScheduleChoice;

/// The figures of a step that a study reads.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// When the last op ended.
    pub step_end: Time,
    /// The fullest device memory.
    pub memory_peak_bytes: Option<u64>,
    /// Seconds of a mean rank that stood still for communication, by its kind; empty if not asked for.
    pub exposed: BTreeMap<OpKind, f64>,
    /// Seconds of a mean rank that stood still for other ranks; 0 if not asked for.
    pub for_others_s: f64,
    /// Tokens per second.
    pub tokens_per_s: f64,
    /// Model FLOP utilisation.
    pub mfu: f64,
    /// The turns that were not played.
    pub jumped: Option<TurnJump>,
}

/// Turns of a schedule that were counted and not played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnJump {
    /// Micro-batches of the step.
    pub of: u32,
    /// Those left out.
    pub micro_batches: u32,
    /// How often the run returned to one state in the time left out.
    pub times: u64,
    /// The time between two such moments.
    pub turn: Time,
}

/// Plays a step for its figures alone, jumping where `options` allow it.
///
/// # Errors
/// See [`SimulationError`].
pub fn figures(inputs: &Inputs, options: &Options, exposed: bool) -> Result<Figures, SimulationError> {
    figures_edited(inputs, options, &[], exposed)
}

/// The same of one of many steps, which share what can be shared.
///
/// # Errors
/// See [`SimulationError`].
pub fn figures_among(
    common: &StepCache,
    inputs: &Inputs,
    options: &Options,
    exposed: bool,
) -> Result<Figures, SimulationError> {
    figures_of(StepRequest { inputs, options, edits: &[], common: Some(common) }, before(exposed))
}

/// The same of one of many steps, whose planned world is changed by `edits`; what stood still is found where the
/// step ends before `exposed_before`.
///
/// # Errors
/// See [`SimulationError`].
pub fn figures_edited_among(
    common: &StepCache,
    inputs: &Inputs,
    options: &Options,
    edits: &[Edit],
    exposed_before: Time,
) -> Result<Figures, SimulationError> {
    figures_of(StepRequest { inputs, options, edits, common: Some(common) }, exposed_before)
}

/// The same of a step whose planned world is changed by `edits`, as [`super::Simulation::run_edited`] changes it.
///
/// # Errors
/// See [`SimulationError`].
pub fn figures_edited(
    inputs: &Inputs,
    options: &Options,
    edits: &[Edit],
    exposed: bool,
) -> Result<Figures, SimulationError> {
    figures_of(StepRequest { inputs, options, edits, common: None }, before(exposed))
}

/// All steps end before this, or none does.
fn before(exposed: bool) -> Time {
    if exposed { Time::MAX } else { Time::ZERO }
}

fn figures_of(asked: StepRequest, exposed_before: Time) -> Result<Figures, SimulationError> {
    let StepRequest { inputs, options, .. } = asked;
    if let Some(short) = jumped(asked) {
        let Short { plan, folded, record, peaks, found, jumped, .. } = &short;
        let section = ((found.before.at, found.after.at), jumped.times);
        let end = record.step_end + jumped.turn * jumped.times;
        let still = match end < exposed_before {
            true => stood_still_in(plan, folded, record, Some(section)),
            false => StoodStill::default(),
        };
        let memory_peak_bytes = fullest(&folded.world, peaks, "hbm");
        let (model, w) = (&inputs.model, &inputs.workload.value);
        let flops = StepFlops::of_step(w, model, w.batch.global, None).model;
        return Ok(with_speed(inputs, end, flops, memory_peak_bytes, still, Some(*jumped)));
    }
    if exposed_before == Time::ZERO {
        // Nothing is read of single ops: none is recorded, and the step of all ranks need not be kept beside what is
        // played.
        let (plan, folded) = asked.prepared()?;
        let flops = plan.model_flops.model;
        drop(plan);
        asked.counts(&folded.world);
        let (end, peak) = Brief::of(&folded.world, "hbm")?;
        return Ok(with_speed(inputs, end, flops, peak, StoodStill::default(), None));
    }
    let (plan, folded) = asked.prepared()?;
    asked.counts(&folded.world);
    engine::check_record_size(&folded.world, options.record_bytes)?;
    let mut kept = RunRecorder::of(&folded.world);
    let stats = engine::run_observed(&folded.world, &mut kept)?;
    let RunRecorder { mut record, peaks } = kept;
    record.complete(stats);
    let still = match record.step_end < exposed_before {
        true => stood_still_in(&plan, &folded, &record, None),
        false => StoodStill::default(),
    };
    let memory_peak_bytes = fullest(&folded.world, &peaks, "hbm");
    Ok(with_speed(inputs, record.step_end, plan.model_flops.model, memory_peak_bytes, still, None))
}

fn with_speed(
    inputs: &Inputs,
    step_end: Time,
    flops: f64,
    memory_peak_bytes: Option<u64>,
    still: StoodStill,
    jumped: Option<TurnJump>,
) -> Figures {
    let workload = &inputs.workload.value;
    let (global, sequence) = (workload.batch.global, workload.sequence(&inputs.model));
    let rate = |amount: f64| if step_end > Time::ZERO { amount / step_end.s() } else { 0.0 };
    Figures {
        step_end,
        memory_peak_bytes,
        exposed: still.exposed,
        for_others_s: still.for_others,
        tokens_per_s: rate((global * sequence) as f64),
        mfu: rate(flops) / f64::from(inputs.machine.devices()) / inputs.peak().0,
        jumped,
    }
}

/// A step of fewer micro-batches that was played, and what is to be counted more than once.
struct Short {
    plan: Plan,
    folded: FoldedWorld,
    record: Record,
    /// By tier: its highest level.
    peaks: Vec<Bytes>,
    /// Two moments of one state: what lies between them comes again and again.
    found: RepeatedState,
    /// The turns of its programs.
    turns: WorldTurns,
    /// Micro-batches of each direction from one of those moments to the other.
    of_direction: u32,
    jumped: TurnJump,
    /// How soon it came to rest.
    rest: SteadyStep,
}

/// Tries short steps until one returns to a state in time; `None` where the whole step is to be played.
fn jumped(asked: StepRequest) -> Option<Short> {
    shortened(asked, LENGTHS, &mut Some)
}

/// Those that are tried.
const LENGTHS: ShortLengths = ShortLengths { least: 4, spared: 2 };

/// The short steps that are tried.
#[derive(Clone, Copy)]
struct ShortLengths {
    /// Micro-batches a stage of a step that nearly always comes to rest.
    least: u32,
    /// The least ratio of the whole step's micro-batches to its own.
    spared: u32,
}

impl ShortLengths {
    /// Numbers of micro-batches to try for a step of `whole` of them. The shortest order that goes on by turns has
    /// `fewest`; a step that fills its pipeline once more often has come to rest in it. Vain trials add at most
    /// three quarters of the whole step's cost.
    fn of(&self, whole: u32, stages: u32, fewest: u32) -> impl Iterator<Item = u32> + use<> {
        let (first, usual) = ((fewest + stages, 2 * self.spared), (self.least * stages, self.spared));
        let longer = successors(Some(usual), |(least, spared)| Some((3 * least, 2 * spared)));
        let fits = move |&(least, spared): &(u32, u32)| whole >= spared * least;
        let first = Some(first).filter(|first| first.0 < usual.0).filter(fits);
        first.into_iter().chain(longer.take_while(fits)).map(|(least, _)| least)
    }
}

/// Micro-batches and stages of a step whose turns may be jumped.
struct StepSize {
    whole: u32,
    stages: u32,
    /// Micro-batches of the shortest order that goes on by turns.
    fewest: u32,
}

impl StepSize {
    fn of(inputs: &Inputs, options: &Options) -> Option<StepSize> {
        let workload = &inputs.workload.value;
        let pipeline = &workload.parallelism.pipeline;
        let ScheduleChoice::Named(schedule) = pipeline.choice() else { return None };
        let drawn =
            workload.noise.is_random() || workload.documents.is_some() || workload.has_uneven_images();
        if !options.jump || drawn || schedule.facts().searched {
            return None;
        }
        let whole = workload.micro_batches(u64::from(inputs.machine.devices())) as u32;
        Some(StepSize { whole, stages: pipeline.size as u32, fewest: fewest_micro_batches(workload, whole) })
    }
}

/// The share of a step's micro-batches that is played where its turns come to rest at once.
pub fn share_played(inputs: &Inputs, options: &Options) -> f64 {
    let share = |StepSize { whole, stages, fewest }| {
        let least = LENGTHS.of(whole, stages.max(2), fewest).next()?;
        Some(f64::from(least) / f64::from(whole))
    };
    StepSize::of(inputs, options).and_then(share).unwrap_or(1.0)
}

/// Tries short steps until one returns to a state in time and something can be made of it.
fn shortened<T>(
    asked: StepRequest,
    lengths: ShortLengths,
    make: &mut dyn FnMut(Short) -> Option<T>,
) -> Option<T> {
    let StepSize { whole, stages, fewest } = StepSize::of(asked.inputs, asked.options)?;
    let pipeline = [stages, fewest];
    if asked.common.is_some_and(|common| !common.is_worth_shortening(pipeline)) {
        return None;
    }
    let hoped = asked.common.and_then(|common| common.hoped(pipeline));
    let hoped = hoped.filter(|(least, _)| whole / least >= 2 * lengths.spared);
    let usual = lengths.of(whole, stages.max(2), fewest).map(|least| (least, stages));
    for (least, turn) in hoped.into_iter().chain(usual) {
        let try_with = |turn: u32| {
            let micro_batches = least + (whole - least) % turn;
            (micro_batches < whole).then(|| play(asked, whole, micro_batches)).flatten()
        };
        let short = match try_with(turn) {
            // The state recurs after `recurs` micro-batches; the number left out is no multiple of them.
            Some(Err(recurs)) => try_with(least_common(recurs, turn)),
            short => short,
        };
        let short = short.and_then(Result::ok);
        if let Some(common) = asked.common {
            match &short {
                Some(short) => common.came_to_rest(pipeline, short.rest),
                None => common.was_too_short(pipeline, least),
            }
        }
        if let Some(made) = short.and_then(&mut *make) {
            return Some(made);
        }
    }
    if let Some(common) = asked.common {
        common.was_in_vain(pipeline);
    }
    None
}

fn least_common(a: u32, b: u32) -> u32 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x.max(1) * b
}

/// Plays a step of fewer micro-batches. `Err` says how many micro-batches a recurrence of its state takes, if those
/// left out are not a multiple.
fn play(asked: StepRequest, whole: u32, fewer: u32) -> Option<Result<Short, u32>> {
    let (plan, folded) = planned(asked, fewer)?;
    let left_out = whole - fewer;
    let workload = &asked.inputs.workload.value;
    let turns = WorldTurns::of(&folded.world)?;
    asked.counts(&folded.world);
    let mut watch = Watch::new(&folded.world, &turns);
    let stats = engine::run_observed(&folded.world, &mut watch).ok()?;
    let Watch { kept: RunRecorder { mut record, peaks }, found, .. } = watch;
    record.complete(stats);
    let found = found?;
    let recurs = found.turns;
    let directions = plan.micro_batches / plan.order.per_direction().max(1);
    let in_turn = turns.micro_batches * directions;
    if !left_out.is_multiple_of(in_turn * recurs) {
        return Some(Err(in_turn * recurs));
    }
    let put_in = left_out / in_turn;
    if !plan.order.goes_on_by_turns(&order(workload, whole).ok()?, put_in, turns.micro_batches) {
        return None;
    }
    let times = u64::from(put_in / recurs);
    let turn = found.after.at - found.before.at;
    let jumped = TurnJump { of: whole, micro_batches: left_out, times, turn };
    let of_direction = turns.micro_batches * recurs;
    let spare = turns.spare(&folded.world, &found.after) * in_turn;
    let rest = SteadyStep { micro_batches: fewer, spare, recurs: in_turn * recurs };
    Some(Ok(Short { plan, folded, record, peaks, found, turns, of_direction, jumped, rest }))
}

/// A step of `micro_batches`, ready to be played.
fn planned(asked: StepRequest, micro_batches: u32) -> Option<(Plan, FoldedWorld)> {
    let plan = asked.planned(&asked.inputs.with_micro_batches(micro_batches)?).ok()?;
    let folded = asked.folded(&plan.world);
    Some((plan, folded))
}

/// The turns of all programs of a world, of as many micro-batches each.
struct WorldTurns {
    micro_batches: u32,
    /// By program.
    of: Vec<ProgramTurn>,
}

/// A turn of one program.
struct ProgramTurn {
    /// The stretch that repeats itself.
    period: Period,
    /// By stream: its ops in one turn.
    heads: Vec<u32>,
}

impl WorldTurns {
    fn of(world: &World) -> Option<WorldTurns> {
        let mut periods = world.programs.iter().map(|p| p.period()).collect::<Option<Vec<_>>>()?;
        let micro_batches = periods.iter().map(|p| p.micro_batches).reduce(least_common)?;
        for period in &mut periods {
            period.ops *= micro_batches / period.micro_batches;
            period.micro_batches = micro_batches;
        }
        let of = periods.into_iter().zip(&world.programs).map(|(period, program)| {
            let first = period.stretch.start as usize;
            let mut heads = vec![0; program.streams.len()];
            let turn = program.ops.get(first..first + period.ops as usize)?;
            turn.iter().for_each(|op| heads[usize::from(op.stream)] += 1);
            Some(ProgramTurn { period, heads })
        });
        Some(WorldTurns { micro_batches, of: of.collect::<Option<_>>()? })
    }

    /// Turns without which a run would have come to a state as well: no stream has begun them, and periods are found
    /// without them.
    fn spare(&self, world: &World, state: &State) -> u32 {
        let periods = world.programs.iter().zip(&self.of).map(|(p, turn)| turn.period.spare(p.ops.len()));
        let of_periods = periods.min().unwrap_or(0);
        let mut heads = state.heads.iter();
        let of_ranks = world.ranks.iter().flat_map(|rank| {
            let program = rank.program.index();
            world.programs[program]
                .streams
                .iter()
                .zip(&self.of[program].heads)
                .map(move |pair| (program, pair))
        });
        let turns = of_ranks.zip(&mut heads).filter(|((_, (_, in_turn)), _)| **in_turn > 0);
        let turns = turns.map(|((program, (stream, in_turn)), head)| {
            let end = self.of[program].period.stretch.end;
            let in_stretch = stream.ops.partition_point(|op| op.0 < end) as u32;
            in_stretch.saturating_sub(head + 1) / in_turn
        });
        turns.min().map_or(0, |turns| turns.min(of_periods))
    }
}

/// The number of looks at the states in a turn.
const LOOKS: usize = 8;
/// A state that recurs after more turns than these is not waited for.
const MOST_TURNS: usize = 4;

/// Records a run and its highest levels of memory.
struct RunRecorder {
    record: Record,
    peaks: Vec<Bytes>,
}

impl RunRecorder {
    fn of(world: &World) -> RunRecorder {
        RunRecorder { record: Record::for_world(world), peaks: Vec::new() }
    }
}

impl Observer for RunRecorder {
    #[inline]
    fn finished(&mut self, rank: u32, op: u32, start: Time, end: Time) {
        self.record.finished(rank, op, start, end);
    }
    fn slowed_by_memory(&mut self, rank: u32, by: Time) {
        self.record.slowed_by_memory(rank, by);
    }
    fn peaks(&mut self, peaks: &[Bytes]) {
        self.peaks = peaks.to_vec();
    }
}

/// Records a run and watches for a state to recur.
struct Watch<'a> {
    kept: RunRecorder,
    world: &'a World,
    turns: &'a WorldTurns,
    /// Ops of rank 0 by which the state is looked at, equally many a turn, and which of them comes next.
    marks: Vec<u32>,
    marks_in_turn: usize,
    next: usize,
    wanted: bool,
    /// States with the number of their mark.
    states: VecDeque<(usize, State)>,
    found: Option<RepeatedState>,
}

/// Two moments of one state.
struct RepeatedState {
    before: State,
    after: State,
    /// Turns between them.
    turns: u32,
}

impl<'a> Watch<'a> {
    fn new(world: &'a World, turns: &'a WorldTurns) -> Watch<'a> {
        let rank = &world.ranks[0];
        let (program, turn) = (&world.programs[rank.program.index()], &turns.of[rank.program.index()]);
        let Period { ops, ref stretch, .. } = turn.period;
        // Launches of a host are told long before they end, many at once.
        let of_device = (0..turn.heads.len()).filter(|&s| program.streams[s].kind != StreamKind::Host);
        let busiest = of_device.max_by_key(|&s| turn.heads[s]).unwrap_or(0) as u16;
        let in_turn: Vec<u32> = (stretch.start..stretch.start + ops)
            .filter(|&op| program.ops[op as usize].stream == busiest)
            .collect();
        let looks = LOOKS.min(in_turn.len()).max(1);
        let of_turn: Vec<u32> =
            (0..looks).filter_map(|i| in_turn.get(i * in_turn.len() / looks).copied()).collect();
        let all = (0..).map(|n| n * ops).take_while(|begin| stretch.start + begin < stretch.end);
        let marks = all.flat_map(|begin| of_turn.iter().map(move |op| op + begin)).collect();
        Watch {
            kept: RunRecorder::of(world),
            world,
            turns,
            marks,
            marks_in_turn: of_turn.len(),
            next: 0,
            wanted: false,
            states: VecDeque::new(),
            found: None,
        }
    }

    /// The state at a mark, if it was there before.
    fn find(&self, mark: usize, now: &State) -> Option<RepeatedState> {
        let at = |mark: usize| self.states.iter().find(|(at, _)| *at == mark).map(|(_, state)| state);
        (1..=MOST_TURNS).find_map(|turns| {
            let before = at(mark.checked_sub(turns * self.marks_in_turn)?)?;
            let turns = turns as u32;
            self.recurs(before, now, turns).then(|| RepeatedState {
                before: before.clone(),
                after: now.clone(),
                turns,
            })
        })
    }

    /// True if two states are the same, all ranks being `turns` turns further on and in their stretches.
    fn recurs(&self, before: &State, after: &State, turns: u32) -> bool {
        if before.rest != after.rest {
            return false;
        }
        let mut heads = before.heads.iter().zip(&after.heads);
        self.world.ranks.iter().all(|rank| {
            let (program, turn) =
                (&self.world.programs[rank.program.index()], &self.turns.of[rank.program.index()]);
            let stretch = &turn.period.stretch;
            program.streams.iter().zip(&turn.heads).all(|(stream, in_turn)| {
                let Some((from, to)) = heads.next() else { return false };
                let in_stretch =
                    |head: u32| stream.ops.get(head as usize).is_some_and(|op| stretch.contains(&op.0));
                from + in_turn * turns == *to && (*in_turn == 0 || in_stretch(*from) && in_stretch(*to))
            })
        })
    }
}

impl Observer for Watch<'_> {
    fn finished(&mut self, rank: u32, op: u32, start: Time, end: Time) {
        self.kept.finished(rank, op, start, end);
        if rank == 0 && self.marks.get(self.next) == Some(&op) {
            self.next += 1;
            self.wanted = self.found.is_none();
        }
    }
    fn slowed_by_memory(&mut self, rank: u32, by: Time) {
        self.kept.slowed_by_memory(rank, by);
    }
    fn peaks(&mut self, peaks: &[Bytes]) {
        self.kept.peaks(peaks);
    }
    #[inline]
    fn wants_state(&self) -> bool {
        self.wanted
    }
    fn state(&mut self, state: State) {
        self.wanted = false;
        let mark = self.next - 1;
        self.found = self.find(mark, &state);
        if self.states.len() == MOST_TURNS * LOOKS {
            self.states.pop_front();
        }
        self.states.push_back((mark, state));
    }
}
