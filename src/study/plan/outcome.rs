//! The step of a plan: its answer, and how much a whole run takes.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::run_plan::RunPlan;
use crate::otherwise::{Depth, answer};
use stepsim_bring::imports::RunLength;
use stepsim_core::interrupt::until;
use stepsim_measure::score::ranges::told;
use stepsim_read::analysis::report::Report;
use stepsim_read::page::sheet::quoted;
use stepsim_simulate::jump::{figures, glanced};
use stepsim_simulate::{Inputs, Options, SimulationError};
use stepsim_spec::SpecError;

/// A simulated plan.
#[derive(Clone, Debug)]
pub struct SimulatedPlan {
    /// Its step, with the answer.
    pub report: Report,
    /// Sequences of a step.
    pub sequences: u64,
    /// Degrees, batch, sharding and recomputation, in words.
    pub layout: String,
}

/// The output of `stepsim plan --report`: the report of the planned step, and beside it what was planned.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlanReport {
    /// What was planned.
    pub plan: PlannedRun,
    /// The step, as `stepsim run --report` writes it.
    #[serde(flatten)]
    pub report: Report,
}

/// A plan, and where each part of it comes from.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PlannedRun {
    /// The description and the machine.
    pub name: String,
    /// Degrees, batch, sharding and recomputation, in words.
    pub layout: String,
    /// What was stated, what the model says, what the software takes by itself, and what was assumed.
    pub sources: BTreeMap<&'static str, Vec<String>>,
    /// Words that were not understood; each may change the step.
    pub not_understood: Vec<String>,
    /// The workload, as the command writes it into a file.
    pub workload: Value,
}

impl PlanReport {
    /// The document of a plan.
    pub fn of(plan: &RunPlan, planned: &SimulatedPlan) -> PlanReport {
        let lines = |lines: Vec<&str>| lines.into_iter().map(str::to_owned).collect();
        let plan = PlannedRun {
            name: plan.name.clone(),
            layout: planned.layout.clone(),
            sources: plan.classes().into_iter().map(|(class, of)| (class, lines(of))).collect(),
            not_understood: plan.not_understood.clone(),
            workload: plan.workload.clone(),
        };
        PlanReport { plan, report: planned.report.clone() }
    }
}

impl RunPlan {
    /// The workload on its machine.
    ///
    /// # Errors
    /// They do not fit each other.
    pub fn inputs(&self) -> Result<Inputs, SpecError> {
        let sets = &self.machine_sets;
        Inputs::load(&self.workload.to_string(), Some(&self.on), sets).map_err(|e| named(e, self))
    }
}

impl SimulatedPlan {
    /// Simulates a run.
    ///
    /// # Errors
    /// Workload and machine do not fit, or the step cannot be played.
    pub fn of(plan: &RunPlan) -> Result<SimulatedPlan, SimulationError> {
        let (inputs, options) = (plan.inputs()?, Options { threads: plan.threads, ..Options::default() });
        let report = match plan.played.clone() {
            Some(played) => Report { run: inputs.head(options.seed), ..played },
            None => glanced(&inputs, &options)?,
        };
        // Where the search was to end, nothing more is played.
        let asked = || answer(&inputs, &options, report.clone(), Depth::Answer);
        let answered = if plan.stopped.is_some() { None } else { until(&plan.stop, asked) };
        let report = answered.unwrap_or_else(|| Ok(told(&inputs, report)))?;
        Ok(SimulatedPlan::of_report(&inputs, report))
    }

    /// The plan of a step that was played and has its answer.
    pub fn of_report(inputs: &Inputs, report: Report) -> SimulatedPlan {
        SimulatedPlan { report, sequences: inputs.workload.value.batch.global, layout: layout(inputs) }
    }

    /// Tokens per second of a device.
    pub fn tokens_per_s_per_device(&self) -> f64 {
        self.report.tokens_per_s / self.report.devices as f64
    }

    /// Minutes, hours or days of a run of `tokens` tokens, in words.
    pub fn days(&self, tokens: f64) -> String {
        let seconds = tokens / self.report.tokens_per_s;
        let (unit_s, unit) = match seconds {
            s if s < 7_200.0 => (60.0, "minutes"),
            s if s < 172_800.0 => (3_600.0, "hours"),
            _ => (86_400.0, "days"),
        };
        let long = seconds / unit_s;
        format!("{long:.1} {unit}{}", self.between(long, 1))
    }

    /// Dollars of a run of `tokens` tokens, in words, where devices state a price.
    pub fn dollars(&self, tokens: f64) -> Option<String> {
        let usd = tokens / 1e6 * self.report.cost.as_ref()?.usd_per_million_tokens?;
        Some(format!("{usd:.0} ${}", self.between(usd, 0)))
    }

    /// The range of what takes `value` at the simulated step.
    fn between(&self, value: f64, digits: usize) -> String {
        self.report.answer.range_s.map_or(String::new(), |ends| {
            let [low, high] = ends.map(|end_s| value * end_s / self.report.step_time_s);
            format!(" ({low:.digits$} to {high:.digits$})")
        })
    }

    /// The tokens of a run of whole steps; one sequence a sample. `None` where the run's length is not known.
    pub fn tokens_of(&self, length: &RunLength) -> Option<f64> {
        let steps_of = |samples: f64| (samples * length.epochs.unwrap_or(1.0) / self.sequences as f64).ceil();
        let steps = length.steps.or(length.samples.map(steps_of))?;
        Some(steps * self.report.step_time_s * self.report.tokens_per_s)
    }

    /// The time of a run of `tokens` tokens, and its cost where devices state a price.
    pub fn whole_run(&self, tokens: f64) -> String {
        let dollars = self.dollars(tokens).map_or(String::new(), |dollars| format!(", {dollars}"));
        format!("{tokens:.3e} tokens: {}{dollars}", self.days(tokens))
    }

    /// The step with documents of two lengths in place of the unknown ones of packed sequences; none where they are
    /// known.
    pub fn packed(plan: &RunPlan) -> Option<String> {
        let is_packed = plan.not_understood.iter().any(|word| word.contains("documents.lengths by --set"));
        let sequence = plan.workload["sequence"].as_u64().filter(|_| is_packed)?;
        let step_of = |length: u64| {
            let set = format!("documents.lengths=[{length}]");
            let sets = [plan.machine_sets.as_slice(), &[set]].concat();
            let inputs = Inputs::load(&plan.workload.to_string(), Some(&plan.on), &sets).ok()?;
            let step = figures(&inputs, &Options::default(), false).ok()?;
            Some(format!("{} with documents of {length} tokens", step.step_end))
        };
        let steps: Vec<String> = [(sequence / 8).max(1), sequence].into_iter().filter_map(step_of).collect();
        let set = format!("--set 'documents.lengths=[{}]'", (sequence / 8).max(1));
        Some(format!("{}; their lengths give the range: {set}", steps.join(", ")))
    }
}

/// Degrees, batch, sharding and recomputation of a step.
fn layout(inputs: &Inputs) -> String {
    let workload = &inputs.workload.value;
    let p = &workload.parallelism;
    let devices = u64::from(inputs.machine.devices());
    let mut parts = vec![format!("{} devices", devices)];
    let degrees = [
        ("tensor", p.tensor),
        ("context", p.context.size),
        ("pipeline", p.pipeline.size),
        ("expert", p.expert),
        ("data", workload.data_parallel(devices)),
    ];
    parts.extend(degrees.into_iter().filter(|(_, n)| *n > 1).map(|(name, n)| format!("{name} {n}")));
    parts.push(format!("batch {} in micro-batches of {}", workload.batch.global, workload.batch.micro_batch));
    let words = |value: serde_json::Result<serde_json::Value>| {
        value.ok().and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default()
    };
    let sharding = words(stepsim_located::to_value(p.sharding.kind));
    let recompute = words(stepsim_located::to_value(workload.recompute.granularity));
    parts.push(format!("sharding {sharding}, recomputation {recompute}"));
    parts.join(", ")
}

/// Names the file in an error, and what may help where degrees do not fit the machine.
fn named(error: SpecError, plan: &RunPlan) -> SpecError {
    let mut error = SpecError { file: plan.name.clone(), ..error };
    let others = ["parallelism", "batch.global"].iter().any(|path| error.path.starts_with(path));
    if others {
        let machine = machine_that_does(plan).map(|on| format!("{on} would do: "));
        let search = format!(
            "{}stepsim plan {} --on {} --search looks for another layout",
            machine.as_deref().unwrap_or("another machine, or "),
            quoted(&plan.name),
            plan.on
        );
        error.hint = if error.hint.is_empty() { search } else { format!("{}; {search}", error.hint) };
    }
    error
}

/// The largest machine of the same devices, up to the one that is asked for, or else the smallest above it, that the
/// degrees and the sequences of a plan divide.
fn machine_that_does(plan: &RunPlan) -> Option<String> {
    let (count, device) = plan.on.split_once('x')?;
    let count: u64 = count.parse().ok()?;
    let number =
        |path: &str| plan.workload.pointer(path).and_then(serde_json::Value::as_u64).unwrap_or(1).max(1);
    let stage = number("/parallelism/tensor").checked_mul(number("/parallelism/context/size"))?;
    let experts = number("/parallelism/expert").checked_mul(number("/parallelism/expert_tensor"))?;
    let stages = number("/parallelism/pipeline/size");
    let (sequences, micro_batch) = (number("/batch/global"), number("/batch/micro_batch"));
    let group = number("/parallelism/sharding/group");
    let does = |data: &u64| {
        let ranks = data.saturating_mul(stage);
        let devices = ranks.saturating_mul(stages);
        let whole_nodes = devices <= NODE || devices.is_multiple_of(NODE);
        whole_nodes
            && data.is_multiple_of(group)
            && ranks.is_multiple_of(experts)
            && sequences.is_multiple_of(data.saturating_mul(micro_batch))
    };
    let most = count / stage.checked_mul(stages)?;
    let data = (1..=most).rev().find(does).or_else(|| (most + 1..=MOST_REPLICAS).find(does))?;
    Some(format!("--on {}x{device}", data.checked_mul(stage)?.checked_mul(stages)?))
}

/// Devices of most nodes: more of them come in whole nodes.
const NODE: u64 = 8;

/// Replicas of a machine that is proposed.
const MOST_REPLICAS: u64 = 4096;
