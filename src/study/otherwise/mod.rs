//! Candidates: what could be otherwise in a step, each played.
//!
//! Where a field makes it so, the workload or the machine is read again with that setting, planned and played: the
//! step with a candidate is the run with its settings, to the picosecond. A change without a field is edited into the
//! planned world. A candidate never takes work away: unevenness is dealt out again, a fault heals, a rate becomes
//! what it was or its neighbour, a choice the one beside it.
//!
//! Stated faults and unevenness are always played: there are few. Limits and choices are many, so each has a promise
//! first (of a limit its time on the critical path, of a choice what the closed form takes less), and [`Depth`] says
//! how many of the most promising are played. One screen names the dearest: what promises less than the dearest gains
//! is left out of it. A choice whose closed form is far longer is left out of all, and so are layers dealt out evenly
//! where the file's own split is the better one by it. A choice that no run can make a line of has none without being
//! played: its certain memory is more than there is, or its floor no shorter than the step. A promise only orders and
//! leaves out; what is said is what was played.
//!
//! The cost of a candidate has two parts. *Itself* is the work or wait that a mean rank loses: kernels, communication
//! that is on its way, its host, room on a tier. *Others* is the wait that ranks lose for one another: bubbles, late
//! peers, the end of the step.

mod choices;
mod faults;
pub mod gap;
mod idea;
mod limits;
mod step;
mod uneven;

use std::collections::BTreeSet;
use std::sync::OnceLock;

pub use gap::{Explanation, GapExplanation, MeasuredSpeed, gap};
pub use step::Depth;

use idea::{Idea, Remedy};
use step::BaseStep;
use stepsim_core::pool;
use stepsim_core::units::Time;
use stepsim_form::analytic::Estimate;
use stepsim_form::compare::Estimators;
use stepsim_read::analysis::candidates::{Candidate, CandidateKind, sentence};
use stepsim_read::analysis::report::Report;
use stepsim_read::analysis::stalls::Breakdown;
use stepsim_simulate::jump::figures_edited_among;
use stepsim_simulate::whatif::{StageLevels, apply};
use stepsim_simulate::{Inputs, Options, SimulationError, StepCache};

/// Changes below this part of the step have no line.
const SMALL: f64 = 0.0005;

/// A limit or choice that promises less than this part of the step is not played but where all are.
const PROMISES: f64 = 0.005;

/// A choice that the closed form makes longer by more than this part of the step is not played: its error on steps
/// that it claims whole is less.
pub const LONGER: f64 = 0.05;

/// The closed form adds seconds in floating point and a run whole picoseconds: its floor is that much too high at most.
const ROUNDING: f64 = 1e-6;

/// So many of the best choices are tried together.
const TOGETHER: usize = 8;

/// The report with what could be otherwise, and the sentence that follows from it.
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
    let (ideas, mut left_out) = step.ideas();
    let mut candidates = match depth {
        Depth::Glance => step.dearest(ideas, &mut left_out)?,
        _ => step.all(&ideas)?,
    };
    candidates.retain(|c| c.cost_s() >= SMALL * report.step_time_s);
    candidates.sort_by(|a, b| a.step_s.total_cmp(&b.step_s).then(a.kind.cmp(&b.kind)));
    if depth == Depth::Choices {
        candidates.splice(0..0, step.together(&candidates));
    }
    let mut report = Report { candidates, candidates_left_out: left_out as u64, ..report };
    report.hangs_on = sentence(&report);
    Ok(report)
}

impl BaseStep<'_> {
    /// The candidates that ideas are.
    fn all(&self, ideas: &[Idea]) -> Result<Vec<Candidate>, SimulationError> {
        if ideas.iter().any(|idea| matches!(idea.way, Remedy::Without(_))) {
            self.levels()?;
        }
        let threads = if ideas.len() == 1 { 1 } else { pool::threads(None) };
        let played = pool::all(ideas.len(), threads, &|i| self.played(&ideas[i]));
        Ok(played.into_iter().flatten().collect())
    }

    /// Candidates among which the dearest is: limits and level stages that promise less than it gains are left out.
    fn dearest(&self, ideas: Vec<Idea>, left_out: &mut usize) -> Result<Vec<Candidate>, SimulationError> {
        let bounded = |idea: &Idea| idea.kind == CandidateKind::Limit || idea.levels_stages();
        let (mut bounded, ideas): (Vec<Idea>, Vec<Idea>) = ideas.into_iter().partition(bounded);
        for idea in bounded.iter_mut().filter(|idea| idea.levels_stages()) {
            idea.promise_s = self.most_levelled();
        }
        bounded.sort_by(|a, b| b.promise_s.total_cmp(&a.promise_s));
        let mut candidates = self.all(&ideas)?;
        for idea in bounded {
            let dearest = candidates.iter().map(Candidate::cost_s).fold(0.0, f64::max);
            match idea.promise_s > dearest {
                true => candidates.extend(self.all(&[idea])?),
                false => *left_out += 1,
            }
        }
        Ok(candidates)
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

    /// The ideas to be played, and the number of limits and choices left out.
    fn ideas(&self) -> (Vec<Idea>, usize) {
        if self.depth == Depth::Choices {
            return self.most_promising(Vec::new(), choices::of(self.inputs));
        }
        let mut ideas = faults::of(self);
        ideas.extend(uneven::of(self));
        let (weakened, limits) =
            limits::of(self).into_iter().partition(|idea| idea.kind == CandidateKind::Fault);
        ideas.extend::<Vec<Idea>>(weakened);
        let (rest, left_out) = self.most_promising(limits, self.choices_beside(&ideas));
        ideas.extend(rest);
        let mut seen = BTreeSet::new();
        ideas.retain(|idea| match &idea.way {
            Remedy::Sets(sets) => seen.insert(sets.clone()) && !self.deals_out_worse(idea),
            Remedy::Without(_) => true,
        });
        (ideas, left_out)
    }

    /// All choices but those that have the gain of an idea, since they make all its settings and more.
    fn choices_beside(&self, ideas: &[Idea]) -> Vec<Idea> {
        let has = |choice: &Idea, idea: &Idea| match (&choice.way, &idea.way) {
            (Remedy::Sets(all), Remedy::Sets(some)) => {
                some.len() < all.len() && some.iter().all(|set| all.contains(set))
            }
            _ => false,
        };
        let mut choices = choices::of(self.inputs);
        choices.retain(|choice| !ideas.iter().any(|idea| has(choice, idea)));
        choices
    }

    /// The limits and choices that promise most, and how many do not.
    fn most_promising(&self, limits: Vec<Idea>, mut choices: Vec<Idea>) -> (Vec<Idea>, usize) {
        let (depth, mut ideas) = (self.depth, limits);
        let all = ideas.len() + choices.len();
        let most = match depth {
            Depth::Glance => 2,
            Depth::Tables => 6,
            Depth::All | Depth::Choices => usize::MAX,
        };
        if depth > Depth::Glance {
            self.estimate(&mut choices);
            choices.retain(|choice| choice.promise_s >= -LONGER * self.report.step_time_s);
            ideas.extend(choices);
        }
        if depth < Depth::All {
            ideas.retain(|idea| idea.promise_s >= PROMISES * self.report.step_time_s);
        }
        ideas.sort_by(|a, b| b.promise_s.total_cmp(&a.promise_s));
        ideas.truncate(most);
        let left_out = all - ideas.len();
        ideas.retain(|idea| !idea.is_in_vain);
        (ideas, left_out)
    }

    /// The best choices with the next best added, one by one as far as each makes the step shorter still; the best
    /// first.
    fn together(&self, choices: &[Candidate]) -> Vec<Candidate> {
        let mut best: Vec<Candidate> = Vec::new();
        for next in choices.iter().take(TOGETHER).skip(1) {
            let before = best.first().unwrap_or(&choices[0]);
            let word = |a: &str, b: &str| format!("{a} + {b}");
            let sets = [before.sets.as_slice(), &next.sets].concat();
            let idea = Idea {
                what: word(&before.what, &next.what),
                otherwise: word(&before.otherwise, &next.otherwise),
                kind: CandidateKind::Choice,
                way: Remedy::Sets(sets),
                promise_s: 0.0,
                is_in_vain: false,
            };
            let path = |set: &String| set.split_once('=').map(|(path, _)| path.to_owned());
            let again = next.sets.iter().any(|set| before.sets.iter().any(|known| path(known) == path(set)));
            let played = if again { None } else { self.played(&idea) };
            if let Some(both) = played.filter(|both| both.step_s < before.step_s) {
                best.insert(0, both);
            }
        }
        best
    }

    /// Gives choices the promise of the closed form, and marks those that no run can make a line of.
    fn estimate(&self, choices: &mut [Idea]) {
        let fits = |form: &Estimate| form.fullest().total() <= form.capacity;
        let Some(now) = self.forms.closed_form(self.inputs).ok().filter(fits) else { return };
        for choice in choices {
            let Some(then) = self.estimated(choice) else { continue };
            choice.promise_s = if fits(&then) { now.terms.total() - then.terms.total() } else { 0.0 };
            choice.is_in_vain = self.is_in_vain(&then);
        }
    }

    /// The closed form of a step with an idea that is made of settings.
    fn estimated(&self, idea: &Idea) -> Option<Estimate> {
        let Remedy::Sets(sets) = &idea.way else { return None };
        self.forms.closed_form(&self.inputs.again(sets).ok()?).ok()
    }

    /// True if a step is certain not to fit the memory, or not to be shorter.
    fn is_in_vain(&self, then: &Estimate) -> bool {
        let full = then.memory.iter().any(|rank| rank.certain > then.capacity);
        full || self.report.steps == 1
            && then.floor * (1.0 - ROUNDING) >= self.report.step_time_s * (1.0 - SMALL)
    }

    /// True if layers that the file deals out unevenly take far longer otherwise, in closed form.
    fn deals_out_worse(&self, idea: &Idea) -> bool {
        let forms = || Some((self.forms.closed_form(self.inputs).ok()?, self.estimated(idea)?));
        let longer_s = |(now, then): (Estimate, Estimate)| then.terms.total() - now.terms.total();
        idea.deals_out_layers() && forms().map(longer_s).is_some_and(|s| s > LONGER * self.report.step_time_s)
    }

    /// How long its stages are.
    fn levels(&self) -> Result<&StageLevels, SimulationError> {
        if self.levels.get().is_none() {
            let levels = StageLevels::of_step(self.inputs, self.options, self.report)?;
            return Ok(self.levels.get_or_init(|| levels));
        }
        Ok(self.levels.get_or_init(StageLevels::default))
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
        let steps = f64::from(r.steps.max(1));
        let shorter = Time::from_s(r.step_time_s * steps * (1.0 - SMALL));
        let figures = figures_edited_among(&self.common, &inputs, self.options, &edits, shorter).ok()?;
        let step_s = figures.step_end.s() / steps;
        let waited = r.mean.stalls_s.iter().filter(|(cause, _)| cause.is_for_others());
        let induced_s = (waited.map(|(_, s)| s).sum::<f64>() - figures.for_others_s) / steps;
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
