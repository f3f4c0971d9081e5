//! The sacrifices that let a step fit: the least recomputation or offload, for every micro-batch that can fit.
//!
//! A *dial* turns one thing from little to all: layers of each stage that are recomputed, layers of an encoder that
//! has a policy of its own, or eighths of the activations or of the optimizer state that live on another tier. The
//! layout is the workload's own. For each micro-batch that the batch allows, smallest first, the step is played as it
//! is; where it does not fit, each dial is turned until it does: as far as the closed form says, and from there
//! notch by notch as the simulation says, until the step fits and one notch less does not. Where no dial is enough,
//! each is turned to its end and then each other one as little as will do.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::base::StudyBase;
use super::candidates::simulated;
use super::options::SearchOptions;
use super::outcome::PointOutcome;
use super::rows::StudyError;
use super::search::needed;
use super::space::set_text;
use stepsim_core::ids::DeviceId;
use stepsim_core::pool;
use stepsim_fabric::topology::Machine;
use stepsim_form::compare::workload::closed_form;
use stepsim_simulate::RunStatus;
use stepsim_spec::SpecError;
use stepsim_spec::model::ModelSpec;
use stepsim_spec::workload::{ModelRef, Placement, WorkloadSpec};

const MICRO_BATCH: &str = "batch.micro_batch";
const RECOMPUTE: &str = "recompute";
/// Notches of a dial that moves a share.
const EIGHTHS: u32 = 8;

/// A way in which a step fits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FittingStep {
    /// Sequences of a micro-batch.
    pub micro_batch: u64,
    /// The sacrifices, in words; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gives_up: Option<String>,
    /// Micro-batch, recomputation and offload.
    pub settings: Map<String, Value>,
    /// All that turns the workload into this one: arguments of `--set`.
    pub sets: Vec<String>,
    /// The simulated outcome.
    #[serde(flatten)]
    pub outcome: PointOutcome,
}

impl FittingStep {
    fn new(gives_up: Option<String>, settings: Map<String, Value>, outcome: PointOutcome) -> FittingStep {
        let micro_batch = settings.get(MICRO_BATCH).and_then(Value::as_u64).unwrap_or_default();
        FittingStep { micro_batch, gives_up, sets: texts(&settings), settings, outcome }
    }
}

/// The steps that were found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FillReport {
    /// The workload.
    pub workload: String,
    /// The machine.
    pub topology: String,
    /// Its devices.
    pub devices: u32,
    /// The largest micro-batch that fits, whatever is given up.
    pub largest_micro_batch: Option<u64>,
    /// Simulated steps.
    pub simulated: u64,
    /// Steps that fit: for each micro-batch by itself, or else with the least of each dial, or of two; shortest step
    /// first.
    pub fits: Vec<FittingStep>,
    /// Where nothing fits because nothing is allowed: why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// Turned from little to all.
struct Dial {
    path: String,
    /// The sacrifice of a notch, in words, and the value of the path.
    notches: Vec<(String, Value)>,
}

/// Finds what fits: see the module. Of `options`, `fix`, `max_memory_bytes` and `threads` count; what is fixed is not
/// turned. `progress` is told how many steps were simulated.
///
/// # Errors
/// Wrong files or settings.
pub fn fill(
    workload: &str,
    machine: Option<&str>,
    options: &SearchOptions,
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<(FillReport, Option<WorkloadSpec>), StudyError> {
    let plain = StudyBase::load(workload, machine, &[])?;
    let stated = plain.unchecked(&[])?.0;
    let kept = json!({"granularity": "none"});
    let encoders = own_policies(&stated).map(|path| (path, kept.clone()));
    let none: Vec<(String, Value)> =
        [(RECOMPUTE, kept.clone()), ("offload.activations", json!([])), ("offload.optimizer", json!([]))]
            .map(|(path, value)| (path.to_string(), value))
            .into_iter()
            .chain(encoders)
            .collect();
    let own = stepsim_located::to_value(&stated).unwrap_or_default();
    let says = |path: &str| own.pointer(&format!("/{}", path.replace('.', "/")));
    // An optimizer that runs on the host has its state there.
    let stays = |path: &str| {
        let on_host = says("offload.optimizer_on").is_some_and(|on| on == "host");
        options.asks(path) || on_host && path == "offload.optimizer"
    };
    let none =
        none.into_iter().filter(|(path, value)| !stays(path) && says(path).is_some_and(|own| own != value));
    let always: Vec<String> =
        none.map(|(path, value)| set_text(&path, &value)).chain(options.fix.iter().cloned()).collect();
    let base = StudyBase::load(workload, machine, &always)?;
    let (spec, site) = base.unchecked(&[])?;
    let ModelRef::Inline(model) = &spec.model else {
        return Err(SpecError::at("model", "the model was not resolved").in_file(base.name()).into());
    };
    let mut dials = dials(&spec, model, site.machine(), options);
    dials.retain(|dial| !stays(&dial.path));
    let count = AtomicU64::new(0);
    let play = |settings: &Map<String, Value>| -> PointOutcome {
        count.fetch_add(1, Ordering::Relaxed);
        simulated(&base, &texts(settings), options)
    };
    let mut report = FillReport {
        workload: base.name().to_string(),
        topology: site.topology().name.clone(),
        devices: site.machine().devices(),
        largest_micro_batch: None,
        simulated: 0,
        fits: Vec::new(),
        refused: None,
    };
    for micro_batch in micro_batches(&spec, u64::from(site.machine().devices()), options) {
        let at = Map::from_iter([(MICRO_BATCH.to_string(), json!(micro_batch))]);
        let outcome = play(&at);
        let found: Vec<Option<FittingStep>> = match outcome.status {
            RunStatus::Ok => vec![Some(FittingStep::new(None, at, outcome))],
            RunStatus::OutOfMemory => {
                let threads = pool::threads(options.threads);
                let least = |(given, dial): &(PartialFill, &Dial)| least(&base, dial, given, options, &play);
                let one: Vec<(PartialFill, &Dial)> =
                    dials.iter().map(|dial| (PartialFill::of(&at), dial)).collect();
                let found = pool::all(one.len(), threads, &|i| least(&one[i]));
                if found.iter().any(Option::is_some) {
                    found
                } else {
                    let two = pairs(&dials, &at);
                    pool::all(two.len(), threads, &|i| least(&two[i]))
                }
            }
            _ => {
                report.refused = report.refused.or(outcome.message);
                continue; // another number of micro-batches may do
            }
        };
        if progress(count.load(Ordering::Relaxed)).is_break() {
            return Err(StudyError::Stopped);
        }
        if found.iter().all(Option::is_none) {
            break; // nor does a larger one
        }
        report.largest_micro_batch = Some(micro_batch);
        report.fits.extend(found.into_iter().flatten());
    }
    report.simulated = count.into_inner();
    report.refused = report.refused.filter(|_| report.fits.is_empty());
    let seconds = |filled: &FittingStep| filled.outcome.step_time_s.unwrap_or(f64::INFINITY);
    report.fits.sort_by(|a, b| seconds(a).total_cmp(&seconds(b)));
    let best = report.fits.first().and_then(|best| base.inputs(&best.sets).ok());
    for filled in &mut report.fits {
        filled.sets = needed(&own, always.iter().chain(&filled.sets));
    }
    // Two dials that are both turned to their ends are one step, whichever was turned first.
    let mut seen: BTreeSet<Vec<String>> = BTreeSet::new();
    report.fits.retain(|filled| {
        let mut sets = filled.sets.clone();
        sets.sort_unstable();
        seen.insert(sets)
    });
    Ok((report, best.map(|inputs| inputs.workload.value)))
}

fn texts(settings: &Map<String, Value>) -> Vec<String> {
    settings.iter().map(|(path, value)| set_text(path, value)).collect()
}

/// The sizes that a replica's sequences can be cut into, smallest first.
fn micro_batches(workload: &WorkloadSpec, devices: u64, options: &SearchOptions) -> Vec<u64> {
    if options.asks(MICRO_BATCH) {
        return vec![workload.batch.micro_batch];
    }
    let of_replica = workload.batch.global / workload.data_parallel(devices).max(1);
    (1..=of_replica).filter(|size| of_replica.is_multiple_of(*size)).collect()
}

/// The dials that may be turned.
fn dials(
    workload: &WorkloadSpec,
    model: &ModelSpec,
    machine: &Machine,
    options: &SearchOptions,
) -> Vec<Dial> {
    let mut dials = Vec::new();
    if !options.asks(RECOMPUTE) {
        let selective = ("selective recomputation".to_string(), json!({"granularity": "selective"}));
        dials.push(Dial { path: RECOMPUTE.into(), notches: vec![selective] });
        let pipeline = &workload.parallelism.pipeline;
        let split = pipeline.layer_split.iter().flatten().max().copied();
        let most = split.unwrap_or(model.layers.div_ceil(pipeline.stages().max(1)));
        dials.push(Dial { path: RECOMPUTE.into(), notches: layer_by_layer(most, "a stage") });
    }
    for path in own_policies(workload) {
        let used = workload.used_modules(model);
        let Some(module) = used.iter().find(|module| path == policy_of(&module.spec.name)) else { continue };
        let most = module.spec.layers.div_ceil(module.usage.own_stages().unwrap_or(1).max(1));
        let notches = layer_by_layer(most, &module.spec.name);
        dials.push(Dial { path, notches });
    }
    let device = DeviceId(0);
    let tiers: Vec<&str> = machine.tiers_of(device).map(|tier| machine.tier(tier).0).collect();
    let state = workload.bytes_per_parameter().optimizer() > 0.0;
    let classes =
        [("offload.activations", "activations", true), ("offload.optimizer", "optimizer state", state)];
    for tier in tiers.into_iter().filter(|tier| *tier != Placement::HBM) {
        for (path, class, _) in classes.into_iter().filter(|class| class.2 && !options.asks(class.0)) {
            let notch = |n| {
                let share = f64::from(n) / f64::from(EIGHTHS);
                let mut places = vec![json!({"fraction": share, "tier": tier})];
                if n < EIGHTHS {
                    places.push(json!({"fraction": 1.0 - share, "tier": Placement::HBM}));
                }
                (format!("{:.1} % of the {class} on {tier}", 100.0 * share), Value::from(places))
            };
            dials.push(Dial { path: path.into(), notches: (1..=EIGHTHS).map(notch).collect() });
        }
    }
    dials
}

/// Full recomputation of 1 to `most` layers of something, in words and as a policy.
fn layer_by_layer(most: u64, of: &str) -> Vec<(String, Value)> {
    let notch = |n| {
        let words = format!("recomputation of {n} of {most} layers of {of}");
        (words, json!({"granularity": "full", "layers": n}))
    };
    (1..=most).map(notch).collect()
}

/// Where a module's own policy of recomputation stands.
fn policy_of(module: &str) -> String {
    format!("modules.{module}.recompute")
}

/// The policies of modules that have one of their own; the others follow the workload's.
fn own_policies(workload: &WorkloadSpec) -> impl Iterator<Item = String> {
    let stated = workload.modules.iter().filter(|(_, usage)| usage.recompute.is_some());
    stated.map(|(name, _)| policy_of(name))
}

/// A step, and what it gives up already.
struct PartialFill {
    settings: Map<String, Value>,
    gives_up: Vec<String>,
}

impl PartialFill {
    fn of(settings: &Map<String, Value>) -> PartialFill {
        PartialFill { settings: settings.clone(), gives_up: Vec::new() }
    }
    fn and(&self, path: &str, (gives_up, value): &(String, Value)) -> PartialFill {
        let mut settings = self.settings.clone();
        settings.insert(path.to_string(), value.clone());
        let gives_up = self.gives_up.iter().chain([gives_up]).cloned().collect();
        PartialFill { settings, gives_up }
    }
}

/// Each dial turned to its end, and beside it each other one that turns something else.
fn pairs<'a>(dials: &'a [Dial], at: &Map<String, Value>) -> Vec<(PartialFill, &'a Dial)> {
    let ends = dials.iter().filter_map(|dial| Some((dial.path.as_str(), dial.notches.last()?)));
    let beside = |path| dials.iter().filter(move |dial| dial.path != path);
    ends.flat_map(|(path, end)| beside(path).map(move |dial| (PartialFill::of(at).and(path, end), dial)))
        .collect()
}

/// The least notch of a dial at which the step fits, with what is given up.
fn least(
    base: &StudyBase,
    dial: &Dial,
    given: &PartialFill,
    options: &SearchOptions,
    play: &(dyn Fn(&Map<String, Value>) -> PointOutcome + Sync),
) -> Option<FittingStep> {
    let turned = |notch: usize| given.and(&dial.path, &dial.notches[notch]);
    let settings = |notch: usize| turned(notch).settings;
    let seems_to_fit = |notch: &usize| {
        let form = base.inputs(&texts(&settings(*notch))).ok().and_then(|inputs| closed_form(&inputs).ok());
        form.is_some_and(|form| form.fullest().total() <= options.memory_limit(form.capacity))
    };
    let mut played: BTreeMap<usize, PointOutcome> = BTreeMap::new();
    let mut fits =
        |notch: usize| played.entry(notch).or_insert_with(|| play(&settings(notch))).status == RunStatus::Ok;
    let last = dial.notches.len().checked_sub(1)?;
    let mut notch = (0..=last).find(seems_to_fit).unwrap_or(last);
    while !fits(notch) {
        notch += 1;
        if notch > last {
            return None;
        }
    }
    while notch > 0 && fits(notch - 1) {
        notch -= 1;
    }
    let outcome = played.remove(&notch)?;
    let PartialFill { settings, gives_up } = turned(notch);
    Some(FittingStep::new(Some(gives_up.join(", ")), settings, outcome))
}
