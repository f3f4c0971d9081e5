//! Which layouts are simulated: those that the closed form does not refute, best first.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::base::Base;
use super::objective::Measures;
use super::options::SearchOptions;
use super::outcome::{How, Outcome, outcome};
use super::rows::StudyError;
use super::space::set_text;
use crate::compare::workload::closed_form;
use crate::pool;
use crate::simulate::Status;

/// Layouts simulated before the best is looked at again.
const BATCH: usize = 16;

/// Layouts over the limit by more than this part of their memory, in closed form, are simulated after all others.
const DOUBT: f64 = 0.1;

/// A layout before it is simulated.
pub(super) struct Candidate {
    pub sets: Vec<String>,
    pub settings: Map<String, Value>,
    /// In closed form.
    pub form: Measures,
    pub least: f64,
    /// Whether little but the margin lets it fit.
    doubtful: bool,
    /// Nothing better is to be expected of its simulation.
    bound: f64,
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
    let mut pruned = BTreeMap::from([("invalid", 0), ("memory", 0), ("time", 0), ("limit", 0)]);
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
    let form = closed_form(&inputs).map_err(|_| "invalid")?;
    let memory = form.fullest().total();
    let limit = options.max_memory_bytes.unwrap_or(f64::INFINITY).min(form.capacity);
    let least = form.memory.iter().map(|rank| rank.certain).fold(0.0, f64::max);
    if least > limit {
        return Err("memory");
    }
    let form = Measures::new(&inputs, form.tokens, form.terms.total(), memory);
    let at_best = form.less(options.margin);
    if options.deadline_s.is_some_and(|deadline| at_best.seconds > deadline) {
        return Err("deadline");
    }
    let doubtful = memory * (1.0 - DOUBT) > limit;
    let bound = at_best.score(options.objective);
    Ok(Candidate { sets, settings: settings.clone(), form, least, doubtful, bound })
}

/// Plays a layout within the limit of memory.
pub(super) fn simulated(base: &Base, sets: &[String], options: &SearchOptions) -> Outcome {
    let outcome = match base.inputs(sets) {
        Ok(inputs) => outcome(&inputs, How::TimeAndMemory),
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
    /// Candidates that cannot be better than the best.
    pub hopeless: u64,
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
        Ok(Run { outcomes, hopeless: 0, undecided: 0, margin_reached: options.margin })
    }

    /// Simulates candidates in batches, until what is left cannot be better than the best by more than the margin.
    /// `tell` is told how many are done.
    pub fn over(
        candidates: &[Candidate],
        options: &SearchOptions,
        threads: usize,
        simulate: &(dyn Fn(&Candidate) -> Outcome + Sync),
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<Run, StudyError> {
        let (mut best, mut outcomes) = (f64::INFINITY, Vec::new());
        let mut left: Vec<&Candidate> = Vec::new();
        let sure = candidates.partition_point(|c| !c.doubtful);
        for part in [0..sure, sure..candidates.len()] {
            let mut at = part.start;
            while at < part.end && candidates[at].bound <= best {
                let room = options.most_simulated - outcomes.len();
                let batch = &candidates[at..part.end.min(at + BATCH.min(room))];
                if batch.is_empty() {
                    break;
                }
                for outcome in pool::all(batch.len(), threads, &|i| simulate(&batch[i])) {
                    let found =
                        candidates[at].form.simulated(&outcome).filter(|found| options.in_time(*found));
                    best = found.map_or(best, |found| best.min(found.score(options.objective)));
                    outcomes.push((at, outcome));
                    at += 1;
                }
                tell(outcomes.len() as u64)?;
            }
            left.extend(&candidates[at..part.end]);
        }
        let hopeless = left.iter().filter(|c| c.bound > best).count();
        let next = left.iter().map(|c| c.form.score(options.objective)).fold(f64::INFINITY, f64::min);
        let reached = if left.is_empty() { options.margin } else { 1.0 - best / next };
        Ok(Run {
            outcomes,
            hopeless: hopeless as u64,
            undecided: (left.len() - hopeless) as u64,
            margin_reached: reached.clamp(0.0, options.margin),
        })
    }
}
