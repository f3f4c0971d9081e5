//! One measured workload as prices: the factors of its parts, found by playing it, as settings that any run takes.

use super::anchor::{Anchor, AnchorRow, BOUND, PartSeconds, StepPart, parts};
use super::learned::slower;
use super::outcome::kernels;
use stepsim_core::kernel_class::KernelClass;
use stepsim_simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim_spec::SpecError;

/// A played step that is so near, as a share, is near enough.
const NEAR: f64 = 2e-3;

/// Factors of a measured step.
#[derive(Clone, Debug)]
pub struct StepFactors {
    /// The step as it is simulated without them.
    pub simulated_s: f64,
    /// And with them.
    pub settled_s: f64,
    /// Seconds of each part without them.
    pub parts: PartSeconds,
    /// The factors.
    pub anchor: Anchor,
    /// Settings that give them.
    pub sets: Vec<String>,
}

/// Why there are no factors.
#[derive(Debug)]
pub enum NoFactors {
    /// The workload cannot be read.
    Spec(SpecError),
    /// It cannot be played.
    Run(SimulationError),
    /// No likely factors give the measured time: what was played is not what was measured.
    Implausible {
        /// The step as it is simulated.
        simulated_s: f64,
        /// Between which seconds it plausibly is.
        plausible: [f64; 2],
    },
}

/// All classes of kernels, the host and all collectives, slower by the factors of their parts.
pub fn settings(factors: [f64; 4], inputs: &Inputs) -> Vec<String> {
    let of = |part: StepPart| factors[part as usize];
    let kernels = |class: KernelClass| of(StepPart::of_kernels(class));
    slower(inputs, 1e4, kernels, of(StepPart::Host), of(StepPart::Exchange))
}

/// Seconds of a step, and of each of its parts.
///
/// # Errors
/// It cannot be played.
pub fn played(inputs: &Inputs) -> Result<(f64, PartSeconds), SimulationError> {
    let run = Simulation::run(inputs, &Options::default())?;
    let mean = run.report(false).mean;
    let step_s = run.record.step_end.s();
    Ok((step_s, parts(step_s, &kernels(&run), &mean.stalls_s, mean.busy_s)))
}

/// The factors with which a workload takes the measured seconds, if they are plausible. `load` reads the workload
/// under settings. Exposed time grows more or less than its factor does, so all factors are raised to the one
/// power with which the played step takes what they were found to give.
///
/// # Errors
/// [`NoFactors`].
pub fn settle(
    load: &dyn Fn(&[String]) -> Result<Inputs, SpecError>,
    measured_s: &[f64],
) -> Result<StepFactors, NoFactors> {
    let inputs = load(&[]).map_err(NoFactors::Spec)?;
    let (simulated_s, first) = played(&inputs).map_err(NoFactors::Run)?;
    let given = |parts: PartSeconds| -> Vec<AnchorRow> {
        measured_s.iter().map(|measured_s| AnchorRow { parts, measured_s: *measured_s }).collect()
    };
    let mut anchor = Anchor::fit(&given(first), 0.0);
    if anchor.z.abs() > Anchor::IMPLAUSIBLE {
        return Err(NoFactors::Implausible { simulated_s, plausible: Anchor::plausible(&first) });
    }
    let target = anchor.seconds(&first);
    let (factors, settled_s) = along(load, &inputs, anchor.factors, simulated_s, target)?;
    anchor.factors = factors;
    let sets = settings(anchor.factors, &inputs);
    Ok(StepFactors { simulated_s, settled_s, parts: first, anchor, sets })
}

/// The power of factors with which the step takes `target` seconds, by halving, and what it then takes.
fn along(
    load: &dyn Fn(&[String]) -> Result<Inputs, SpecError>,
    inputs: &Inputs,
    factors: [f64; 4],
    simulated_s: f64,
    target: f64,
) -> Result<([f64; 4], f64), NoFactors> {
    let (mut low, mut high, mut power) = (0.0, 2.0, 1.0);
    let mut best = ([1.0; 4], simulated_s);
    for _ in 0..8 {
        let at = factors.map(|f| f.powf(power).clamp(1.0 / BOUND, BOUND));
        let with = load(&settings(at, inputs)).map_err(NoFactors::Spec)?;
        let (seconds, _) = played(&with).map_err(NoFactors::Run)?;
        let off = |s: f64| (s / target).ln().abs();
        if off(seconds) < off(best.1) {
            best = (at, seconds);
        }
        if off(seconds) < NEAR {
            break;
        }
        let far = (seconds > target) == (target > simulated_s);
        *(if far { &mut high } else { &mut low }) = power;
        power = f64::midpoint(low, high);
    }
    Ok(best)
}
