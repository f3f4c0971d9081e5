//! Which layouts are simulated: those that the closed form does not refute, best first.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::base::Base;
use super::objective::Measures;
use super::options::SearchOptions;
use super::outcome::{How, Outcome, outcome_beside};
use super::rows::StudyError;
use super::space::set_text;
use stepsim_core::pool;
use stepsim_simulate::Status;

/// Layouts simulated before the best is looked at again.
const BATCH: usize = 16;

/// Layouts over the limit by more than this part of their memory, in closed form, are simulated after all others.
const DOUBT: f64 = 0.1;

/// What times that are summed differently may differ by, as a part of them.
const ROUNDING: f64 = 1e-6;

/// A layout before it is simulated.
#[derive(Clone)]
pub(super) struct Candidate {
    pub sets: Vec<String>,
    pub settings: Map<String, Value>,
    /// In closed form.
    pub form: Measures,
    pub least: f64,
    /// Whether little but the margin lets it fit.
    doubtful: bool,
    /// Nothing better is to be expected of its simulation.
    expected: f64,
    /// Nothing better can come of its simulation.
    floor: f64,
    /// Seconds that it takes at least.
    pub least_s: f64,
}

impl Candidate {
    /// Why it is not to be simulated.
    fn hopeless(&self, known: &Known) -> Option<&'static str> {
        if self.floor > known.last() {
            Some("floor")
        } else {
            (self.expected > known.best()).then_some("time")
        }
    }
}

/// A layout whose simulation counts.
#[derive(Clone)]
pub(super) struct Simulated {
    pub candidate: Candidate,
    pub found: Measures,
    pub outcome: Outcome,
}

/// The best scores so far, as many as are ranked, best first.
struct Known {
    scores: Vec<f64>,
    ranked: usize,
}

impl Known {
    fn add(&mut self, score: f64) {
        let place = self.scores.partition_point(|known| *known <= score);
        self.scores.insert(place, score);
        self.scores.truncate(self.ranked);
    }
    fn best(&self) -> f64 {
        self.scores.first().copied().unwrap_or(f64::INFINITY)
    }
    /// What is worse is not ranked.
    fn last(&self) -> f64 {
        self.scores.get(self.ranked - 1).copied().unwrap_or(f64::INFINITY)
    }
}

/// A layout's estimate, or the reason why it is not simulated.
pub(super) type Estimated = Result<Candidate, &'static str>;

/// Layouts that count, those that fit in closed form first and the best of these first, and how many do not by reason.
pub(super) fn candidates(
    base: &Base,
    points: &[Map<String, Value>],
    options: &SearchOptions,
    threads: usize,
) -> (Vec<Candidate>, BTreeMap<&'static str, u64>) {
    let mut pruned =
        BTreeMap::from(["invalid", "memory", "floor", "time", "limit"].map(|reason| (reason, 0)));
    if options.deadline_s.is_some() {
        pruned.insert("deadline", 0);
    }
    let mut candidates = Vec::new();
    for estimate in pool::all(points.len(), threads, &|i| estimated(base, &points[i], options)) {
        match estimate {
            Ok(candidate) => candidates.push(candidate),
            Err(reason) => *pruned.entry(reason).or_insert(0) += 1,
        }
    }
    // A stable sort: equal estimates stay in the order of the space.
    let score = |c: &Candidate| c.form.score(options.objective);
    candidates.sort_by(|a, b| a.doubtful.cmp(&b.doubtful).then(score(a).total_cmp(&score(b))));
    (candidates, pruned)
}

pub(super) fn estimated(base: &Base, settings: &Map<String, Value>, options: &SearchOptions) -> Estimated {
    let sets: Vec<String> = settings.iter().map(|(path, value)| set_text(path, value)).collect();
    let inputs = base.inputs(&sets).map_err(|_| "invalid")?;
    let form = base.shared.estimators.closed_form(&inputs).map_err(|_| "invalid")?;
    let memory = form.fullest().total();
    let limit = options.max_memory_bytes.unwrap_or(f64::INFINITY).min(form.capacity);
    let least = form.memory.iter().map(|rank| rank.certain).fold(0.0, f64::max);
    if least > limit {
        return Err("memory");
    }
    let least_s = form.floor * (1.0 - ROUNDING);
    let form = Measures::new(&inputs, form.tokens, form.terms.total(), memory);
    let at_best = form.less(options.margin);
    let floor = Measures { seconds: least_s, memory_bytes: least, ..form };
    if options.deadline_s.is_some_and(|deadline| at_best.seconds.max(least_s) > deadline) {
        return Err("deadline");
    }
    let doubtful = memory * (1.0 - DOUBT) > limit;
    let [expected, floor] = [at_best, floor].map(|measures| measures.score(options.objective));
    Ok(Candidate { sets, settings: settings.clone(), form, least, doubtful, expected, floor, least_s })
}

/// Plays a layout within the limit of memory.
pub(super) fn simulated(base: &Base, sets: &[String], options: &SearchOptions) -> Outcome {
    let outcome = match base.inputs(sets) {
        Ok(inputs) => outcome_beside(&base.shared, &inputs, How::TimeAndMemory),
        Err(e) => Outcome::of_fault((&e).into()),
    };
    let limit = options.max_memory_bytes.unwrap_or(f64::INFINITY);
    match outcome.memory_peak_bytes {
        Some(bytes) if bytes as f64 > limit => Outcome {
            status: Status::OutOfMemory,
            message: Some(format!("{bytes} bytes are more than the limit of {limit}")),
            ..Outcome::default()
        },
        _ => outcome,
    }
}

/// What has been simulated, and what was left out.
pub(super) struct Run {
    /// With their places among the candidates.
    pub outcomes: Vec<(usize, Outcome)>,
    /// Candidates that were left out because others are better, by reason.
    pub hopeless: BTreeMap<&'static str, u64>,
    /// Candidates that were left out although they may be.
    pub undecided: u64,
    /// The margin that holds for what was simulated.
    pub margin_reached: f64,
}

impl Run {
    /// Simulates all candidates.
    pub fn of_all(
        candidates: &[Candidate],
        options: &SearchOptions,
        threads: usize,
        simulate: &(dyn Fn(&Candidate) -> Outcome + Sync),
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<Run, StudyError> {
        let mut outcomes = Vec::new();
        for (i, batch) in candidates.chunks(BATCH).enumerate() {
            let of_batch = pool::all(batch.len(), threads, &|i| simulate(&batch[i]));
            outcomes.extend(of_batch.into_iter().enumerate().map(|(j, outcome)| (i * BATCH + j, outcome)));
            tell(outcomes.len() as u64)?;
        }
        Ok(Run { outcomes, hopeless: BTreeMap::new(), undecided: 0, margin_reached: options.margin })
    }

    /// Simulates candidates in batches, best estimate first, without those that cannot be among the best that are ranked, or not be
    /// the best unless their closed form is longer than the margin allows. `tell` is told how many are done.
    pub fn over(
        candidates: &[Candidate],
        options: &SearchOptions,
        threads: usize,
        simulate: &(dyn Fn(&Candidate) -> Outcome + Sync),
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<Run, StudyError> {
        let mut known = Known { scores: Vec::new(), ranked: options.top.max(1) };
        let mut outcomes = Vec::new();
        let mut left: Vec<&Candidate> = Vec::new();
        let sure = candidates.partition_point(|c| !c.doubtful);
        for part in [0..sure, sure..candidates.len()] {
            let mut rest = part;
            loop {
                let room = options.most_simulated - outcomes.len();
                let mut batch = Vec::new();
                while batch.len() < BATCH.min(room)
                    && let Some(i) = rest.next()
                {
                    match candidates[i].hopeless(&known) {
                        None => batch.push(i),
                        Some(_) => left.push(&candidates[i]),
                    }
                }
                if batch.is_empty() {
                    break;
                }
                let of_batch = pool::all(batch.len(), threads, &|i| simulate(&candidates[batch[i]]));
                for (i, outcome) in batch.into_iter().zip(of_batch) {
                    let found =
                        candidates[i].form.simulated(&outcome).filter(|found| options.in_time(*found));
                    found.into_iter().for_each(|found| known.add(found.score(options.objective)));
                    outcomes.push((i, outcome));
                }
                tell(outcomes.len() as u64)?;
            }
            left.extend(rest.map(|i| &candidates[i]));
        }
        let (mut hopeless, mut undecided, mut next) = (BTreeMap::new(), 0, f64::INFINITY);
        for candidate in left {
            let reason = candidate.hopeless(&known);
            if reason != Some("floor") {
                next = next.min(candidate.form.score(options.objective));
            }
            match reason {
                Some(reason) => *hopeless.entry(reason).or_insert(0) += 1,
                None => undecided += 1,
            }
        }
        let reached = if next.is_finite() { 1.0 - known.best() / next } else { options.margin };
        let margin_reached = reached.clamp(0.0, options.margin);
        Ok(Run { outcomes, hopeless, undecided, margin_reached })
    }
}
