//! The step of a plan: how long, how well, how much, and what to do next.

use super::run_plan::RunPlan;
use stepsim_core::ids::DeviceId;
use stepsim_measure::score::Bands;
use stepsim_read::analysis::report::{CostReport, Report};
use stepsim_simulate::jump::glanced;
use stepsim_simulate::{Inputs, Options, SimulationError};
use stepsim_step::spec::SpecError;

const GIB: f64 = (1u64 << 30) as f64;

/// A simulated plan.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Seconds of the step.
    pub step_s: f64,
    /// How long comparable measured steps were, in words.
    pub range: String,
    /// Model FLOP utilisation.
    pub mfu: f64,
    /// Tokens per second and device.
    pub tokens_per_s_per_device: f64,
    /// The fullest device memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// Device memory, in bytes.
    pub capacity_bytes: Option<f64>,
    /// Dollars and energy, where devices state a price or their power.
    pub cost: Option<CostReport>,
    /// Degrees, batch, sharding and recomputation, in words.
    pub layout: String,
}

impl Planned {
    /// Simulates a run.
    ///
    /// # Errors
    /// Workload and machine do not fit, or the step cannot be played.
    pub fn of(plan: &RunPlan) -> Result<Planned, SimulationError> {
        let text = plan.workload.to_string();
        let inputs = Inputs::load(&text, Some(&plan.on), &plan.machine_sets).map_err(|e| named(e, plan))?;
        let step = glanced(&inputs, &Options::default())?;
        Ok(Planned::of_step(&inputs, &step))
    }

    /// What a plan says of a step that was played.
    pub fn of_step(inputs: &Inputs, step: &Report) -> Planned {
        let device = inputs.machine.device(DeviceId(0));
        Planned {
            step_s: step.step_time_s,
            range: Bands::shipped().range(inputs, step.step_time_s),
            mfu: step.mfu,
            tokens_per_s_per_device: step.tokens_per_s / f64::from(inputs.machine.devices()),
            memory_bytes: step.memory.get("hbm").map(|tier| tier.peak_bytes),
            capacity_bytes: device.hbm.as_ref().map(|hbm| hbm.gb * 1e9),
            cost: step.cost.clone(),
            layout: layout(inputs),
        }
    }

    /// The outcome as text.
    pub fn text(&self) -> String {
        let mut out = format!("  layout           {}\n", self.layout);
        out += &format!("  step             {:.4} s; {}\n", self.step_s, self.range);
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

/// Names the file in an error, and what may help where degrees do not fit the machine.
fn named(error: SpecError, plan: &RunPlan) -> SpecError {
    let mut error = SpecError { file: plan.name.clone(), ..error };
    if error.path.starts_with("parallelism") {
        let search = format!(
            "another machine, or another layout: stepsim plan {} --on {} --search",
            plan.name, plan.on
        );
        error.hint = if error.hint.is_empty() { search } else { format!("{}; {search}", error.hint) };
    }
    error
}
