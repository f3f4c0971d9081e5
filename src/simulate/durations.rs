//! Steps replayed with the measured time of each part, and with parts of them evened out.
//!
//! Even is: each computing part at the mean of its name over all steps, replicas, stages and micro-batches, each
//! communicating one at the median (its mean holds rare hang-ups), no launch delays (as arXiv 2505.05713). The
//! slowdown by a class of work, a stage or a replica compares a step in which it alone is as measured and all else is
//! even with the even step; its cost compares the step as measured with the step in which it alone is evened out.

use std::collections::BTreeMap;

use stepsim_core::engine::{self, EngineError};
use stepsim_core::units::Time;
use stepsim_plan::pipeline::durations::{Durations, PASSES, StartGroup, StepDurations};
use stepsim_plan::pipeline::measured_world;
use stepsim_schedule::Order;

/// Steps replayed.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct Replays {
    /// Each step.
    pub steps: Vec<ReplayedStep>,
    /// A step in which all parts are even.
    pub even: f64,
    /// Mean of the steps without launch delays, over the even step.
    pub slowdown: f64,
    /// By class of work, stage and replica, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub what_ifs: Vec<ReplayChange>,
}

/// A step replayed, in the unit of its file.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ReplayedStep {
    /// Which.
    pub name: String,
    /// How long it really was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<f64>,
    /// How long it is with the times of its parts.
    pub replayed: f64,
    /// And without launch delays.
    pub without_delays: f64,
}

/// A class of work, a stage or a replica.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize)]
pub struct ReplayChange {
    /// `class forward`, `stage 3`, `replica 0`.
    pub what: String,
    /// Step with it as measured and all else even, over the even step: mean of the steps.
    pub slowdown: f64,
    /// Step as measured over the step with it alone even: mean of the steps.
    pub cost: f64,
}

/// A part: its name and (replica, stage, micro-batch) or (replica, rank).
type Pick<'a> = dyn Fn(&str, &[u32]) -> bool + 'a;

/// Replays all steps of a file that fits the order ([`Durations::check`]).
///
/// # Errors
/// The order cannot run.
pub fn replay(order: &Order, durations: &Durations, what_ifs: bool) -> Result<Replays, EngineError> {
    let job = ReplayJob { order, durations, even: even(durations, order) };
    let even = job.play(&durations.steps[0], false, &|_, _| false)?;
    let mut out = Replays { even, ..Replays::default() };
    for step in &durations.steps {
        out.steps.push(ReplayedStep {
            name: step.name.clone(),
            measured: step.measured,
            replayed: job.play(step, true, &|_, _| true)?,
            without_delays: job.play(step, false, &|_, _| true)?,
        });
    }
    let count = durations.steps.len() as f64;
    let positive = even.max(f64::MIN_POSITIVE);
    out.slowdown = out.steps.iter().map(|s| s.without_delays).sum::<f64>() / count / positive;
    if what_ifs {
        for (what, pick) in job.subjects() {
            let (mut alone, mut cost) = (0.0, 0.0);
            for (step, whole) in durations.steps.iter().zip(&out.steps) {
                alone += job.play(step, false, &*pick)?;
                let without = job.play(step, false, &|name, place| !pick(name, place))?;
                cost += whole.without_delays / without.max(f64::MIN_POSITIVE);
            }
            out.what_ifs.push(ReplayChange { what, slowdown: alone / count / positive, cost: cost / count });
        }
    }
    Ok(out)
}

struct ReplayJob<'a> {
    order: &'a Order,
    durations: &'a Durations,
    even: BTreeMap<String, f64>,
}

impl ReplayJob<'_> {
    /// The length of a step in which the parts that `measured` picks take their own time and all others are even.
    fn play(&self, step: &StepDurations, delays: bool, measured: &Pick) -> Result<f64, EngineError> {
        let time = |name: &str, place: &[u32], delay: bool| {
            let lists = if delay { &step.delays } else { &step.times };
            let own = lists.get(name)?.of(place)?;
            match delay {
                true => delays.then(|| Time::from_s(own)),
                false if measured(name, place) => Some(Time::from_s(own)),
                false => self.even.get(name).map(|t| Time::from_s(*t)),
            }
        };
        Ok(engine::run(&measured_world(self.order, self.durations, &time))?.step_end.s())
    }

    /// Classes of work, stages, replicas: each with what belongs to it.
    fn subjects(&self) -> Vec<(String, Box<Pick<'static>>)> {
        let mut list: Vec<(String, Box<Pick<'static>>)> = Vec::new();
        for name in self.even.keys().cloned() {
            list.push((format!("class {name}"), Box::new(move |n, _| n == name)));
        }
        let chunks = self.order.placement.parts();
        if chunks == 1 && self.durations.stages > 1 {
            for stage in 0..self.durations.stages {
                list.push((format!("stage {stage}"), Box::new(move |_, place| place[1] == stage)));
            }
        }
        if self.durations.replicas > 1 {
            for replica in 0..self.durations.replicas {
                list.push((format!("replica {replica}"), Box::new(move |_, place| place[0] == replica)));
            }
        }
        list
    }
}

/// The even time of each name.
fn even(durations: &Durations, order: &Order) -> BTreeMap<String, f64> {
    let around: BTreeMap<&str, StartGroup> =
        durations.before.iter().chain(&durations.after).map(|a| (a.name.as_str(), a.group)).collect();
    let names = PASSES.into_iter().chain(around.keys().copied());
    let stages = order.placement.parts() * durations.stages;
    let even = |name: &str| {
        let passes = PASSES.contains(&name);
        let places =
            (0..durations.replicas).flat_map(|d| (0..stages).map(move |p| (d, p))).flat_map(|(d, p)| {
                let micro_batches = if passes { 0..durations.micro_batches } else { 0..1 };
                micro_batches.map(move |m| [d, p, m])
            });
        let places: Vec<[u32; 3]> = places.collect();
        let dimensions = if passes { 3 } else { 2 };
        let of_step = |step: &StepDurations| -> Vec<f64> {
            let times = step.times.get(name);
            times.map_or(Vec::new(), |t| places.iter().filter_map(|p| t.of(&p[..dimensions])).collect())
        };
        let mut all: Vec<f64> = durations.steps.iter().flat_map(of_step).collect();
        all.sort_by(f64::total_cmp);
        let communicates =
            name.starts_with("send") || around.get(name).is_some_and(|g| *g != StartGroup::Alone);
        let value = match (all.len(), communicates) {
            (0, _) => return None,
            (n, false) => all.iter().sum::<f64>() / n as f64,
            (n, true) => (all[(n - 1) / 2] + all[n / 2]) / 2.0,
        };
        Some((name.to_string(), value))
    };
    names.filter_map(even).collect()
}
