//! The best layout: closed form for all, simulation for the best of them.
//!
//! Every layout has a bound by sums, and is estimated in closed form unless that bound leaves it behind. One whose
//! state and kept activations, which are counted exactly, are over the limit is dropped. The rest is simulated in
//! batches, from the best estimate on (first the layouts that fit without the margin). A layout that cannot be among
//! the ranked is left out for certain: the floor of its step ([`stepsim_form::analytic::Estimate::floor`]) is longer.
//! A layout that is worse than the best by its estimate, less a margin, is left out too: as long as the closed form is
//! never too long by more than the margin, nothing better is left. The order of work does not depend on the threads.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::advice::{Advice, WeighedLayout, behind, sorted as by_score};
use super::base::StudyBase;
use super::candidates::{LayoutCandidate, SimulatedLayout, simulated};
use super::layout::{ASSUMED, FixedValues, NEUTRAL, layouts};
use super::objective::{Measures, Objective};
use super::offload;
use super::options::SearchOptions;
use super::outcome::PointOutcome;
use super::placement;
use super::proof::{Proof, prove};
use super::queue::CandidateQueue;
use super::reasons::{Reason, reasons};
use super::rows::StudyError;
use super::simulating::Simulating;
use super::simulations::SearchSimulations;
use super::space::{MOST_POINTS, Space, StudyAxis, set_text};
use stepsim_core::ids::DeviceId;
use stepsim_core::pool;
use stepsim_read::analysis::report::Report;
use stepsim_read::analysis::waterfall::BarsReport;
use stepsim_simulate::{RunStatus, expanded, is_file};
use stepsim_spec::workload::{ModelRef, WorkloadSpec};
use stepsim_spec::{Disk, SpecError};

/// Layouts of a ranking that are simulated once more, to say where their step goes.
const EXPLAINED: usize = 3;

/// A simulated layout.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RankedLayout {
    /// The settings that the search chose.
    pub settings: Map<String, Value>,
    /// All that turns the workload into this one: arguments of `--set`.
    pub sets: Vec<String>,
    /// Seconds of the step in closed form.
    pub closed_form_s: f64,
    /// Peak of device memory in closed form.
    pub closed_form_memory_bytes: f64,
    /// The certain part: the state that stays, and kept activations at their most.
    pub least_memory_bytes: f64,
    /// Devices of the machine.
    pub devices: u32,
    /// Dollars for 10⁶ tokens, where the machine has a price.
    #[serde(rename = "cost_USD_per_million_tokens", skip_serializing_if = "Option::is_none")]
    pub usd_per_million_tokens: Option<f64>,
    /// Energy of a token, by what the devices draw: as in a report's `cost`.
    #[serde(rename = "energy_J_per_token", skip_serializing_if = "Option::is_none")]
    pub joules_per_token: Option<f64>,
    /// The simulated outcome.
    #[serde(flatten)]
    pub outcome: PointOutcome,
    /// Of the first, and of the two unlike it: how far to trust it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// Of one beside the first whose step is shorter: why it is not first.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub behind: Option<String>,
    /// Of the first: from the peak to MFU, mean of all ranks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waterfall: Option<BarsReport>,
    /// Of the first: why it is slower than the best, largest difference first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slower_by: Vec<Reason>,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SearchReport {
    /// The workload.
    pub workload: String,
    /// The machine.
    pub topology: String,
    /// Its devices; of several sizes, the best one's.
    pub devices: u32,
    /// The aim.
    pub objective: Objective,
    /// Longest step that counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_s: Option<f64>,
    /// Layouts of the space.
    pub points: u64,
    /// Layouts that were not simulated, by reason: `invalid` (the workload's checks refuse them), `memory` (in closed
    /// form, over the limit by the state that stays and the kept activations alone), `floor` (worse than all that are
    /// ranked by what its step takes at least), `time` (in closed form, worse than the best simulated by more than
    /// the margin), `deadline` (in closed form, longer than the deadline by more than the margin), `limit` (not
    /// refuted, but no more simulations were allowed, or in a plan as full as one that ran out of memory).
    pub pruned: BTreeMap<&'static str, u64>,
    /// Layouts that were simulated.
    pub simulated: u64,
    /// Of these, how many have no result that counts, by reason: `out_of_memory` (or over the limit), `deadlock`, ...
    pub unfit: BTreeMap<String, u64>,
    /// How far the closed form's time was trusted.
    pub margin: f64,
    /// The margin of time that holds for what was simulated: smaller where simulations ran out.
    pub time_margin_reached: f64,
    /// How far it came, where its time was over or it was stopped before it was done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StoppedSearch>,
    /// By how much of itself the closed form was longer than the simulation at most, of all that were simulated.
    pub closed_form_longest: f64,
    /// The same of what a step takes at least: 0, or the floor is none.
    pub floor_longest: f64,
    /// The differences of the simulated layouts from the closed form; absent where nothing fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulating: Option<Simulating>,
    /// The layouts that the search would have missed, where every layout was simulated to know it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proof: Option<Proof>,
    /// The assumptions.
    pub assumed: Vec<String>,
    /// The best layouts, shortest first.
    pub ranking: Vec<RankedLayout>,
    /// Two that differ from the first in kind: worth measuring beside it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlike: Vec<RankedLayout>,
}

/// How far a search came that ended before it was done: the best is the best among the layouts that it saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct StoppedSearch {
    /// Layouts of the space.
    pub points: u64,
    /// Of these, bounded: memory and the least time, by sums.
    pub bounded: u64,
    /// Of these, estimated in closed form.
    pub estimated: u64,
    /// Of these, simulated.
    pub simulated: u64,
}

impl StoppedSearch {
    /// In words.
    pub fn sentence(&self) -> String {
        let StoppedSearch { points, bounded, estimated, simulated } = self;
        format!(
            "stopped before its end: of {points} layouts {bounded} were bounded, {estimated} estimated and \
             {simulated} simulated; the others may be better"
        )
    }
}

/// A report, and the best workload ready to run.
#[derive(Clone, Debug)]
pub struct SearchResult {
    /// The report.
    pub report: SearchReport,
    /// The best workload; `None` where nothing fits.
    pub best: Option<WorkloadSpec>,
    /// What one screen shows of its step, and communication.
    pub played: Option<Report>,
}

/// Searches for the best layout of a workload, on a machine in the place of the one that it names. `progress` is told
/// how many estimates and simulations are done.
///
/// # Errors
/// Wrong files or settings, a value that a field cannot take, too many layouts.
pub fn search(
    workload: &str,
    machine: Option<&str>,
    options: &SearchOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<SearchResult, StudyError> {
    let options = &SearchOptions { stop: options.stop.within(options.budget_s), ..options.clone() };
    let mut found = within(workload, machine, options, progress)?;
    if options.stop.is_pulled() && found.best.is_some() {
        return Ok(found);
    }
    if let Some(best_s) = found.report.ranking.first().and_then(|best| best.outcome.step_time_s) {
        found.report.assumed.extend(own_left_out(workload, machine, options, best_s));
    }
    if found.best.is_some() || options.max_memory_bytes.is_some() || options.head_room == 0.0 {
        return Ok(found);
    }
    within(workload, machine, &SearchOptions { head_room: 0.0, ..options.clone() }, progress)
}

/// The workload's own layout in words, where it is shorter than the best and only the head room leaves it out.
fn own_left_out(
    workload: &str,
    machine: Option<&str>,
    options: &SearchOptions,
    best_s: f64,
) -> Option<String> {
    if options.max_memory_bytes.is_some() || options.head_room == 0.0 || options.objective != Objective::Time
    {
        return None;
    }
    let base = StudyBase::load(workload, machine, &options.fix).ok()?;
    if simulated(&base, &[], options).status != RunStatus::OutOfMemory {
        return None;
    }
    let own = simulated(&base, &[], &SearchOptions { head_room: 0.0, ..options.clone() });
    let (step_s, bytes) = (own.step_time_s.filter(|own_s| *own_s < best_s)?, own.memory_peak_bytes? as f64);
    let gib = bytes / (1u64 << 30) as f64;
    Some(format!(
        "the workload's own layout takes {step_s:.4} s and is left out: its {gib:.1} GiB leave less free \
         (--max-memory {:.0} lets it in; `stepsim fill` keeps the layout)",
        gib.ceil()
    ))
}

/// The best layout within the limit of memory.
fn within(
    workload: &str,
    machine: Option<&str>,
    options: &SearchOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<SearchResult, StudyError> {
    let plain = StudyBase::load(workload, machine, &[])?;
    let (given, fixed, mut axes) = sorted(options, &plain)?;
    axes.extend(sizes(options, &plain, &fixed, &axes)?);
    if options.offload {
        axes.extend(offload::axis(options, &plain, &fixed)?);
    }
    if options.placement {
        axes.extend(placement::axes(options, &plain, &fixed)?);
    }
    let neutral = NEUTRAL.iter().map(|(path, value)| format!("{path}={value}"));
    let always: Vec<String> = neutral.chain(fixed).collect();
    let base = StudyBase::load(workload, machine, &always)?;
    let space = Space::new(axes, &base)?;
    let Layouts { all: points, topology, devices } = points(&base, &space, &given)?;
    let threads = pool::threads(options.threads);
    let mut tell = |done| if progress(done).is_break() { Err(StudyError::Stopped) } else { Ok(()) };
    let mut line = CandidateQueue::new(&base, &points, options, threads, &mut tell)?;
    let simulate = |candidate: &LayoutCandidate| candidate.simulated(&base, options);
    let mut tell_run = |n| tell(points.len() as u64 + n);
    let (run, proof) = if options.prove {
        let (run, proof) = prove(&mut line, options, threads, &simulate, &mut tell_run)?;
        (run, Some(proof))
    } else {
        (SearchSimulations::over(&mut line, options, threads, &simulate, &mut tell_run)?, None)
    };
    let stopped = options.stop.is_pulled().then_some(StoppedSearch {
        points: points.len() as u64,
        bounded: line.bounded_layouts,
        estimated: line.walks,
        simulated: run.outcomes.len() as u64,
    });
    let CandidateQueue { candidates, mut pruned, unbounded, .. } = line;
    *pruned.entry("limit").or_insert(0) += run.undecided + unbounded;
    for (reason, count) in &run.hopeless {
        *pruned.entry(reason).or_insert(0) += count;
    }
    let mut report = SearchReport {
        workload: base.name().to_string(),
        topology,
        devices,
        objective: options.objective,
        deadline_s: options.deadline_s,
        points: points.len() as u64,
        pruned,
        simulated: run.outcomes.len() as u64,
        unfit: BTreeMap::new(),
        margin: options.margin,
        time_margin_reached: if stopped.is_some() { 0.0 } else { run.margin_reached },
        stopped,
        closed_form_longest: 0.0,
        simulating: None,
        floor_longest: 0.0,
        proof,
        assumed: (options.max_memory_bytes.is_none().then(|| memory_left(options.head_room)).into_iter())
            .chain(ASSUMED.map(String::from))
            .chain(options.offload.then(|| offload::ASSUMED.into()))
            .chain(options.placement.then(|| placement::ASSUMED.into()))
            .collect(),
        ranking: Vec::new(),
        unlike: Vec::new(),
    };
    let (mut ranked, unlike) = ranked(&base, run, &candidates, options, &mut report);
    let drawn = drawn(&base, &mut ranked, options.objective, threads);
    let best = ranked.first().and_then(|found| base.inputs(&found.candidate.sets).ok());
    let own = stepsim_located::to_value(plain.unchecked(&[])?.0).unwrap_or_default();
    let mut explained = explained(&base, &ranked).into_iter();
    let prices =
        expanded(&options.fix.iter().filter(|set| is_file(set)).cloned().collect::<Vec<_>>(), &Disk)?;
    let sets = |found: &SimulatedLayout| {
        let sets = needed(&own, always.iter().chain(&found.candidate.sets));
        with_files(sets, &prices, &options.fix)
    };
    let row = |found: SimulatedLayout| {
        let sets = sets(&found);
        found.row(&base, sets)
    };
    let best_found = ranked.first().map(|first| first.found);
    let advised = |found: SimulatedLayout, is_first: bool| {
        // Of other aims a shorter step is no reason to be first.
        let shorter_than =
            |first: &Measures| options.objective == Objective::Time && found.found.seconds < first.seconds;
        let behind = best_found
            .filter(shorter_than)
            .map(|first| behind(found.found, first, options.is_tight()).to_owned());
        let weighed = WeighedLayout::new(&base, found, options.objective);
        let advice =
            (is_first || options.answers).then(|| weighed.advice(&base, is_first && options.answers));
        RankedLayout { advice: advice.flatten(), behind, ..row(weighed.of) }
    };
    let played = ranked.first().and_then(|first| first.candidate.report(&base).cloned());
    report.unlike = pool::all(unlike.len(), threads, &|i| advised(unlike[i].clone(), false));
    report.ranking = ranked
        .into_iter()
        .zip(drawn)
        .enumerate()
        .map(|(place, (found, joules_per_token))| {
            let (waterfall, slower_by) = explained.next().map_or((None, Vec::new()), |(w, by)| (Some(w), by));
            let row = if place == 0 { advised(found, true) } else { row(found) };
            RankedLayout { waterfall, slower_by, joules_per_token, ..row }
        })
        .collect();
    if let Some(best) = report.ranking.first() {
        report.devices = best.devices;
    }
    Ok(SearchResult { report, best: best.map(|inputs| inputs.workload.value), played })
}

/// The part of device memory that stays free, in words.
fn memory_left(head_room: f64) -> String {
    match head_room {
        0.0 => "no device memory stays free: with any head room nothing fits".into(),
        part => format!("{:.0} % of the device memory stays free (--max-memory)", 100.0 * part),
    }
}

/// The simulated layouts that count, shortest first, and two that differ from the first
/// in kind; the others are counted in the report.
fn ranked(
    base: &StudyBase,
    run: SearchSimulations,
    candidates: &[LayoutCandidate],
    options: &SearchOptions,
    report: &mut SearchReport,
) -> (Vec<SimulatedLayout>, Vec<SimulatedLayout>) {
    let (mut ranked, mut both) = (Vec::new(), Vec::new());
    for (at, outcome) in run.outcomes {
        let candidate = &candidates[at];
        let found = candidate.form.simulated(&outcome).filter(|_| outcome.status == RunStatus::Ok);
        let unfit = match found {
            None => as_text(outcome.status),
            Some(found) => {
                let longer = 1.0 - found.seconds / candidate.form.seconds;
                report.closed_form_longest = report.closed_form_longest.max(longer);
                report.floor_longest = report.floor_longest.max(1.0 - found.seconds / candidate.least_s);
                if options.in_time(found) {
                    both.push([candidate.form, found]);
                    let simulated = SimulatedLayout { candidate: candidate.clone(), found, outcome };
                    ranked.push(WeighedLayout::new(base, simulated, options.objective));
                    continue;
                }
                "deadline".to_string()
            }
        };
        *report.unfit.entry(unfit).or_insert(0) += 1;
    }
    report.simulating = Simulating::of(&both, options.objective);
    let unlike = by_score(base, &mut ranked, options.is_tight());
    let beside = unlike.into_iter().skip(1).map(|at| ranked[at].of.clone()).collect();
    ranked.truncate(options.top.max(1));
    (ranked.into_iter().map(|weighed| weighed.of).collect(), beside)
}

impl SearchReport {
    /// The layouts that are worth measuring: the first, and two of other kinds.
    pub fn worth_measuring(&self) -> impl Iterator<Item = &RankedLayout> {
        self.ranking.iter().take(1).chain(&self.unlike)
    }
}

impl SimulatedLayout {
    fn row(self, base: &StudyBase, sets: Vec<String>) -> RankedLayout {
        let SimulatedLayout { candidate, found, outcome } = self;
        let outcome = match base.inputs(&candidate.sets) {
            Ok(inputs) => outcome.ranged(&inputs),
            Err(_) => outcome,
        };
        RankedLayout {
            sets,
            settings: candidate.settings,
            closed_form_s: candidate.form.seconds,
            closed_form_memory_bytes: candidate.form.memory_bytes,
            least_memory_bytes: candidate.least,
            devices: found.devices as u32,
            usd_per_million_tokens: found.usd_per_million_tokens(),
            joules_per_token: None,
            outcome,
            advice: None,
            behind: None,
            waterfall: None,
            slower_by: Vec::new(),
        }
    }
}

/// Joules a token of each of a ranking, which they order where energy is the objective.
fn drawn(
    base: &StudyBase,
    ranking: &mut Vec<SimulatedLayout>,
    objective: Objective,
    threads: usize,
) -> Vec<Option<f64>> {
    let joules = |i: usize| {
        let report = ranking.get(i).filter(|of| of.found.power_w > 0.0)?.candidate.report(base)?;
        report.cost.as_ref()?.joules_per_token
    };
    let drawn = pool::all(ranking.len(), threads, &joules);
    let mut all: Vec<_> = drawn.into_iter().zip(ranking.drain(..)).collect();
    if objective == Objective::Energy {
        all.sort_by(|a, b| a.0.unwrap_or(f64::MAX).total_cmp(&b.0.unwrap_or(f64::MAX)));
    }
    let (joules, found): (Vec<_>, Vec<_>) = all.into_iter().unzip();
    *ranking = found;
    joules
}

/// Where the step goes in the first [`EXPLAINED`] of a ranking, and what each spends more on than the best.
fn explained(base: &StudyBase, ranking: &[SimulatedLayout]) -> Vec<(BarsReport, Vec<Reason>)> {
    let mut all: Vec<(BarsReport, Vec<Reason>)> = Vec::new();
    let mut best_s = 0.0;
    for layout in ranking.iter().take(EXPLAINED) {
        let waterfall = layout.candidate.report(base).and_then(|report| report.waterfall.as_ref());
        let Some(bars) = waterfall.map(|waterfall| waterfall.mean.clone()) else { break };
        match all.first() {
            None => {
                best_s = layout.found.seconds;
                all.push((bars, Vec::new()));
            }
            Some((best, _)) => {
                let by = reasons(best, best_s, &bars, layout.found.seconds);
                all.push((bars, by));
            }
        }
    }
    all
}

/// The numbers of nodes that make machines of the sizes asked for.
fn sizes(
    options: &SearchOptions,
    base: &StudyBase,
    fixed: &[String],
    axes: &[StudyAxis],
) -> Result<Option<StudyAxis>, SpecError> {
    const NODES: &str = "topology.nodes";
    let site = base.unchecked(fixed)?.1;
    options.objective.check(site.machine().device(DeviceId(0)))?;
    let Some((fewest, most)) = options.devices else { return Ok(None) };
    let wrong = |problem: String| {
        SpecError::file(format!("--devices {fewest}..{most}"), problem)
            .allowed("fewest..most devices, of which a machine of a number of nodes has some: 64..4096")
    };
    if options.fix.iter().any(|set| set.starts_with(NODES)) || axes.iter().any(|a| a.paths[0] == NODES) {
        return Err(wrong(format!("{NODES} is given too")).hint("give one of the two"));
    }
    let nodes = u64::from(site.topology().value.nodes.max(1));
    let of_node = u64::from(site.machine().devices()) / nodes;
    let first = fewest.div_ceil(of_node.max(1)).max(1);
    let doubled = std::iter::successors(Some(first), |n| n.checked_mul(2));
    let counts: Vec<u64> = doubled.take_while(|n| n.saturating_mul(of_node) <= most).collect();
    if fewest > most || counts.is_empty() {
        return Err(wrong(format!("no machine between: a node of {} has {of_node}", site.topology().name)));
    }
    let values = counts.into_iter().map(|n| vec![n.into()]).collect();
    Ok(Some(StudyAxis::of(vec![NODES.to_string()], values)))
}

/// The given settings: values of chosen fields, settings of all layouts, and axes of the rest.
fn sorted(
    options: &SearchOptions,
    base: &StudyBase,
) -> Result<(FixedValues, Vec<String>, Vec<StudyAxis>), SpecError> {
    let (mut given, mut fixed, mut axes) = (FixedValues::default(), Vec::new(), Vec::new());
    for text in &expanded(&options.fix, &Disk)? {
        base.understands(std::slice::from_ref(text))?;
        let (path, value) = text.split_once('=').unwrap_or((text, ""));
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_string()));
        if !given.take(path, &[value]) {
            fixed.push(text.clone());
        }
    }
    for axis in &options.vary {
        axis.listed()?;
        let values: Vec<Value> = axis.values.iter().flatten().cloned().collect();
        if !given.take(&axis.paths[0], &values) {
            axes.push(axis.clone());
        }
    }
    for (path, value) in given.values() {
        base.understands(&[set_text(path, value)])?;
    }
    Ok((given, fixed, axes))
}

/// All layouts, and where they run.
struct Layouts {
    all: Vec<Map<String, Value>>,
    topology: String,
    devices: u32,
}

/// All layouts at all points of the rest; the machine is the first one's.
fn points(base: &StudyBase, space: &Space, given: &FixedValues) -> Result<Layouts, SpecError> {
    let mut points = Layouts { all: Vec::new(), topology: String::new(), devices: 0 };
    for i in 0..space.count() {
        let at = space.point(i);
        let sets: Vec<String> = at.iter().map(|(path, value)| set_text(path, value)).collect();
        let (workload, site) = base.unchecked(&sets)?;
        let ModelRef::Inline(model) = &workload.model else {
            return Err(SpecError::at("model", "the model was not resolved").in_file(base.name()));
        };
        for mut layout in layouts(&workload, model, site.machine(), given) {
            layout.extend(at.clone());
            points.all.push(layout);
        }
        if i == 0 {
            points.topology = site.topology().name.clone();
            points.devices = site.machine().devices();
        }
        if points.all.len() as u128 > MOST_POINTS {
            return Err(SpecError::file("search", format!("more than {MOST_POINTS} layouts"))
                .hint("fix what need not be searched: --fix parallelism.context.size=1"));
        }
    }
    Ok(points)
}

/// The same settings, with the files of settings in the place of what they hold.
fn with_files(sets: Vec<String>, held: &[String], fix: &[String]) -> Vec<String> {
    let files = fix.iter().filter(|set| is_file(set)).cloned();
    files.chain(sets.into_iter().filter(|set| !held.contains(set))).collect()
}

/// The last setting of each path, without those that say what the workload says itself.
pub(super) fn needed<'a>(own: &Value, sets: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut last: Vec<(&str, &str)> = Vec::new();
    for (path, value) in sets.filter_map(|text| text.split_once('=')) {
        last.retain(|(earlier, _)| *earlier != path);
        last.push((path, value));
    }
    let says = |path: &str| own.pointer(&format!("/{}", path.replace('.', "/"))).cloned().unwrap_or_default();
    let read = |text: &str| serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_string()));
    let nothing = |value: &Value| value.is_null() || value.as_array().is_some_and(Vec::is_empty);
    last.retain(|(path, value)| {
        let (own, value) = (says(path), read(value));
        own != value && !(nothing(&own) && nothing(&value))
    });
    last.into_iter().map(|(path, value)| format!("{path}={value}")).collect()
}

fn as_text(status: RunStatus) -> String {
    stepsim_located::to_value(status).ok().and_then(|v| v.as_str().map(str::to_string)).unwrap_or_default()
}
