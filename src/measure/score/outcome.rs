//! The outcome of a row: predicted seconds beside the measured ones.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use super::anchor::{PartSeconds, parts};
use super::card;
use super::case::{Case, case};
use super::ranges::open_facts::open_facts;
use super::ranges::{LayoutKind, MeasuredSteps, OpenFact, StepRange, StepTraits, most_hidden};
use super::rows::PublishedRow;
use stepsim_bring::describe::{AssumedField, RuleBook, ValueOrigin};
use stepsim_core::engine::EngineError;
use stepsim_core::ids::{DeviceId, OpId, RankId};
use stepsim_core::kernel_class::KernelClass;
use stepsim_core::pool;
use stepsim_core::program::{Phase, Work};
use stepsim_form::compare::workload::closed_form;
use stepsim_simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim_spec::rules::Pace;
use stepsim_spec::{set_at, setting};

/// How far a row got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RowStatus {
    /// It was mapped, and not to be simulated.
    #[default]
    Mapped,
    /// It was simulated.
    Done,
    /// It was simulated, but needs more memory than the device has; the time holds for a device with enough.
    OverMemory(String),
    /// It was simulated, but its rules hold it apart, and why: no measured step, or one far below the peak.
    Apart(String),
    /// It could not be mapped, and why.
    Skipped(String),
    /// The simulator refused it, and why.
    Failed(String),
}

/// A row, simulated and estimated.
#[derive(Clone, Debug, Default)]
pub struct RowOutcome {
    /// The row's name.
    pub id: String,
    /// Its source.
    pub source: String,
    /// Name of the device; empty where the row could not be mapped.
    pub device: String,
    /// How it ended.
    pub status: RowStatus,
    /// The simulated case; `None` where the row could not be mapped.
    pub case: Option<Case>,
    /// Simulated seconds.
    pub predicted_s: Option<f64>,
    /// Seconds in closed form.
    pub closed_form_s: Option<f64>,
    /// Simulated peak of device memory in GiB.
    pub memory_gib: Option<f64>,
    /// Bytes of the framework's context, of what its allocator keeps beside tensors, and of the device.
    beside_tensors: [f64; 3],
    /// Part of the step in which that communication runs under kernels which hides best.
    pub hidden_share: Option<f64>,
    /// Classes of the step; `None` where it was not simulated, or its software has no name.
    pub traits: Option<StepTraits>,
    /// Facts that the row leaves open, which its range covers.
    pub open: Vec<OpenFact>,
    /// The kind of its layout.
    pub layout: Option<LayoutKind>,
    /// Seconds of the mean rank: its kernels, and what it stood still for.
    pub breakdown: BTreeMap<String, f64>,
    /// Seconds of the mean rank's kernels by class.
    pub kernels: BTreeMap<&'static str, f64>,
    /// The simulated seconds by part.
    pub parts: Option<PartSeconds>,
}

impl RowOutcome {
    /// Predicted over measured, less one; `None` where the step does not fit where it ran, or is held apart.
    pub fn error(&self) -> Option<f64> {
        self.off().filter(|_| self.status == RowStatus::Done)
    }
    /// True if it was simulated as it ran.
    pub fn fits(&self) -> bool {
        matches!(self.status, RowStatus::Done | RowStatus::Apart(_))
    }
    /// Its range by the shipped measured steps of all other sources; `None` where it counts in nothing.
    pub fn range(&self) -> Option<StepRange> {
        self.likely().filter(|_| self.counts())
    }
    /// It is a measured step by which others can be judged.
    pub fn counts(&self) -> bool {
        matches!(self.status, RowStatus::Done | RowStatus::OverMemory(_))
    }
    /// The same as [`RowOutcome::range`], whether the step counts or not.
    pub fn likely(&self) -> Option<StepRange> {
        let (traits, step_s) = (self.traits.as_ref()?, self.predicted_s?);
        self.case.as_ref().filter(|case| !case.software_assumed())?;
        MeasuredSteps::shipped()
            .accuracy(traits, step_s, Some(&self.source))
            .range()
            .cloned()
            .map(|range| range.covering(self.open.clone()))
    }
    /// The same, whether the step counts or not.
    pub fn off(&self) -> Option<f64> {
        Some(self.predicted_s? / self.case.as_ref()?.measured_s - 1.0)
    }
    /// The error of the closed form.
    pub fn closed_form_error(&self) -> Option<f64> {
        let measured = self.case.as_ref()?.measured_s;
        Some(self.closed_form_s? / measured - 1.0).filter(|_| self.status == RowStatus::Done)
    }
    /// Simulated over measured peak memory, less one; of a row that is not held apart.
    pub fn memory_error(&self) -> Option<f64> {
        let off = self.memory_gib? / self.case.as_ref()?.peak_mem_gib? - 1.0;
        Some(off).filter(|_| !matches!(self.status, RowStatus::Apart(_)))
    }
}

/// Maps, simulates and estimates a row; `sets` are settings of every workload and machine.
pub fn outcome(row: &PublishedRow, book: &RuleBook, sets: &[String]) -> RowOutcome {
    let mut outcome = mapped(row, book);
    if let Some(case) = outcome.case.clone() {
        outcome.status = RowStatus::Done;
        if let Err(reason) = outcome.simulate(&case, sets) {
            outcome.status = RowStatus::Failed(reason);
        }
    }
    outcome
}

/// The outcomes of all rows, played side by side. `progress` is told how many are done.
pub fn outcomes(
    rows: &[PublishedRow],
    book: &RuleBook,
    sets: &[String],
    progress: &(dyn Fn(u64) + Sync),
) -> Vec<RowOutcome> {
    let done = AtomicU64::new(0);
    pool::all(rows.len(), pool::threads(None), &|i| {
        let outcome = outcome(&rows[i], book, sets);
        progress(done.fetch_add(1, Ordering::Relaxed) + 1);
        outcome
    })
}

/// Maps a row, and no more.
pub fn mapped(row: &PublishedRow, book: &RuleBook) -> RowOutcome {
    let mut outcome = RowOutcome {
        id: row.id.clone(),
        source: Some(row.text("source")).filter(|s| !s.is_empty()).unwrap_or("unnamed").to_string(),
        ..RowOutcome::default()
    };
    let found = if card::is_card(row) { card::of_row(row) } else { case(row, book) };
    match found {
        Err(reason) => outcome.status = RowStatus::Skipped(reason),
        Ok(case) => outcome.case = Some(case),
    }
    outcome
}

/// Bytes of a GiB.
const GIB: f64 = (1u64 << 30) as f64;

/// The result of a simulated row.
struct SimulatedRow {
    seconds: f64,
    mfu: f64,
    mfu_causal: f64,
    peak: f64,
    memory_gib: Option<f64>,
    hidden_share: Option<f64>,
    breakdown: BTreeMap<String, f64>,
    kernels: BTreeMap<&'static str, f64>,
    parts: PartSeconds,
}

impl RowOutcome {
    fn simulate(&mut self, case: &Case, sets: &[String]) -> Result<(), String> {
        if case.layer {
            // The difference of two stacks of layers is one layer without the ends of the model.
            self.device = device(&case.inputs(&self.id, Some(2), true, sets)?);
            let passes = |layers| passes(case.inputs(&self.id, Some(layers), true, sets)?);
            self.predicted_s = Some(passes(3)? - passes(2)?);
            return Ok(());
        }
        let inputs = case.inputs(&self.id, None, false, sets)?;
        self.device = device(&inputs);
        self.traits = StepTraits::of(&inputs);
        let said =
            |fact: &OpenFact| case.workload.pointer(&format!("/{}", fact.path.replace('.', "/"))).is_some();
        self.open = open_facts(&inputs, &case.stack).into_iter().filter(|fact| !said(fact)).collect();
        let workload = &inputs.workload.value;
        self.layout = Some(LayoutKind::of(workload));
        self.estimate(case, &inputs)?;
        let played = match play(inputs, case.pace) {
            Ok(played) => played,
            Err(SimulationError::Engine(e @ EngineError::OutOfMemory { .. })) => {
                match self.relieved(case, sets) {
                    Some(played) => played,
                    None => {
                        self.status = RowStatus::OverMemory(one_line(&e.to_string()));
                        let roomy = case.inputs(&self.id, None, true, sets)?;
                        play(roomy, case.pace).map_err(|e| one_line(&e.to_string()))?
                    }
                }
            }
            Err(e) => return Err(one_line(&e.to_string())),
        };
        let predicted = played.seconds * case.scale;
        let measured = predicted / case.measured_s;
        let may_be_apart = self.status == RowStatus::Done || case.apart.is_some();
        let apart = impossible(case, played.mfu_causal * measured, played.peak)
            .or_else(|| held_apart(case, played.mfu * measured).filter(|_| may_be_apart));
        let doubts = [self.doubted_network(case, sets, predicted), slower_than_any(case, predicted)];
        self.case.iter_mut().for_each(|own| own.warnings.extend(doubts.iter().flatten().cloned()));
        if let Some(why) = apart {
            self.status = RowStatus::Apart(why);
        }
        self.predicted_s = Some(predicted);
        let longest = case.longest.map(|tokens| self.fullest(case, sets, tokens)).transpose()?;
        self.memory_gib = longest.or(played.memory_gib).map(|held| self.printed_memory(case, held));
        self.hidden_share = played.hidden_share;
        self.breakdown = played.breakdown;
        self.kernels = played.kernels;
        self.parts = Some(played.parts.map(|seconds| seconds * case.scale));
        Ok(())
    }

    /// Why the described network may not be the machine's, where the step takes far longer with it than it was measured
    /// to, and about as long with the usual one.
    fn doubted_network(&self, case: &Case, sets: &[String], predicted_s: f64) -> Option<String> {
        let times = predicted_s / case.measured_s;
        let (described, rest): (Vec<String>, Vec<String>) =
            case.machine.sets.iter().cloned().partition(|set| set.starts_with("node.nics"));
        if times < DOUBTED || described.is_empty() {
            return None;
        }
        let mut usual = case.clone();
        usual.machine.sets = rest;
        let played = play(usual.inputs(&self.id, None, false, sets).ok()?, case.pace).ok()?;
        let with_usual = played.seconds * case.scale / case.measured_s;
        (DOUBTED.recip()..DOUBTED).contains(&with_usual).then(|| {
            format!(
                "with the network that is described ({}) the step would take {times:.1} times what was measured, and \
                 {with_usual:.2} times with the usual one of {}: `inter_node` is doubted",
                described.join(", "),
                case.machine.topology
            )
        })
    }

    fn estimate(&mut self, case: &Case, inputs: &Inputs) -> Result<(), String> {
        let form = closed_form(inputs).map_err(|e| one_line(&e.to_string()))?;
        self.closed_form_s = Some(form.terms.total() * case.scale);
        let context = inputs.workload.value.context_bytes() as f64;
        self.beside_tensors = [context, form.fullest().cached, form.capacity];
        Ok(())
    }

    /// GiB of tensors and context at the peak of sequences of this length; what the allocator keeps is theirs too.
    fn fullest(&mut self, case: &Case, sets: &[String], tokens: u64) -> Result<f64, String> {
        let all = [sets, &[format!("model.sequence={tokens}")]].concat();
        let form =
            closed_form(&case.inputs(&self.id, None, true, &all)?).map_err(|e| one_line(&e.to_string()))?;
        self.beside_tensors[1] = form.fullest().cached;
        Ok(form.fullest().total() / GIB)
    }

    /// GiB of what the row prints the peak of, where tensors and context take `held`.
    fn printed_memory(&self, case: &Case, held: f64) -> f64 {
        let [context, cached, capacity] = self.beside_tensors.map(|bytes| bytes / GIB);
        case.memory_of.bytes(held, context, cached, capacity)
    }

    /// The step with the least that makes it fit, if anything does; what was taken is noted as assumed.
    fn relieved(&mut self, case: &Case, sets: &[String]) -> Option<SimulatedRow> {
        for relief in &case.reliefs {
            let all: Vec<String> = relief.sets.iter().chain(sets).cloned().collect();
            let Ok(inputs) = case.inputs(&self.id, None, false, &all) else { continue };
            let Ok(played) = play(inputs.clone(), case.pace) else { continue };
            self.estimate(case, &inputs).ok()?;
            if let Some(case) = &mut self.case {
                let origin =
                    ValueOrigin::assumed("the step did not fit where it ran; this is the least that does");
                case.assumed.push(AssumedField {
                    column: "fit".into(),
                    value: relief.what.as_str().into(),
                    origin,
                });
                for (path, value) in relief.sets.iter().filter_map(|set| setting(set).ok()) {
                    let _ = set_at(&mut case.workload, path, value);
                }
            }
            return Some(played);
        }
        None
    }
}

fn play(inputs: Inputs, pace: Pace) -> Result<SimulatedRow, SimulationError> {
    let peak = inputs.peak().0;
    let run = Simulation::run(&inputs, &Options::default())?;
    let report = run.report(false);
    let mut breakdown = BTreeMap::from([("busy_s".to_string(), report.mean.busy_s)]);
    for (cause, seconds) in &report.mean.stalls_s {
        breakdown.insert(cause.name().to_string(), *seconds);
    }
    let seconds = match pace {
        Pace::Step => run.record.step_end.s(),
        Pace::LongestRank => longest_span(&run),
    };
    let memory = report.memory.get("hbm");
    let by_class = kernels(&run);
    Ok(SimulatedRow {
        seconds,
        mfu: report.mfu * run.record.step_end.s() / seconds,
        mfu_causal: report.mfu_causal * run.record.step_end.s() / seconds,
        peak,
        memory_gib: memory.map(|tier| tier.peak_bytes as f64 / (1u64 << 30) as f64),
        hidden_share: most_hidden(&report).map(|(_, hidden)| hidden / report.run_time_s),
        breakdown,
        parts: parts(seconds, &by_class, &report.mean.stalls_s, report.mean.busy_s),
        kernels: by_class.into_iter().map(|(class, seconds)| (class.name(), seconds)).collect(),
    })
}

/// Seconds of the mean rank's kernels by class, as they are priced.
pub fn kernels(run: &Simulation) -> BTreeMap<KernelClass, f64> {
    let world = &run.folded.world;
    let mut seconds = BTreeMap::new();
    let shares: Vec<f64> =
        (0..world.ranks.len()).map(|r| f64::from(run.folded.size(RankId(r as u32)))).collect();
    let all: f64 = shares.iter().sum();
    for (rank, share) in world.ranks.iter().zip(shares) {
        let program = &world.programs[rank.program.index()];
        for op in &program.ops {
            let info = &program.infos[op.info as usize];
            if let (Work::Compute { time }, Some(class)) = (op.work, info.class) {
                *seconds.entry(class).or_default() += time.s() * share / all;
            }
        }
    }
    seconds
}

/// From the first kernel of a rank to its last op, on the rank where this is longest. A host launches kernels long
/// before the first one's input has come; that is not counted.
pub fn longest_span(run: &Simulation) -> f64 {
    let world = &run.folded.world;
    let spans = world.ranks.iter().enumerate().map(|(r, rank)| {
        let program = &world.programs[rank.program.index()];
        let ops = (0..program.ops.len()).map(|i| {
            let (start, end) = run.record.span(RankId(r as u32), OpId(i as u32));
            (program.infos[program.ops[i].info as usize].class.is_some(), start.s(), end.s())
        });
        let (first, last) = ops.fold((f64::INFINITY, 0.0f64), |(first, last), (kernel, start, end)| {
            (if kernel { first.min(start) } else { first }, last.max(end))
        });
        last - first
    });
    spans.fold(0.0, f64::max)
}

/// When the last forward or backward kernel of a step ends.
fn passes(inputs: Inputs) -> Result<f64, String> {
    let run = Simulation::run(&inputs, &Options::default()).map_err(|e| one_line(&e.to_string()))?;
    let world = &run.folded.world;
    let program = &world.programs[world.ranks[0].program.index()];
    let ends = program.ops.iter().enumerate().filter_map(|(i, op)| {
        let info = &program.infos[op.info as usize];
        (info.phase != Phase::Optimizer && matches!(op.work, Work::Compute { .. }))
            .then(|| run.record.span(RankId(0), OpId(i as u32)).1.s())
    });
    Ok(ends.fold(0.0, f64::max))
}

/// A step that would take so many times what was measured is not described as it ran.
const DOUBTED: f64 = 2.0;
/// No kernel reaches more of the peak.
const ROOF: f64 = 0.95;

/// A step that takes so many times what is simulated is not the one that is described.
const SLOW: f64 = 20.0;

/// What is doubted of a measured time that is longer than any step like the described one.
fn slower_than_any(case: &Case, predicted_s: f64) -> Option<String> {
    let times = case.measured_s / predicted_s;
    (times > SLOW).then(|| {
        format!(
            "`{}` is {times:.0} times the simulated step: doubted are its unit and the batch",
            case.measured_from
        )
    })
}

/// Why no device can have done a step in the measured time, if none can.
fn impossible(case: &Case, measured_mfu: f64, peak: f64) -> Option<String> {
    (measured_mfu > ROOF).then(|| {
        format!(
            "`{}` would be {:.0} TFLOP/s a device, whose peak is {:.0}: doubted are it, the batch, the format and the \
             device",
            case.measured_from,
            measured_mfu * peak / 1e12,
            peak / 1e12
        )
    })
}

/// Why a row is in no mean, if it is not: its rules say so, or what was measured is too far from the peak.
fn held_apart(case: &Case, measured_mfu: f64) -> Option<String> {
    let least = case.apart_below_mfu.filter(|least| measured_mfu < *least);
    case.apart.clone().or_else(|| Some(format!("measured below {:.0} % of the peak", 100.0 * least?)))
}

fn device(inputs: &Inputs) -> String {
    inputs.machine.device(DeviceId(0)).name.clone()
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().to_string()
}
