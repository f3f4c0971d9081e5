//! Candidates: what could be otherwise in a step, each played.
//!
//! Where a field makes it so, the workload or the machine is read again with that setting, planned and played: the
//! step with a candidate is the run with its settings, to the picosecond. A change without a field is edited into the
//! planned world. A candidate never takes work away: unevenness is dealt out again, a fault heals, a rate becomes
//! what it was or its neighbour, a choice the one beside it.
//!
//! Stated faults and unevenness are always played: there are few, and of several faults all healed together too.
//! Limits and choices are many, so each has a promise first (of a limit its time on the critical path, of a choice what
//! the closed form takes less), and [`Depth`] says how many of them are played. The answer needs the dearest choice,
//! and the dearest limit where nothing is amiss: they are played by their promise until none that is left can be
//! dearer. Nothing that would take longer than a second is asked, and the answer says so. A choice whose closed form is
//! far longer is left out of all, and so are layers dealt out evenly where the file's own split is the better one by
//! it. A choice that no run can make a line of has none without being played: its certain memory is more than there
//! is, or its floor no shorter than the step. A promise only orders and leaves out; what is said is what was played.
//!
//! The cost of a candidate has two parts. *Itself* is the work or wait that a mean rank loses: kernels, communication
//! that is on its way, its host, room on a tier. *Others* is the wait that ranks lose for one another: bubbles, late
//! peers, the end of the step.

mod choices;
mod early;
mod faults;
mod idea;
mod limits;
mod step;
mod uneven;

use std::collections::{BTreeSet, VecDeque};
use std::sync::OnceLock;

pub use step::Depth;

use early::EarlyPlays;
use idea::{Idea, Remedy};
use step::{BaseStep, TABLE};
use stepsim_core::pool;
use stepsim_core::units::Time;
use stepsim_form::analytic::StepBound;
use stepsim_form::compare::Estimators;
use stepsim_measure::score::ranges::told;
use stepsim_read::analysis::candidates::{Candidate, CandidateKind};
use stepsim_read::analysis::report::Report;
use stepsim_read::analysis::stalls::Breakdown;
use stepsim_simulate::jump::{figures_edited_among, glanced, share_played};
use stepsim_simulate::whatif::{StageLevels, apply};
use stepsim_simulate::{Inputs, Options, SimulationError, StepCache};

/// Changes below this part of the step have no line.
const SMALL: f64 = 0.0005;

/// A limit or choice that promises less than this part of the step is not played but where all are; one that costs less
/// has no sentence.
const PROMISES: f64 = 0.005;

/// Ops that a second of one processor plans and plays, and about as many passes that closed forms walk: 0.7 million ops
/// of `run gpt3-175b -q --set parallelism.tensor_overlap=ring` take 0.33 CPU-s.
const OPS_A_SECOND: u64 = 2_000_000;

/// Nine in ten closed forms of random steps are as near to the played step as this part of it, which the walk of laws
/// holds: a choice that is longer by more in closed form is not played.
pub const FORM_ERROR: f64 = 0.05;

/// The promise of a choice, a difference of two closed forms, is off by less than this part of the step: the answer plays
/// no choice that this and its promise leave behind what was found. That it is so is held where all are played
/// (`answer::the_first_cause_is_that_of_all_candidates`).
const CLOSE: f64 = 0.03;

/// The closed form adds seconds in floating point and a run whole picoseconds: its floor is that much too high at most.
const ROUNDING: f64 = 1e-6;

/// So many of the best choices are tried together.
const TOGETHER: usize = 8;

/// The report with its answer: the time of its step with its range and doubts, and what could be otherwise.
///
/// # Errors
/// The step cannot be planned.
pub fn answer(
    inputs: &Inputs,
    options: &Options,
    report: Report,
    depth: Depth,
) -> Result<Report, SimulationError> {
    with_candidates(inputs, options, told(inputs, report), depth)
}

/// A step with its answer: the report of its screen.
///
/// # Errors
/// The step cannot be planned or played.
pub fn answered(inputs: &Inputs) -> Result<Report, SimulationError> {
    let options = Options::default();
    answer(inputs, &options, glanced(inputs, &options)?, Depth::Answer)
}

/// The report with what could be otherwise, and the answer that follows from it.
///
/// # Errors
/// The step cannot be planned.
pub fn with_candidates(
    inputs: &Inputs,
    options: &Options,
    report: Report,
    depth: Depth,
) -> Result<Report, SimulationError> {
    let step = BaseStep {
        inputs,
        options,
        report: &report,
        depth,
        levels: OnceLock::new(),
        common: StepCache::default(),
        forms: Estimators::default(),
    };
    let PlayedCandidates { mut candidates, left_out, not_asked } = match depth {
        Depth::Answer | Depth::Tables => step.dearest()?,
        Depth::All | Depth::Choices => {
            let (ideas, left_out) = step.ideas();
            PlayedCandidates { candidates: step.all(&ideas)?, left_out, not_asked: None }
        }
    };
    candidates.retain(|c| c.cost_s() >= SMALL * report.step_time_s);
    candidates.sort_by(|a, b| a.step_s.total_cmp(&b.step_s).then(a.kind.cmp(&b.kind)));
    if depth == Depth::Choices {
        candidates.splice(0..0, step.together(&candidates));
    }
    let mut report = Report { candidates, candidates_left_out: left_out as u64, ..report };
    report.answer.not_asked = not_asked;
    Ok(report.answered())
}

/// The candidates that were played.
struct PlayedCandidates {
    candidates: Vec<Candidate>,
    left_out: usize,
    not_asked: Option<String>,
}

impl BaseStep<'_> {
    /// The candidates that ideas are.
    fn all(&self, ideas: &[Idea]) -> Result<Vec<Candidate>, SimulationError> {
        Ok(self.each(ideas)?.into_iter().flatten().collect())
    }

    /// The candidate that each idea is; `None` of one that cannot be so.
    fn each(&self, ideas: &[Idea]) -> Result<Vec<Option<Candidate>>, SimulationError> {
        if ideas.iter().any(|idea| matches!(idea.way, Remedy::Without(_))) {
            self.levels()?;
        }
        Ok(pool::all(ideas.len(), self.threads(), &|i| self.played(&ideas[i])))
    }

    fn threads(&self) -> usize {
        pool::threads(self.options.threads)
    }

    /// The candidates of the answer, and for a table the next by their promise.
    fn dearest(&self) -> Result<PlayedCandidates, SimulationError> {
        let told_s = PROMISES * self.report.step_time_s;
        let (mut limits, mut amiss) = self.causes();
        let choices = self.choices_beside(&amiss);
        let levelled = amiss.iter().position(Idea::levels_stages).map(|at| amiss.remove(at));
        let mut candidates = self.all(&amiss)?;
        let mut plays = self.plays(choices.len());
        if plays == 0 {
            let not_asked = "What to set or to buy was not asked: `stepsim whatif` plays it".to_owned();
            let left_out = limits.len() + choices.len();
            return Ok(PlayedCandidates { candidates, left_out, not_asked: Some(not_asked) });
        }
        limits.sort_by(|a, b| b.promise_s.total_cmp(&a.promise_s));
        let mut limits = VecDeque::from(limits);
        let mut early = EarlyPlays::of(self);
        early.expect(&mut limits.iter(), told_s);
        if let Some(idea) = levelled.filter(|_| self.most_levelled() > told_s.max(dearest_s(&candidates))) {
            candidates.extend(early.play(idea)?);
        }
        let mut dearest_limit_s = if dearest_s(&candidates) < told_s { told_s } else { f64::INFINITY };
        while limits.front().is_some_and(|idea| idea.promise_s > dearest_limit_s)
            && let Some(idea) = limits.pop_front()
        {
            let played = early.play(idea)?;
            dearest_limit_s = dearest_limit_s.max(played.as_ref().map_or(0.0, Candidate::cost_s));
            candidates.extend(played);
        }
        let close_s = CLOSE * self.report.step_time_s;
        let may_be_dearer =
            |idea: &Idea, dearest_s: f64| (idea.promise_s + close_s).min(idea.most_s) > dearest_s;
        let (mut choices, far) = self.promising(choices);
        early.expect(&mut limits.iter().chain(&choices), told_s);
        let mut dearest_choice_s = told_s;
        while let Some(at) = choices.iter().position(|idea| may_be_dearer(idea, dearest_choice_s))
            && plays > 0
            && let Some(idea) = choices.remove(at)
        {
            let played = early.play(idea)?;
            plays -= usize::from(played.is_some());
            dearest_choice_s = dearest_choice_s.max(played.as_ref().map_or(0.0, Candidate::cost_s));
            candidates.extend(played);
        }
        let open = choices.iter().filter(|idea| may_be_dearer(idea, dearest_choice_s)).count();
        let not_asked = (open > 0).then(|| {
            format!("What to set was not asked of {open} more choices: `stepsim whatif` plays them")
        });
        if self.depth == Depth::Tables {
            let is_bounded = |c: &&Candidate| matches!(c.kind, CandidateKind::Limit | CandidateKind::Choice);
            let most = TABLE.saturating_sub(candidates.iter().filter(is_bounded).count());
            let mut more: Vec<Idea> = limits.drain(..).chain(choices.drain(..)).collect();
            more.sort_by(|a, b| b.promise_s.total_cmp(&a.promise_s));
            let promising = more.iter().filter(|idea| idea.promise_s >= told_s).count();
            let rest = more.split_off(most.min(promising));
            candidates.extend(early.all(&more)?);
            limits = rest.into();
        }
        Ok(PlayedCandidates { candidates, left_out: limits.len() + choices.len() + far, not_asked })
    }

    /// How many choices of so many are played for the answer, in a second that their closed forms begin.
    fn plays(&self, choices: usize) -> usize {
        let r = self.report;
        let ops = r.ops * r.classes.simulated_ranks / r.classes.ranks.max(1);
        // By the step and not by how it was played: a timeline's is played whole.
        let played = (ops as f64 * share_played(self.inputs, self.options)) as u64;
        let w = &self.inputs.workload.value;
        let pipeline = &w.parallelism.pipeline;
        let micro_batches = w.micro_batches(u64::from(self.inputs.machine.devices()));
        let passes = micro_batches.saturating_mul(pipeline.size).saturating_mul(pipeline.chunks());
        let forms = passes.saturating_mul(choices as u64);
        (OPS_A_SECOND.saturating_sub(forms) / played.max(1)) as usize
    }

    /// The most that level stages can save: the critical path stays a path, and none of its kernels gets faster by
    /// more than the kernels of the stage that is shortened by the largest part. A quarter more, since sharing and
    /// interference change with it.
    fn most_levelled(&self) -> f64 {
        let stages = &self.report.stages;
        let length = |time: &Breakdown| time.busy_s + StageLevels::exposed(time);
        let lengths: Vec<f64> = stages.iter().map(|stage| length(&stage.time)).collect();
        let mean = lengths.iter().sum::<f64>() / lengths.len().max(1) as f64;
        let shorter = stages.iter().zip(&lengths).map(|(stage, length)| (length - mean) / stage.time.busy_s);
        1.25 * self.report.step_time_s * shorter.fold(0.0, f64::max)
    }

    /// The ideas to be played where all are, and the number of choices left out.
    fn ideas(&self) -> (Vec<Idea>, usize) {
        if self.depth == Depth::Choices {
            let all = [choices::of(self.inputs), choices::fewer_at_the_ends(self.inputs)].concat();
            let (choices, left_out) = self.promising(all);
            return (choices.into(), left_out);
        }
        let (limits, mut ideas) = self.causes();
        let (choices, left_out) = self.promising(self.choices_beside(&ideas));
        ideas.extend(limits);
        ideas.extend(choices);
        (ideas, left_out)
    }

    /// The limits, and what is amiss: faults, all of several together, and unevenness.
    fn causes(&self) -> (Vec<Idea>, Vec<Idea>) {
        let (weakened, limits): (Vec<Idea>, Vec<Idea>) =
            limits::of(self).into_iter().partition(|idea| idea.kind == CandidateKind::Fault);
        let families = faults::of(self).into_iter().chain(weakened.into_iter().map(|idea| vec![idea]));
        let families: Vec<Vec<Idea>> = families.filter(|family| !family.is_empty()).collect();
        let mut amiss = faults::together(&families);
        amiss.extend(families.into_iter().flatten());
        amiss.extend(uneven::of(self));
        let mut seen = BTreeSet::new();
        amiss.retain(|idea| match &idea.way {
            Remedy::Sets(sets) => seen.insert(sets.clone()) && !self.deals_out_worse(idea),
            Remedy::Without(_) => true,
        });
        (limits, amiss)
    }

    /// All choices but those that have the gain of an idea, since they make all its settings.
    fn choices_beside(&self, ideas: &[Idea]) -> Vec<Idea> {
        let has = |choice: &Idea, idea: &Idea| match (&choice.way, &idea.way) {
            (Remedy::Sets(all), Remedy::Sets(some)) => {
                some.len() <= all.len() && some.iter().all(|set| all.contains(set))
            }
            _ => false,
        };
        let mut choices = choices::of(self.inputs);
        choices.retain(|choice| !ideas.iter().any(|idea| has(choice, idea)));
        choices
    }

    /// Choices in the order of their promise, and the number of those that promise a far longer step. What no run can
    /// make a line of is among neither.
    fn promising(&self, mut choices: Vec<Idea>) -> (VecDeque<Idea>, usize) {
        self.estimate(&mut choices);
        let all = choices.len();
        choices.retain(|choice| choice.promise_s >= -FORM_ERROR * self.report.step_time_s);
        let left_out = all - choices.len();
        choices.retain(|choice| !choice.is_in_vain);
        choices.sort_by(|a, b| b.promise_s.total_cmp(&a.promise_s));
        (choices.into(), left_out)
    }

    /// The best choices with the next best added, one by one as far as each makes the step shorter still; the best
    /// first.
    fn together(&self, choices: &[Candidate]) -> Vec<Candidate> {
        let mut best: Vec<Candidate> = Vec::new();
        for next in choices.iter().take(TOGETHER).skip(1) {
            let before = best.first().unwrap_or(&choices[0]);
            let word = |a: &str, b: &str| format!("{a} + {b}");
            let sets = [before.sets.as_slice(), &next.sets].concat();
            let (what, otherwise) =
                (word(&before.what, &next.what), word(&before.otherwise, &next.otherwise));
            let idea = Idea::of(CandidateKind::Choice, what, otherwise, Remedy::Sets(sets));
            let path = |set: &String| set.split_once('=').map(|(path, _)| path.to_owned());
            let again = next.sets.iter().any(|set| before.sets.iter().any(|known| path(known) == path(set)));
            let played = if again { None } else { self.played(&idea) };
            if let Some(both) = played.filter(|both| both.step_s < before.step_s) {
                best.insert(0, both);
            }
        }
        best
    }

    /// Gives choices the promise of the closed form, and marks those that no run can make a line of: by memory and sums
    /// where they say so; else a walk of the passes says what is promised, and another how much it can be at most.
    fn estimate(&self, choices: &mut [Idea]) {
        let step_s = self.report.step_time_s;
        let now = self.forms.of_any_batch(self.inputs, &mut |form| {
            let global = self.inputs.workload.value.batch.global;
            form.bound(global).ok().filter(StepBound::fits).and_then(|_| form.seconds(global).ok())
        });
        let Some(now_s) = now.ok().flatten() else { return };
        let most_s = |least_s: f64| step_s - least_s * (1.0 - ROUNDING);
        let promise = |choice: &Idea| {
            let inputs = self.changed(choice)?;
            let global = inputs.workload.value.batch.global;
            let found = self.forms.of_any_batch(&inputs, &mut |form| {
                let bound = form.bound(global).ok()?;
                let at_most_s = most_s(bound.seconds);
                let is_full = bound.memory.iter().any(|rank| rank.certain > bound.capacity);
                let promise = |seconds: f64| if bound.fits() { now_s - seconds } else { 0.0 };
                if is_full || at_most_s <= SMALL * step_s {
                    return Some((promise(bound.seconds), 0.0));
                }
                let is_far = |promise_s: f64| promise_s < -FORM_ERROR * step_s;
                let least_s = bound.seconds * (1.0 - ROUNDING);
                if is_far(promise(least_s)) {
                    return Some((promise(least_s), at_most_s));
                }
                let promise_s = promise(form.seconds(global).ok()?);
                let most_s = if is_far(promise_s) { at_most_s } else { most_s(form.floor(global).ok()?) };
                Some((promise_s, most_s))
            });
            found.ok()?
        };
        let found = pool::all(choices.len(), self.threads(), &|i| promise(&choices[i]));
        self.forms.forget();
        for (choice, (promise_s, at_most_s)) in
            choices.iter_mut().zip(found).filter_map(|(c, found)| Some((c, found?)))
        {
            (choice.promise_s, choice.most_s) = (promise_s, at_most_s);
            choice.is_in_vain = at_most_s <= SMALL * step_s;
        }
    }

    /// The inputs with an idea that is made of settings.
    fn changed(&self, idea: &Idea) -> Option<Inputs> {
        let Remedy::Sets(sets) = &idea.way else { return None };
        self.inputs.again(sets).ok()
    }

    /// True if layers that the file deals out unevenly take far longer otherwise, in closed form.
    fn deals_out_worse(&self, idea: &Idea) -> bool {
        let seconds = |inputs: &Inputs| Some(self.forms.closed_form(inputs).ok()?.terms.total());
        let longer_s = || Some(seconds(&self.changed(idea)?)? - seconds(self.inputs)?);
        idea.deals_out_layers() && longer_s().is_some_and(|s| s > FORM_ERROR * self.report.step_time_s)
    }

    /// How long its stages are.
    fn levels(&self) -> Result<&StageLevels, SimulationError> {
        if self.levels.get().is_none() {
            let levels = StageLevels::of_step(self.inputs, self.options, self.report)?;
            return Ok(self.levels.get_or_init(|| levels));
        }
        Ok(self.levels.get_or_init(StageLevels::default))
    }

    /// How an idea is played. Stages of one length wait for the round through all p of them, which takes a turn less
    /// than a p²-th part longer than the round through all but one: such a step comes to rest after some p²
    /// micro-batches, and where it has not many more it is tried in vain.
    fn options_of(&self, idea: &Idea) -> Options {
        let workload = &self.inputs.workload.value;
        let micro_batches = workload.micro_batches(u64::from(self.inputs.machine.devices()));
        let stages = workload.parallelism.pipeline.stages();
        let rests = !idea.levels_stages() || micro_batches / 2 >= stages * stages;
        Options { jump: self.options.jump && rests, ..*self.options }
    }

    /// The step with something otherwise; `None` where it cannot be so: it does not fit, or is refused.
    fn played(&self, idea: &Idea) -> Option<Candidate> {
        let r = self.report;
        let none = StageLevels::default();
        let (inputs, edits, sets, without) = match &idea.way {
            Remedy::Sets(sets) => (self.inputs.again(sets).ok()?, Vec::new(), sets.clone(), None),
            Remedy::Without(change) => {
                let levels = self.levels.get().unwrap_or(&none);
                let (inputs, edits) = apply(self.inputs, levels, std::slice::from_ref(change)).ok()?;
                (inputs, edits, Vec::new(), Some(change.subject.name()))
            }
        };
        let shorter = Time::from_s(r.step_time_s * (1.0 - SMALL));
        let options = self.options_of(idea);
        let figures = figures_edited_among(&self.common, &inputs, &options, &edits, shorter).ok()?;
        let step_s = figures.step_end.s();
        let waited = r.mean.stalls_s.iter().filter(|(cause, _)| cause.is_for_others());
        let induced_s = waited.map(|(_, s)| s).sum::<f64>() - figures.for_others_s;
        Some(Candidate {
            what: idea.what.clone(),
            otherwise: idea.otherwise.clone(),
            kind: idea.kind,
            sets,
            without,
            step_s,
            own_s: r.step_time_s - step_s - induced_s,
            induced_s,
            memory_peak_bytes: figures.memory_peak_bytes,
        })
    }

    /// Seconds of the bars of a group, of one part where it is named.
    fn bar(&self, group: &str, part: &str) -> f64 {
        let bars = self.report.waterfall.iter().flat_map(|w| &w.mean.bars);
        bars.filter(|b| b.group == group && (part.is_empty() || b.part == part)).map(|b| b.time_s).sum()
    }
}

/// The gain of the dearest candidate; 0 where there is none.
fn dearest_s(candidates: &[Candidate]) -> f64 {
    candidates.iter().map(Candidate::cost_s).fold(0.0, f64::max)
}
