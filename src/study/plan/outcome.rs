//! The step of a plan: how long, how well, how much, and what to do next.

use super::run_plan::RunPlan;
use crate::likely::LikelyTime;
use stepsim_bring::describe::ValueClass;
use stepsim_bring::imports::RunLength;
use stepsim_core::ids::DeviceId;
use stepsim_measure::score::ranges::{Accuracy, Circumstances};
use stepsim_read::analysis::report::{CostReport, Report};
use stepsim_read::page::sheet::quoted;
use stepsim_simulate::jump::glanced;
use stepsim_simulate::{Inputs, Options, SimulationError};
use stepsim_step::spec::SpecError;

const GIB: f64 = (1u64 << 30) as f64;

/// A simulated plan. Rates and costs are those of the likely step where one is known, else of the simulated one.
#[derive(Clone, Debug)]
pub struct SimulatedPlan {
    /// Seconds of the simulated step.
    pub simulated_s: f64,
    /// The likely step.
    pub likely: LikelyTime,
    /// Model FLOP utilisation.
    pub mfu: f64,
    /// Tokens per second and device.
    pub tokens_per_s_per_device: f64,
    /// Tokens per second of all devices.
    pub tokens_per_s: f64,
    /// Sequences of a step.
    pub sequences: u64,
    /// The fullest device memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Device memory, in bytes.
    pub capacity_bytes: Option<f64>,
    /// Dollars and energy, where devices state a price or their power.
    pub cost: Option<CostReport>,
    /// Degrees, batch, sharding and recomputation, in words.
    pub layout: String,
}

impl SimulatedPlan {
    /// Simulates a run.
    ///
    /// # Errors
    /// Workload and machine do not fit, or the step cannot be played.
    pub fn of(plan: &RunPlan) -> Result<SimulatedPlan, SimulationError> {
        let text = plan.workload.to_string();
        let inputs = Inputs::load(&text, Some(&plan.on), &plan.machine_sets).map_err(|e| named(e, plan))?;
        let step = glanced(&inputs, &Options::default())?;
        Ok(SimulatedPlan::of_step(&inputs, &step, likely(plan, &inputs, step.step_time_s)))
    }

    /// The plan of a step that was played, with the time that it likely takes.
    pub fn of_step(inputs: &Inputs, step: &Report, likely: LikelyTime) -> SimulatedPlan {
        let device = inputs.machine.device(DeviceId(0));
        let longer = likely.estimate_s.map_or(1.0, |likely_s| likely_s / step.step_time_s);
        let tokens_per_s = step.tokens_per_s / longer;
        SimulatedPlan {
            simulated_s: step.step_time_s,
            likely,
            mfu: step.mfu / longer,
            tokens_per_s_per_device: tokens_per_s / f64::from(inputs.machine.devices()),
            tokens_per_s,
            sequences: inputs.workload.value.batch.global,
            memory_bytes: step.memory.get("hbm").map(|tier| tier.peak_bytes),
            capacity_bytes: device.hbm.as_ref().map(|hbm| hbm.gb * 1e9),
            cost: step.cost.clone().map(|cost| cost.of_longer_step(longer)),
            layout: layout(inputs),
        }
    }

    /// Seconds of the step: likely, or else simulated.
    pub fn step_s(&self) -> f64 {
        self.likely.estimate_s.unwrap_or(self.simulated_s)
    }

    /// Minutes, hours or days of a run of `tokens` tokens, in words.
    pub fn days(&self, tokens: f64) -> String {
        let seconds = tokens / self.tokens_per_s;
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
        let usd = tokens / 1e6 * self.cost.as_ref()?.usd_per_million_tokens?;
        Some(format!("{usd:.0} ${}", self.between(usd, 0)))
    }

    /// The range of what takes `value` at the likely step.
    fn between(&self, value: f64, digits: usize) -> String {
        self.likely.range_s.map_or(String::new(), |ends| {
            let [low, high] = ends.map(|end_s| value * end_s / self.step_s());
            format!(" ({low:.digits$} to {high:.digits$})")
        })
    }

    /// The tokens of a run of whole steps; one sequence a sample. `None` where the run's length is not known.
    pub fn tokens_of(&self, length: &RunLength) -> Option<f64> {
        let steps_of = |samples: f64| (samples * length.epochs.unwrap_or(1.0) / self.sequences as f64).ceil();
        let steps = length.steps.or(length.samples.map(steps_of))?;
        Some(steps * self.step_s() * self.tokens_per_s)
    }

    /// The time of a run of `tokens` tokens, and its cost where devices state a price.
    pub fn whole_run(&self, tokens: f64) -> String {
        let dollars = self.dollars(tokens).map_or(String::new(), |dollars| format!(", {dollars}"));
        format!("  the whole run    {tokens:.3e} tokens: {}{dollars}\n", self.days(tokens))
    }

    /// The step with documents of two lengths in place of the unknown ones of packed sequences; empty where they are
    /// known.
    pub fn packed(plan: &RunPlan) -> String {
        let Some(sequence) = plan.workload["sequence"]
            .as_u64()
            .filter(|_| plan.not_understood.iter().any(|word| word.contains("documents.lengths by --set")))
        else {
            return String::new();
        };
        let step_of = |length: u64| {
            let set = format!("documents.lengths=[{length}]");
            let sets = [plan.machine_sets.as_slice(), &[set]].concat();
            let inputs = Inputs::load(&plan.workload.to_string(), Some(&plan.on), &sets).ok()?;
            let step = glanced(&inputs, &Options::default()).ok()?;
            Some(format!("{:.4} s with documents of {length} tokens", step.step_time_s))
        };
        let steps: Vec<String> = [(sequence / 8).max(1), sequence].into_iter().filter_map(step_of).collect();
        let set = format!("--set 'documents.lengths=[{}]'", (sequence / 8).max(1));
        format!("  packed           {}; their lengths give the range: {set}\n", steps.join(", "))
    }

    /// The outcome as text.
    pub fn text(&self) -> String {
        let mut out = format!("  layout           {}\n", self.layout);
        out += &format!("  step             {}\n", self.likely.words);
        out += &format!(
            "  MFU              {:.1} %, {:.0} tokens/s a device\n",
            100.0 * self.mfu,
            self.tokens_per_s_per_device
        );
        if let Some(bytes) = self.memory_bytes {
            let of = self.capacity_bytes.map_or(String::new(), |all| format!(" of {:.1}", all / GIB));
            out += &format!("  memory           {:.1}{of} GiB on the fullest device\n", bytes as f64 / GIB);
        }
        if let Some(cost) = &self.cost {
            let price = match cost.usd_per_million_tokens {
                None => "; in dollars with --set topology.device.price_USD_per_h=2.5",
                Some(_) => "",
            };
            out += &format!("  cost             {}{price}\n", cost.words());
        }
        out
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
    let sharding = words(serde_json::to_value(p.sharding.kind));
    let recompute = words(serde_json::to_value(workload.recompute.granularity));
    parts.push(format!("sharding {sharding}, recomputation {recompute}"));
    parts.join(", ")
}

/// The likely step, or why none is known.
fn likely(plan: &RunPlan, inputs: &Inputs, step_s: f64) -> LikelyTime {
    let is_open = |path: &str| plan.workload.pointer(&format!("/{}", path.replace('.', "/"))).is_none();
    let open = plan.open.iter().filter(|(_, path, _)| is_open(path)).map(|(_, path, values)| (path, values));
    let accuracy = Accuracy::of(inputs, step_s, &Circumstances::default()).left_open(inputs, open);
    let only_limits = plan.limits.first().map(|limit| format!("range not known: {limit}"));
    let most = if only_limits.is_some() { "at most " } else { "" };
    match (doubts(plan).or(only_limits), accuracy.range()) {
        (None, Some(range)) => LikelyTime {
            words: accuracy.words(step_s),
            estimate_s: Some(range.estimate_s),
            range_s: Some(range.range_s),
        },
        (doubts, _) => {
            let why = doubts.unwrap_or_else(|| accuracy.words(step_s));
            LikelyTime { words: format!("{most}{step_s:.4} s; {why}"), ..LikelyTime::default() }
        }
    }
}

/// Why no range can be told: words that change the step and have no counterpart, or a format in which nothing was
/// measured.
fn doubts(plan: &RunPlan) -> Option<String> {
    let compute = plan.workload.pointer("/precision/compute").and_then(serde_json::Value::as_str);
    let narrow = plan.workload.pointer("/precision/recipe").is_some_and(|recipe| !recipe.is_null());
    if compute == Some("fp32") && !narrow {
        let said = plan.fields.iter().any(|field| {
            field.origin.from == ValueClass::Stated
                && field.path.split(", ").any(|path| path == "precision.compute")
        });
        let why = if said {
            "is fp32"
        } else {
            "that the files name is none, so that their software computes in fp32"
        };
        return Some(format!(
            "range not known: the format {why}, in which nothing was measured (--set precision.compute=bf16)"
        ));
    }
    let first = plan.not_understood.first()?;
    let more = match plan.not_understood.len() {
        1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    Some(format!("range not known: {first}{more} may change the step and is not in it"))
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
    let does = |data: &u64| {
        let ranks = data.saturating_mul(stage);
        let devices = ranks.saturating_mul(stages);
        let whole_nodes = devices <= NODE || devices.is_multiple_of(NODE);
        whole_nodes
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
