//! A layout on its way to its simulation: bounded by sums, walked in closed form, played.

use std::sync::OnceLock;

use serde_json::{Map, Value};

use super::base::StudyBase;
use super::best::BestScores;
use super::objective::Measures;
use super::options::SearchOptions;
use super::outcome::{How, PointOutcome, outcome_beside};
use super::space::set_text;
use stepsim_core::ids::DeviceId;
use stepsim_core::interrupt::{InterruptToken, check, until};
use stepsim_read::analysis::report::{Extent, Report};
use stepsim_simulate::jump::read;
use stepsim_simulate::{Inputs, Options, RunStatus};

/// Micro-batches after which a step repeats itself, about: turns through its pipeline, and the fewest.
const TURNS: u64 = 16;
const FEWEST: u64 = 64;

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
    /// Layers of its micro-batches.
    pub passes: u64,
    /// Of these, the ones that are played before the step repeats itself, about: what a play of it costs.
    pub played: u64,
    /// True if it is over the limit of memory in closed form, though not for certain: simulated after all others.
    pub doubtful: bool,
    /// Nothing better is to be expected of its simulation.
    expected: f64,
    /// Nothing better can come of its simulation.
    pub floor: f64,
    /// Seconds that it takes at least: by sums, and by the walk of its passes once it is close to being simulated.
    pub least_s: f64,
    /// Played once, by whoever asks first.
    report: OnceLock<Option<Report>>,
    /// Ends such a play.
    stop: InterruptToken,
}

impl LayoutCandidate {
    /// Tells whoever listens that it is the best so far.
    pub fn is_best(&self, options: &SearchOptions, simulated: Option<Measures>) {
        if let Some(hear) = options.hear {
            hear(simulated.unwrap_or(self.form).seconds, simulated.is_some(), &self.settings);
        }
    }

    /// The choices by which closed form and simulation differ most: sharding, experts, and how often both communicate.
    pub fn kind(&self) -> String {
        let paths = ["parallelism.sharding", "parallelism.sharding.kind", "parallelism.expert"];
        let chosen = chosen(&self.settings, paths);
        format!("{chosen} {}", self.passes)
    }

    /// The choices by which closed form and simulation differ most in memory.
    pub fn held(&self) -> String {
        held(&self.settings)
    }

    /// The report of its step, with communication; `None` where it has none, or the search is to end.
    pub fn report(&self, base: &StudyBase) -> Option<&Report> {
        let ended = until(&self.stop, || self.report_to_its_end(base).is_some());
        check();
        ended.and_then(|_| self.report.get()?.as_ref())
    }

    /// The same, whatever is to end.
    fn report_to_its_end(&self, base: &StudyBase) -> Option<&Report> {
        let played = || {
            let inputs = base.inputs(&self.sets).ok()?;
            read(&inputs, &Options::default(), Extent::Overlap).ok()
        };
        self.report.get_or_init(played).as_ref()
    }

    /// Plays it within the limit of memory; a long one for its report at once where few are played.
    pub fn simulated(&self, base: &StudyBase, options: &SearchOptions) -> PointOutcome {
        let report = if options.plays_once(self.passes) { self.report_to_its_end(base) } else { None };
        let capacity = || base.inputs(&self.sets).ok().as_ref().and_then(capacity);
        match report {
            Some(report) => within(PointOutcome::of_report(report), capacity(), options),
            None => simulated(base, &self.sets, options),
        }
    }

    /// Bounds it by the walk of its passes too.
    pub fn tighten(&mut self, base: &StudyBase, options: &SearchOptions) {
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
    pub fn hopeless(&self, known: &BestScores) -> Option<&'static str> {
        if self.floor > known.last() {
            Some("floor")
        } else {
            (self.expected > known.best()).then_some("time")
        }
    }
}

/// The choices of a layout by which closed form and simulation differ most in memory.
pub(super) fn held(settings: &Map<String, Value>) -> String {
    chosen(settings, ["parallelism.sharding", "parallelism.sharding.kind", "recompute"])
}

fn chosen(settings: &Map<String, Value>, paths: [&str; 3]) -> String {
    paths.map(|path| settings.get(path).map(Value::to_string).unwrap_or_default()).join(" ")
}

/// A layout whose simulation counts.
#[derive(Clone)]
pub(super) struct SimulatedLayout {
    pub candidate: LayoutCandidate,
    pub found: Measures,
    pub outcome: PointOutcome,
}

/// A layout's candidate, or the reason why it is not simulated.
pub(super) type CandidateResult = Result<LayoutCandidate, &'static str>;

/// A layout with a known bound by sums, and no more.
pub(super) struct LayoutBound {
    sets: Vec<String>,
    pub settings: Map<String, Value>,
    /// With the least time that it can take.
    at_least: Measures,
    /// With the least time of its closed form.
    pub form: Measures,
    /// Bytes that are held for certain.
    least: f64,
    passes: u64,
    played: u64,
    pub doubtful: bool,
}

/// A bounded layout, or the reason why it is not simulated.
pub(super) type BoundResult = Result<LayoutBound, &'static str>;

impl LayoutBound {
    /// Nothing better can come of its simulation.
    pub fn floor(&self, options: &SearchOptions) -> f64 {
        Measures { memory_bytes: self.least, ..self.at_least }.score(options.objective)
    }
}

/// A layout by sums alone.
pub(super) fn bound(base: &StudyBase, settings: &Map<String, Value>, options: &SearchOptions) -> BoundResult {
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
    let form = Measures { seconds: found.form_seconds * (1.0 - ROUNDING), ..at_least };
    let doubtful = memory > limit;
    let workload = &inputs.workload.value;
    let micro_batches = workload.micro_batches(inputs.machine.devices().into());
    let parallelism = &workload.parallelism;
    let turn = parallelism.pipeline.size.saturating_mul(parallelism.pipeline.chunks.unwrap_or(1));
    let until_repeat = turn.saturating_mul(TURNS).max(FEWEST);
    let [passes, played] = [micro_batches, micro_batches.min(until_repeat)].map(|m| m * inputs.model.layers);
    Ok(LayoutBound { sets, settings: settings.clone(), at_least, form, least, passes, played, doubtful })
}

/// The whole closed form of a layout.
pub(super) fn walked(base: &StudyBase, bounded: &LayoutBound, options: &SearchOptions) -> CandidateResult {
    let inputs = base.inputs(&bounded.sets).map_err(|_| "invalid")?;
    let global = inputs.workload.value.batch.global;
    let seconds = base.shared.estimators.of_any_batch(&inputs, &mut |form| form.seconds(global));
    let seconds = seconds.map_err(|_| "invalid")?.map_err(|_| "invalid")?;
    let LayoutBound { sets, settings, at_least, form: _, least, passes, played, doubtful } = bounded;
    let least_s = at_least.seconds;
    let form = Measures { seconds, ..*at_least };
    let at_best = form.less(options.margin);
    if options.deadline_s.is_some_and(|deadline| at_best.seconds.max(least_s) > deadline) {
        return Err("deadline");
    }
    let (expected, floor) = (at_best.score(options.objective), bounded.floor(options));
    Ok(LayoutCandidate {
        sets: sets.clone(),
        settings: settings.clone(),
        form,
        least: *least,
        passes: *passes,
        played: *played,
        doubtful: *doubtful,
        expected,
        floor,
        least_s,
        report: OnceLock::new(),
        stop: options.stop.clone(),
    })
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
