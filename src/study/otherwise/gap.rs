//! Explanations of a gap between two times of one step: possible faults of the run, and other settings, each played.
//! The better the factor of one fits the factor of the gap, the earlier it stands.
//!
//! Only factors are compared, so that an error of the simulated step does not count. One thing at a time: a gap that
//! two things made is nearest to the larger of them.

use std::sync::OnceLock;

use serde::Serialize;

use super::choices;
use super::idea::{Idea, Remedy};
use super::step::{BaseStep, Depth};
use stepsim_core::pool;
use stepsim_form::compare::Estimators;
use stepsim_read::analysis::candidates::{Candidate, CandidateKind};
use stepsim_read::analysis::report::Report;
use stepsim_simulate::jump::glanced;
use stepsim_simulate::whatif::{Change, StageLevels, Subject};
use stepsim_simulate::{Inputs, Options, SimulationError, StepCache};
use stepsim_spec::{Kind, catalog};

/// An explanation has at least this part of the gap, on a scale of factors.
const PART: f64 = 0.5;

/// A step is as another where the factor between them is less than this part of the gap, on a scale of factors.
const NEAR: f64 = 0.35;

/// How fast a step is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MeasuredSpeed {
    /// Seconds of a step.
    Seconds(f64),
    /// FLOPs of the model, a second and device.
    Flops(f64),
    /// Of the peak, as a share.
    Mfu(f64),
    /// Tokens, a second and device.
    Tokens(f64),
}

impl MeasuredSpeed {
    fn seconds(self, inputs: &Inputs, report: &Report) -> f64 {
        let (step_s, devices) = (report.step_time_s, f64::from(inputs.machine.devices()));
        match self {
            MeasuredSpeed::Seconds(s) => s,
            MeasuredSpeed::Flops(rate) => step_s * report.mfu * inputs.peak().0 / rate,
            MeasuredSpeed::Mfu(share) => step_s * report.mfu / share,
            MeasuredSpeed::Tokens(rate) => step_s * report.tokens_per_s / devices / rate,
        }
    }
}

/// A gap and what explains it.
#[derive(Clone, Debug, Serialize)]
pub struct GapExplanation {
    /// The step as it is described.
    pub simulated_s: f64,
    /// As it was measured.
    pub measured_s: f64,
    /// As it should be.
    pub reference_s: f64,
    /// The number of ideas that were played.
    pub played: usize,
    /// The ideas that explain half of it or more, the best first.
    pub explained_by: Vec<Explanation>,
}

/// Something that makes a step slower or faster by about the factor of the gap.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// What, and what it is otherwise.
    pub what: String,
    /// Settings that give it; empty where it is no field.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sets: Vec<String>,
    /// The step with it.
    pub step_s: f64,
    /// True if the step is slower with it: a fault that is not described. Otherwise something described is slow.
    pub slower: bool,
    /// The factor between the described step and this one, above 1.
    pub times: f64,
}

impl GapExplanation {
    /// The factor of the gap.
    pub fn times(&self) -> f64 {
        self.measured_s / self.reference_s
    }
    /// True if its explanations make the described step slower, since the step takes its described time, or faster,
    /// since it takes the measured one; `None` where it takes neither.
    pub fn side(&self) -> Option<bool> {
        let near = |seconds: f64| (self.simulated_s / seconds).ln().abs() < NEAR * self.times().ln();
        match (near(self.reference_s), near(self.measured_s)) {
            (true, _) => Some(true),
            (_, true) => Some(false),
            _ => None,
        }
    }
}

/// Explanations why a step is as fast as `measured` and not as `reference`, by default its simulated time.
///
/// # Errors
/// The step cannot be played.
pub fn gap(
    inputs: &Inputs,
    options: &Options,
    measured: MeasuredSpeed,
    reference: Option<MeasuredSpeed>,
) -> Result<GapExplanation, SimulationError> {
    let report = glanced(inputs, options)?;
    let seconds = |speed: MeasuredSpeed| speed.seconds(inputs, &report);
    let step = BaseStep {
        inputs,
        options,
        report: &report,
        depth: Depth::All,
        levels: OnceLock::from(StageLevels::default()),
        common: StepCache::default(),
        forms: Estimators::default(),
    };
    let ideas: Vec<Idea> = wrong(inputs).into_iter().chain(choices::of(inputs)).collect();
    let played = pool::all(ideas.len(), pool::threads(None), &|i| step.played(&ideas[i]));
    let simulated_s = report.step_time_s;
    let mut gap = GapExplanation {
        simulated_s,
        measured_s: seconds(measured),
        reference_s: reference.map_or(simulated_s, seconds),
        played: ideas.len(),
        explained_by: played.into_iter().flatten().map(|c| explanation(c, simulated_s)).collect(),
    };
    let (times, side) = (gap.times().ln(), gap.side());
    // A described fault cannot be why a step takes longer than described.
    gap.explained_by.retain(|e| side.is_none_or(|side| e.slower == side) && e.times.ln() >= PART * times);
    gap.explained_by.sort_by(|a, b| (a.times.ln() - times).abs().total_cmp(&(b.times.ln() - times).abs()));
    Ok(gap)
}

fn explanation(candidate: Candidate, simulated_s: f64) -> Explanation {
    let times = candidate.step_s / simulated_s;
    Explanation {
        what: format!("{}: {}", candidate.what, candidate.otherwise),
        sets: candidate.sets,
        step_s: candidate.step_s,
        slower: times > 1.0,
        times: times.max(1.0 / times),
    }
}

/// Frequent faults of a run that stand in no script: rates of devices, links, hosts, settings that did not take.
fn wrong(inputs: &Inputs) -> Vec<Idea> {
    let mut ideas = Vec::new();
    let mut slower = |what: &str, otherwise: &str, subject: Subject, factor: f64| {
        let way = Remedy::Without(Change { subject, factor });
        ideas.push(Idea::of(CandidateKind::Fault, what, otherwise, way));
    };
    slower("one device", "at half of its clock", Subject::Ranks(0, 0), 0.5);
    slower("all devices", "at two thirds of their clock (power, heat)", Subject::Matrix, 2.0 / 3.0);
    slower("the hosts", "three times as slow (few cores, logging, checks)", Subject::Host, 1.0 / 3.0);
    for class in inputs.topology.value.link_classes() {
        for (part, why) in
            [(2, "shared, or half as wide"), (8, "one for eight"), (20, "another way than it should")]
        {
            let otherwise = format!("1/{part} of its rate ({why})");
            slower(&class, &otherwise, Subject::Links(class.clone()), 1.0 / f64::from(part));
        }
    }
    let set =
        |what: &str, otherwise: &str, sets: &[&str]| Idea::set(CandidateKind::Fault, what, otherwise, sets);
    ideas.extend([
        set("attention", "no flash kernel", &["model.attention.kernel=standard"]),
        set("format", "fp32", &["precision.compute=fp32", "precision.recipe=null"]),
        set("format", "the narrow one did not take", &["precision.recipe=null"]),
        set("recomputation", "full", &["recompute={\"granularity\":\"full\"}"]),
        set("launches", "one at a time (CUDA_LAUNCH_BLOCKING)", &["stack.host.blocking=true"]),
        set(
            "overlap of data parallel",
            "none",
            &["gradient_buckets.overlap=false", "gradient_buckets.overlap_weight_gather=false"],
        ),
        set("experts", "the fullest has twice the mean", &["expert_load.max_over_mean=2"]),
    ]);
    ideas.extend(catalog::names(Kind::Stack).map(|name| set("software", name, &[&format!("stack={name}")])));
    ideas
}
