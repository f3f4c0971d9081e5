//! What holds of every step that the checks took.

use std::panic::{AssertUnwindSafe, catch_unwind};

use stepsim::core::engine::EngineError;
use stepsim::form::compare::Comparison;
use stepsim::form::compare::workload::{closed_form, compare};
use stepsim::plan::step::{Plan, PlanError};
use stepsim::read::analysis::report::{Extent, Report};
use stepsim::simulate::jump::figures;
use stepsim::simulate::{Inputs, Options, Simulation, SimulationError};
use stepsim::spec::SpecError;
use stepsim::spec::workload::ExpertBalance;

use super::super::read::Sums;
use super::ranges::Document;
use super::{changes, otherwise};
use crate::messages::check_messages;

/// Ops up to which a step is played, and up to which it is played unfolded.
const OPS: u64 = 300_000;
/// Passes of layers up to which a step is planned whose ranks all differ.
const PASSES: u64 = 200_000;
const ROUNDING: f64 = 1e-6;
/// Of fused attention's backward pass all but the scores made once more is counted: four products of five.
const COUNTED: f64 = 0.8;

/// What became of a draw.
pub enum Outcome {
    /// Played; the closed form over the simulation, where there is one.
    Played { form: Option<f64> },
    /// The step does not fit in memory.
    Full,
    /// It has more ops than are played here.
    Large,
    /// The checks refuse what stands at this place.
    Refused(String),
}

/// Plays a draw and holds all laws on it, with a number also those of changes.
///
/// # Errors
/// The law that it breaks.
pub fn held(document: &Document, changed: Option<usize>) -> Result<Outcome, String> {
    caught(|| match simulated(document)? {
        Ok((inputs, run)) => played(document, &inputs, &run, changed),
        Err(outcome) => Ok(outcome),
    })
}

/// Plays a draw alone.
///
/// # Errors
/// It is neither played nor refused as it should be.
pub fn plays(document: &Document) -> Result<Outcome, String> {
    caught(|| Ok(simulated(document)?.err().unwrap_or(Outcome::Played { form: None })))
}

fn caught(judged: impl FnOnce() -> Result<Outcome, String>) -> Result<Outcome, String> {
    catch_unwind(AssertUnwindSafe(judged)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

fn simulated(document: &Document) -> Result<Result<(Inputs, Simulation), Outcome>, String> {
    let inputs = match document.inputs() {
        Ok(inputs) => inputs,
        Err(refused) => return says_what_to_do(&refused).map(Err),
    };
    if passes_that_differ(&inputs) > PASSES {
        return Ok(Err(Outcome::Large));
    }
    let options = Options { record_bytes: 16 * OPS, ..Options::default() };
    let unplayed = match Simulation::run(&inputs, &options) {
        Ok(run) => return Ok(Ok((inputs, run))),
        Err(unplayed) => unplayed,
    };
    match unplayed {
        SimulationError::Engine(EngineError::OutOfMemory { .. }) => {
            let plan = inputs.plan().map_err(|e| format!("planned once, and then not: {e}"))?;
            conserved(&inputs, &plan)?;
            Ok(Err(Outcome::Full))
        }
        SimulationError::Engine(EngineError::Limit { .. }) => Ok(Err(Outcome::Large)),
        e @ (SimulationError::Engine(_) | SimulationError::Impossible(_)) => Err(format!("played: {e}")),
        SimulationError::Spec(e) | SimulationError::Plan(PlanError::Spec(e)) => says_what_to_do(&e).map(Err),
        SimulationError::Plan(e) => Err(format!("refused without a place: {e}")),
    }
}

/// Passes of layers that no other rank has alike: where documents, images or loads of experts differ from rank to rank
/// nothing is folded, and the plan alone may fill the machine's memory (8 GB of 1.8e8 ops, of some 90 a pass).
fn passes_that_differ(inputs: &Inputs) -> u64 {
    let w = &inputs.workload.value;
    let micro_batches = w.batch.global / w.batch.micro_batch;
    let cut = w.parallelism.tensor * w.parallelism.context.size;
    let even = matches!(w.expert_load.balance, ExpertBalance::Even | ExpertBalance::Factor);
    let differ = w.documents.is_some() || w.has_uneven_images() || !even;
    if differ { 2 * micro_batches * cut * inputs.model.layers } else { 0 }
}

/// The closed form beside the step as played; none where it has too many ops, too little memory, or is refused.
pub fn compared(document: &Document) -> Option<Comparison> {
    let inputs = document.inputs().ok()?;
    let options = Options { record_bytes: 16 * OPS, ..Options::default() };
    Simulation::run(&inputs, &options).ok()?;
    Some(compare(&inputs, &mut |_| {}).ok()?.0)
}

/// A refusal names a place, and what is allowed there or what to do.
pub fn says_what_to_do(refused: &SpecError) -> Result<Outcome, String> {
    if refused.path.is_empty() {
        return Err(format!("refused without a place: {refused}"));
    }
    if refused.allowed.is_empty() && refused.hint.is_empty() {
        return Err(format!("refused without saying what to do: {refused}"));
    }
    Ok(Outcome::Refused(refused.path.clone()))
}

fn played(
    document: &Document,
    inputs: &Inputs,
    run: &Simulation,
    changed: Option<usize>,
) -> Result<Outcome, String> {
    let report = run.report(false);
    if let Some(figure) = report.impossible() {
        return Err(format!("impossible: {figure}"));
    }
    for (hfu, mfu) in [(report.hfu, report.mfu), (report.hfu_causal, report.mfu_causal)] {
        if hfu < mfu * (1.0 - ROUNDING) {
            return Err(format!("HFU {hfu} is less than MFU {mfu}"));
        }
    }
    let end = run.record.step_end;
    let short = figures(inputs, &Options::default(), false).map_err(|e| format!("figures alone: {e}"))?;
    if short.step_end != end {
        return Err(format!("with turns jumped {}, without {end}", short.step_end));
    }
    if run.plan.world.op_instances() <= OPS {
        let options = Options { fold: false, jump: false, ..Options::default() };
        let whole = figures(inputs, &options, false).map_err(|e| format!("unfolded: {e}"))?;
        if whole.step_end != end {
            return Err(format!("folded {end}, unfolded {}", whole.step_end));
        }
        conserved(inputs, &run.plan)?;
        otherwise::held(document, inputs, end)?;
        if let Some(number) = changed {
            whole_tells(inputs, &report)?;
            changes::held(document, run, end, number)?;
        }
    }
    check_messages(&document.command, &inputs.machine);
    let form = closed_form(inputs).map_err(|e| format!("closed form: {e}"))?;
    if form.floor * (1.0 - ROUNDING) > end.s() {
        return Err(format!("{end} is shorter than its floor of {} s", form.floor));
    }
    let total = form.terms.total();
    if !total.is_finite() {
        return Err(format!("closed form: {total} s"));
    }
    Ok(Outcome::Played { form: claims_all(inputs).then(|| total / end.s()) })
}

/// Where the time went is the same whether ranks are folded or not, name by name, and on every stage.
fn whole_tells(inputs: &Inputs, folded: &Report) -> Result<(), String> {
    let options = Options { fold: false, jump: false, ..Options::default() };
    let whole = Simulation::run(inputs, &options).map_err(|e| format!("unfolded: {e}"))?;
    let whole = whole.read(Extent::Screen, false);
    let times = |report: &Report| {
        let of_stages = report.stages.iter().map(|stage| stage.time.clone());
        std::iter::once(report.mean.clone()).chain(of_stages).collect::<Vec<_>>()
    };
    match times(folded).into_iter().zip(times(&whole)).find(|(a, b)| a != b) {
        Some((a, b)) => Err(format!("the time went folded {a:?} and unfolded {b:?}")),
        None => Ok(()),
    }
}

/// What is taken is given back, what is counted of the model is executed beside what is repeated, and what is repeated
/// sends what it sent.
fn conserved(inputs: &Inputs, plan: &Plan) -> Result<(), String> {
    let sums = Sums::of(plan);
    if let Some((place, left)) = sums.left.iter().find(|(_, left)| **left != 0) {
        return Err(format!("{place:?} keeps {left} bytes"));
    }
    let [fused, others] = sums.mixing;
    let executed = plan.hardware_flops as f64 - sums.repeated - fused * (1.0 - COUNTED);
    let model = plan.model_flops.model_causal;
    if executed < model * (1.0 - ROUNDING) {
        return Err(format!("{executed} FLOPs are executed of {model} that are counted"));
    }
    let mixed = others + fused * COUNTED + plan.skipped_flops as f64;
    let model = plan.model_flops.mixing;
    if mixed < model * (1.0 - ROUNDING) {
        return Err(format!("{mixed} FLOPs mix tokens, {model} are counted"));
    }
    sums.sent_again(&inputs.workload.value)
}

/// Whether the step has nothing that the closed form leaves out on purpose: noise.
fn claims_all(inputs: &Inputs) -> bool {
    inputs.workload.value.noise == Default::default()
}
