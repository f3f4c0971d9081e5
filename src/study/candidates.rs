//! The layouts that are simulated: those that the closed form does not refute, best first.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::ControlFlow;
use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::base::StudyBase;
use super::objective::Measures;
use super::options::{LARGE, LONG, SearchOptions};
use super::outcome::{How, PointOutcome, outcome_beside};
use super::rows::StudyError;
use super::space::set_text;
use stepsim_core::clock::Clock;
use stepsim_core::ids::DeviceId;
use stepsim_core::pool;
use stepsim_read::analysis::report::{Extent, Report};
use stepsim_simulate::jump::read;
use stepsim_simulate::{Inputs, Options, RunStatus};

/// Layouts simulated before the best is looked at again.
const BATCH: usize = 16;

/// Layouts over the limit by more than this part of their memory, in closed form, are simulated after all others.
const DOUBT: f64 = 0.1;

/// The difference between times that are summed differently, at most, as a part of them.
const ROUNDING: f64 = 1e-6;

/// A layout before it is simulated.
#[derive(Clone)]
pub(super) struct LayoutCandidate {
    pub sets: Vec<String>,
    pub settings: Map<String, Value>,
    /// In closed form.
    pub form: Measures,
    pub least: f64,
    /// Layers of its micro-batches: what a play of it costs.
    passes: u64,
    /// True if little but the margin lets it fit.
    doubtful: bool,
    /// Nothing better is to be expected of its simulation.
    expected: f64,
    /// Nothing better can come of its simulation.
    floor: f64,
    /// Seconds that it takes at least: by sums, and by the walk of its passes once it is close to being simulated.
    pub least_s: f64,
    /// Played once, by whoever asks first.
    report: OnceLock<Option<Report>>,
}

impl LayoutCandidate {
    /// Tells whoever listens that it is the best so far.
    fn is_best(&self, options: &SearchOptions, simulated: Option<Measures>) {
        if let Some(hear) = options.hear {
            hear(simulated.unwrap_or(self.form).seconds, simulated.is_some(), &self.settings);
        }
    }

    /// The report of its step, with communication; `None` where it has none.
    pub fn report(&self, base: &StudyBase) -> Option<&Report> {
        let played = || {
            let inputs = base.inputs(&self.sets).ok()?;
            read(&inputs, &Options::default(), Extent::Overlap).ok()
        };
        self.report.get_or_init(played).as_ref()
    }

    /// Plays it within the limit of memory; a long one for its report at once where few are played.
    pub fn simulated(&self, base: &StudyBase, options: &SearchOptions) -> PointOutcome {
        let report = if options.plays_once(self.passes) { self.report(base) } else { None };
        let capacity = || base.inputs(&self.sets).ok().as_ref().and_then(capacity);
        match report {
            Some(report) => within(PointOutcome::of_report(report), capacity(), options),
            None => simulated(base, &self.sets, options),
        }
    }

    /// Bounds it by the walk of its passes too.
    fn tighten(&mut self, base: &StudyBase, options: &SearchOptions) {
        let floor = |inputs: &Inputs| {
            let global = inputs.workload.value.batch.global;
            base.shared.estimators.of_any_batch(inputs, &mut |form| form.floor(global)).ok()?.ok()
        };
        if let Some(seconds) = base.inputs(&self.sets).ok().as_ref().and_then(floor) {
            self.least_s = self.least_s.max(seconds * (1.0 - ROUNDING));
            let at_least = Measures { seconds: self.least_s, memory_bytes: self.least, ..self.form };
            self.floor = at_least.score(options.objective);
        }
    }

    /// Why it is not to be simulated.
    fn hopeless(&self, known: &BestScores) -> Option<&'static str> {
        if self.floor > known.last() {
            Some("floor")
        } else {
            (self.expected > known.best()).then_some("time")
        }
    }
}

/// A layout whose simulation counts.
#[derive(Clone)]
pub(super) struct SimulatedLayout {
    pub candidate: LayoutCandidate,
    pub found: Measures,
    pub outcome: PointOutcome,
}

/// The best scores so far, as many as are ranked, best first.
struct BestScores {
    scores: Vec<f64>,
    ranked: usize,
}

impl BestScores {
    fn add(&mut self, score: f64) {
        let place = self.scores.partition_point(|known| *known <= score);
        self.scores.insert(place, score);
        self.scores.truncate(self.ranked);
    }
    fn best(&self) -> f64 {
        self.scores.first().copied().unwrap_or(f64::INFINITY)
    }
    /// The last value of the ranking: worse layouts are not ranked.
    fn last(&self) -> f64 {
        self.scores.get(self.ranked - 1).copied().unwrap_or(f64::INFINITY)
    }
}

/// A layout's candidate, or the reason why it is not simulated.
pub(super) type CandidateResult = Result<LayoutCandidate, &'static str>;

/// A layout with a known bound by sums, and no more.
struct Bounded {
    sets: Vec<String>,
    settings: Map<String, Value>,
    /// With the least time that it can take.
    at_least: Measures,
    /// Bytes that are held for certain.
    least: f64,
    passes: u64,
    doubtful: bool,
}

/// A place in the line: surely fitting layouts first, then the best; of equal ones first the layouts whose walk is to
/// come, then the order of the space.
#[derive(PartialEq)]
struct QueuePlace {
    doubtful: bool,
    score: f64,
    walked: bool,
    point: usize,
}

impl Eq for QueuePlace {}
impl PartialOrd for QueuePlace {
    fn partial_cmp(&self, other: &QueuePlace) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for QueuePlace {
    fn cmp(&self, other: &QueuePlace) -> Ordering {
        let first = self.doubtful.cmp(&other.doubtful).then(self.score.total_cmp(&other.score));
        first.then(self.walked.cmp(&other.walked)).then(self.point.cmp(&other.point))
    }
}

/// Layouts that count, those that fit in closed form first and the best of these first. No order is walked of a
/// layout whose bound by sums puts it behind all that are asked for.
pub(super) struct CandidateQueue<'a> {
    base: &'a StudyBase,
    options: &'a SearchOptions,
    threads: usize,
    waiting: BinaryHeap<Reverse<QueuePlace>>,
    bounded: Vec<Option<Bounded>>,
    walked: BTreeMap<usize, LayoutCandidate>,
    /// How many have been walked.
    walks: u64,
    /// Those in front, in order.
    pub candidates: Vec<LayoutCandidate>,
    /// How many do not count, by reason.
    pub pruned: BTreeMap<&'static str, u64>,
}

impl<'a> CandidateQueue<'a> {
    /// Bounds all points; `tell` is told how many are done.
    ///
    /// # Errors
    /// That of `tell`.
    pub fn new(
        base: &'a StudyBase,
        points: &[Map<String, Value>],
        options: &'a SearchOptions,
        threads: usize,
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<CandidateQueue<'a>, StudyError> {
        let mut pruned =
            BTreeMap::from(["invalid", "memory", "floor", "time", "limit"].map(|reason| (reason, 0)));
        if options.deadline_s.is_some() {
            pruned.insert("deadline", 0);
        }
        let (mut waiting, mut bounded) = (BinaryHeap::new(), Vec::with_capacity(points.len()));
        let mut all: Vec<Option<Result<Bounded, &str>>> = points.iter().map(|_| None).collect();
        let (mut done, mut told) = (0, Ok(()));
        pool::each(points.len(), threads, &|i| bound(base, &points[i], options), &mut |i, found| {
            (all[i], done) = (Some(found), done + 1);
            told = tell(done);
            if told.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        told?;
        for found in all.into_iter().flatten() {
            match found {
                Ok(found) => {
                    let score = found.at_least.score(options.objective);
                    let (doubtful, point) = (found.doubtful, bounded.len());
                    waiting.push(Reverse(QueuePlace { doubtful, score, walked: false, point }));
                    bounded.push(Some(found));
                }
                Err(reason) => *pruned.entry(reason).or_insert(0) += 1,
            }
        }
        let (walked, walks, candidates) = (BTreeMap::new(), 0, Vec::new());
        Ok(CandidateQueue { base, options, threads, waiting, bounded, walked, walks, candidates, pruned })
    }

    /// The candidate at a place, if there is one of this kind; what is surely worse than `last` need not be ranked.
    pub fn at(&mut self, place: usize, doubtful: bool, last: f64) -> Option<&mut LayoutCandidate> {
        while self.candidates.len() <= place && self.next_is(doubtful) {
            self.go_on(last);
        }
        self.candidates.get_mut(place).filter(|candidate| candidate.doubtful == doubtful)
    }
    /// All of them.
    pub fn all(&mut self) {
        while !self.waiting.is_empty() {
            self.go_on(f64::INFINITY);
        }
    }
    fn next_is(&self, doubtful: bool) -> bool {
        self.waiting.peek().is_some_and(|Reverse(next)| next.doubtful == doubtful)
    }
    /// Layouts of this kind that stay behind, unwalked or not, leave the line: their scores at best.
    pub fn dismiss(&mut self, doubtful: bool) -> Vec<f64> {
        let mut left = Vec::new();
        while self.next_is(doubtful) {
            let Some(Reverse(place)) = self.waiting.pop() else { break };
            left.push(match (self.walked.remove(&place.point), self.bounded[place.point].take()) {
                (Some(candidate), _) => candidate.floor,
                (None, Some(bounded)) => bounded.floor(self.options),
                (None, None) => place.score,
            });
        }
        left
    }

    /// The next one is walked, with some behind it, joins those in front, or leaves the line as surely worse than
    /// `last`.
    fn go_on(&mut self, last: f64) {
        let (mut points, mut worse) = (Vec::new(), 0);
        while points.len() < BATCH
            && let Some(Reverse(next)) = self.waiting.peek()
            && !next.walked
        {
            let bounded = &mut self.bounded[next.point];
            match bounded.take_if(|bounded| bounded.floor(self.options) > last) {
                Some(_) => worse += 1,
                None => points.push(next.point),
            }
            self.waiting.pop();
        }
        *self.pruned.entry("floor").or_insert(0) += worse;
        if points.is_empty() && worse == 0 {
            let next = self.waiting.pop().and_then(|Reverse(next)| self.walked.remove(&next.point));
            self.candidates.extend(next);
            return;
        }
        let bounded: Vec<Bounded> = points.iter().filter_map(|point| self.bounded[*point].take()).collect();
        self.walks += bounded.len() as u64;
        let walk = |i: usize| walked(self.base, &bounded[i], self.options);
        for (point, found) in points.into_iter().zip(pool::all(bounded.len(), self.threads, &walk)) {
            match found {
                Ok(found) => {
                    let (doubtful, score) = (found.doubtful, found.form.score(self.options.objective));
                    self.waiting.push(Reverse(QueuePlace { doubtful, score, walked: true, point }));
                    self.walked.insert(point, found);
                }
                Err(reason) => *self.pruned.entry(reason).or_insert(0) += 1,
            }
        }
    }
}

impl Bounded {
    /// Nothing better can come of its simulation.
    fn floor(&self, options: &SearchOptions) -> f64 {
        Measures { memory_bytes: self.least, ..self.at_least }.score(options.objective)
    }
}

/// A layout by sums alone.
fn bound(
    base: &StudyBase,
    settings: &Map<String, Value>,
    options: &SearchOptions,
) -> Result<Bounded, &'static str> {
    let sets: Vec<String> = settings.iter().map(|(path, value)| set_text(path, value)).collect();
    let inputs = base.inputs(&sets).map_err(|_| "invalid")?;
    let global = inputs.workload.value.batch.global;
    let found = base.shared.estimators.of_any_batch(&inputs, &mut |form| form.bound(global));
    let found = found.map_err(|_| "invalid")?.map_err(|_| "invalid")?;
    let memory = found.fullest().total();
    let limit = options.memory_limit(found.capacity);
    let least = found.memory.iter().map(|rank| rank.certain).fold(0.0, f64::max);
    if least > limit {
        return Err("memory");
    }
    let least_s = found.seconds * (1.0 - ROUNDING);
    if options.deadline_s.is_some_and(|deadline| least_s > deadline) {
        return Err("deadline");
    }
    let at_least = Measures::new(&inputs, found.tokens, least_s, memory);
    let doubtful = memory * (1.0 - DOUBT) > limit;
    let workload = &inputs.workload.value;
    let passes = workload.micro_batches(inputs.machine.devices().into()) * inputs.model.layers;
    Ok(Bounded { sets, settings: settings.clone(), at_least, least, passes, doubtful })
}

/// The whole closed form of a layout.
fn walked(base: &StudyBase, bounded: &Bounded, options: &SearchOptions) -> CandidateResult {
    let inputs = base.inputs(&bounded.sets).map_err(|_| "invalid")?;
    let global = inputs.workload.value.batch.global;
    let seconds = base.shared.estimators.of_any_batch(&inputs, &mut |form| form.seconds(global));
    let seconds = seconds.map_err(|_| "invalid")?.map_err(|_| "invalid")?;
    let Bounded { sets, settings, at_least, least, passes, doubtful } = bounded;
    let least_s = at_least.seconds;
    let form = Measures { seconds, ..*at_least };
    let at_best = form.less(options.margin);
    if options.deadline_s.is_some_and(|deadline| at_best.seconds.max(least_s) > deadline) {
        return Err("deadline");
    }
    let (expected, floor) = (at_best.score(options.objective), bounded.floor(options));
    let (sets, settings, report) = (sets.clone(), settings.clone(), OnceLock::new());
    let (least, passes, doubtful) = (*least, *passes, *doubtful);
    Ok(LayoutCandidate { sets, settings, form, least, passes, doubtful, expected, floor, least_s, report })
}

/// Bytes of device memory.
pub(super) fn capacity(inputs: &Inputs) -> Option<f64> {
    inputs.machine.device(DeviceId(0)).hbm.as_ref().map(|hbm| hbm.gb * 1e9)
}

/// Plays a layout within the limit of memory.
pub(super) fn simulated(base: &StudyBase, sets: &[String], options: &SearchOptions) -> PointOutcome {
    let (outcome, capacity) = match base.inputs(sets) {
        Ok(inputs) => (outcome_beside(&base.shared, &inputs, How::TimeAndMemory), capacity(&inputs)),
        Err(e) => (PointOutcome::of_fault((&e).into()), None),
    };
    within(outcome, capacity, options)
}

/// An outcome that counts where it is within the limit of memory.
fn within(outcome: PointOutcome, capacity: Option<f64>, options: &SearchOptions) -> PointOutcome {
    let limit = options.memory_limit(capacity.unwrap_or(f64::INFINITY));
    match outcome.memory_peak_bytes {
        Some(bytes) if bytes as f64 > limit => PointOutcome {
            status: RunStatus::OutOfMemory,
            message: Some(format!("{bytes} bytes are more than the limit of {limit}")),
            ..PointOutcome::default()
        },
        _ => outcome,
    }
}

/// The layouts that have been simulated, and the ones left out.
pub(super) struct SearchSimulations {
    /// With their places among the candidates.
    pub outcomes: Vec<(usize, PointOutcome)>,
    /// Candidates that were left out because others are better, by reason.
    pub hopeless: BTreeMap<&'static str, u64>,
    /// Candidates that were left out although they may be.
    pub undecided: u64,
    /// The margin that holds for what was simulated.
    pub margin_reached: f64,
}

impl SearchSimulations {
    /// Simulates all candidates.
    pub fn of_all(
        candidates: &[LayoutCandidate],
        options: &SearchOptions,
        threads: usize,
        simulate: &(dyn Fn(&LayoutCandidate) -> PointOutcome + Sync),
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<SearchSimulations, StudyError> {
        let mut outcomes = Vec::new();
        for (i, batch) in candidates.chunks(BATCH).enumerate() {
            let of_batch = pool::all(batch.len(), threads, &|i| simulate(&batch[i]));
            outcomes.extend(of_batch.into_iter().enumerate().map(|(j, outcome)| (i * BATCH + j, outcome)));
            tell(outcomes.len() as u64)?;
        }
        Ok(SearchSimulations {
            outcomes,
            hopeless: BTreeMap::new(),
            undecided: 0,
            margin_reached: options.margin,
        })
    }

    /// Simulates candidates in batches, best estimate first, without those that cannot be among the best that are
    /// ranked, or not be the best unless their closed form is longer than the margin allows. `tell` is told how many
    /// are walked or simulated.
    pub fn over(
        line: &mut CandidateQueue<'_>,
        options: &SearchOptions,
        threads: usize,
        simulate: &(dyn Fn(&LayoutCandidate) -> PointOutcome + Sync),
        tell: &mut dyn FnMut(u64) -> Result<(), StudyError>,
    ) -> Result<SearchSimulations, StudyError> {
        let begun = Clock::start();
        let mut known = BestScores { scores: Vec::new(), ranked: options.top.max(1) };
        let mut outcomes = Vec::new();
        let (mut left, mut behind) = (Vec::new(), Vec::new());
        let (base, mut next, mut passes) = (line.base, 0, 0);
        let is_large = line.bounded.len() > LARGE;
        // Time is looked at between batches.
        let at_once = if options.budget_s.is_some() { threads } else { BATCH };
        for doubtful in [false, true] {
            let mut over = false;
            loop {
                let room = options.most_simulated - outcomes.len();
                let mut batch = Vec::new();
                while !over
                    && batch.len() < at_once.min(room)
                    && !options.is_over(begun, outcomes.len() + batch.len())
                    && let Some(candidate) = line.at(next, doubtful, known.last())
                {
                    if !options.affords(passes + candidate.passes, outcomes.len() + batch.len()) {
                        break;
                    }
                    if candidate.hopeless(&known).is_none() {
                        candidate.tighten(base, options);
                    }
                    match candidate.hopeless(&known) {
                        None => {
                            passes += candidate.passes;
                            let is_first = outcomes.is_empty() && batch.is_empty();
                            if is_first && (is_large || passes > LONG) {
                                candidate.is_best(options, None);
                            }
                            batch.push(next);
                        }
                        Some(reason) => {
                            left.push(next);
                            // So are all that have a longer estimate.
                            over = reason == "time";
                        }
                    }
                    next += 1;
                    tell(line.walks + outcomes.len() as u64)?;
                }
                if batch.is_empty() {
                    break;
                }
                let candidates = &line.candidates;
                // Records of long steps are large: one at a time.
                let alone = batch.iter().any(|i| options.plays_once(candidates[*i].passes));
                let threads = if alone { 1 } else { threads };
                let of_batch = pool::all(batch.len(), threads, &|i| simulate(&candidates[batch[i]]));
                for (i, outcome) in batch.into_iter().zip(of_batch) {
                    let found =
                        candidates[i].form.simulated(&outcome).filter(|found| options.in_time(*found));
                    let score = found.map(|found| found.score(options.objective));
                    if (is_large || passes > LONG) && score.is_some_and(|score| score < known.best()) {
                        candidates[i].is_best(options, found);
                    }
                    score.into_iter().for_each(|score| known.add(score));
                    outcomes.push((i, outcome));
                }
                tell(line.walks + outcomes.len() as u64)?;
            }
            while line.candidates.get(next).is_some_and(|candidate| candidate.doubtful == doubtful) {
                left.push(next);
                next += 1;
            }
            behind.push((over, line.dismiss(doubtful)));
        }
        let (mut hopeless, mut undecided, mut shortest) = (BTreeMap::new(), 0, f64::INFINITY);
        for candidate in left.into_iter().map(|i| &line.candidates[i]) {
            let reason = candidate.hopeless(&known);
            if reason != Some("floor") {
                shortest = shortest.min(candidate.form.score(options.objective));
            }
            match reason {
                Some(reason) => *hopeless.entry(reason).or_insert(0) += 1,
                None => undecided += 1,
            }
        }
        for (over, floor) in
            behind.into_iter().flat_map(|(over, all)| all.into_iter().map(move |f| (over, f)))
        {
            match floor > known.last() {
                true => *hopeless.entry("floor").or_insert(0) += 1,
                false if over => *hopeless.entry("time").or_insert(0) += 1,
                false => undecided += 1,
            }
        }
        let reached = if shortest.is_finite() { 1.0 - known.best() / shortest } else { options.margin };
        let margin_reached = reached.clamp(0.0, options.margin);
        Ok(SearchSimulations { outcomes, hopeless, undecided, margin_reached })
    }
}
