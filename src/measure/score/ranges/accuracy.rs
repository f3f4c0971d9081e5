//! The range of a step, and what is said of it.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::evidence::NoEvidence;
use super::fold::Fold;
use super::measured_step::MeasuredStep;
use super::measured_steps::MeasuredSteps;
use super::open_facts::{OpenFact, moved, open_facts};
use super::spread::DeviationSpread;
use super::traits::{StepTraits, generation, has_rates};
use stepsim_core::ids::DeviceId;
use stepsim_read::analysis::answer::{Answer, digits};
use stepsim_read::analysis::report::Report;
use stepsim_simulate::Inputs;
use stepsim_spec::Device;
use stepsim_spec::workload::{Dtype, WorkloadSpec};

/// Software that is named where none is said.
pub const NAMED: usize = 2;
/// A measured step is like the step if it weighs at least so much of the nearest.
const ALIKE: f64 = 0.2;

/// How long a step likely is.
#[derive(Clone, Debug, PartialEq)]
pub struct StepRange {
    /// The middle: the likely time of the step.
    pub estimate_s: f64,
    /// Four in five steps like it lie between these.
    pub range_s: [f64; 2],
    /// Nine in ten do between these.
    pub nine_in_ten_s: [f64; 2],
    /// Measured steps like it.
    pub steps: usize,
    /// Sources of these.
    pub sources: usize,
    /// The nearest of them.
    pub nearest: Vec<String>,
    /// The largest part of its time in which one of them ran communication of one kind under kernels.
    pub most_hidden: Option<f64>,
    /// Facts that the workload leaves open, which the range covers.
    pub open: Vec<OpenFact>,
}

/// Measured steps like a simulated one say this of it.
#[derive(Clone, Debug, PartialEq)]
pub enum Accuracy {
    /// Its range.
    Range(StepRange),
    /// Nothing like it was measured.
    Unknown(NoEvidence),
    /// Its software has no name; these stacks were measured on its device.
    NoSoftware(Vec<String>),
}

impl Accuracy {
    /// The accuracy of a step that takes `step_s`, with the facts that its workload leaves open.
    pub fn of(inputs: &Inputs, step_s: f64) -> Accuracy {
        let Some(traits) = StepTraits::of(inputs) else {
            return Accuracy::of_any_stack(inputs, step_s);
        };
        match MeasuredSteps::shipped().accuracy(&traits, step_s, None) {
            Accuracy::Range(range) => Accuracy::Range(range.covering(open_facts(inputs, &traits.stack))),
            other => other,
        }
    }

    /// With fields that a description leaves open, each with what it may be beside what is simulated.
    pub fn left_open<'a>(
        self,
        inputs: &Inputs,
        open: impl Iterator<Item = (&'a String, &'a Vec<Value>)>,
    ) -> Accuracy {
        match self {
            Accuracy::Range(range) => {
                let facts = open.filter_map(|(path, values)| {
                    let values: Vec<String> = values.iter().map(Value::to_string).collect();
                    OpenFact::of(inputs, path, "as simulated", values.iter().map(String::as_str))
                });
                Accuracy::Range(range.covering(facts.collect()))
            }
            other => other,
        }
    }

    /// Of a step whose software nobody says: it is played with each stack that was measured most on its device.
    fn of_any_stack(inputs: &Inputs, step_s: f64) -> Accuracy {
        let measured = MeasuredSteps::shipped();
        let stacks = measured.stacks_on(inputs.machine.device(DeviceId(0)));
        let played = stacks.iter().filter_map(|stack| {
            let (other, factor) = moved(inputs, format!("stack={stack}"))?;
            let accuracy = measured.accuracy(&StepTraits::of(&other)?, factor * step_s, None);
            Some((accuracy.range()?.clone(), (stack.clone(), factor)))
        });
        let (mut ranges, values): (Vec<StepRange>, Vec<(String, f64)>) = played.unzip();
        ranges.sort_by(|a, b| a.estimate_s.total_cmp(&b.estimate_s));
        let over = |of: fn(&StepRange) -> [f64; 2]| {
            ranges
                .iter()
                .map(of)
                .fold([f64::INFINITY, 0.0], |all, one| [all[0].min(one[0]), all[1].max(one[1])])
        };
        let [range_s, nine_in_ten_s] = [over(|range| range.range_s), over(|range| range.nine_in_ten_s)];
        if ranges.is_empty() {
            return Accuracy::NoSoftware(stacks);
        }
        let middle = ranges.swap_remove(ranges.len() / 2);
        let open = vec![OpenFact { path: "stack".to_owned(), values }];
        Accuracy::Range(StepRange { range_s, nine_in_ten_s, open, ..middle })
    }

    /// With what the reading of the workload left open.
    pub fn as_read(inputs: &Inputs, step_s: f64) -> Accuracy {
        let reading = &inputs.workload.value.reading;
        let open = reading.open.iter().filter(|open| !is_set(&open.path, &inputs.workload.sets));
        let open = open.map(|open| (&open.path, &open.values));
        Accuracy::of(inputs, step_s).left_open(inputs, open)
    }

    /// The range, where there is one.
    pub fn range(&self) -> Option<&StepRange> {
        match self {
            Accuracy::Range(range) => Some(range),
            _ => None,
        }
    }

    /// The range in words, with what it rests on; or why there is none.
    pub fn words(&self, step_s: f64) -> String {
        match self {
            Accuracy::Range(range) => range.words(step_s),
            Accuracy::Unknown(missing) => format!("not known: {}", missing.words()),
            Accuracy::NoSoftware(stacks) => {
                let name = match stacks.split_last() {
                    None => "name it: `stepsim list stacks`".to_owned(),
                    Some((last, [])) => format!("name it: --set stack={last} (measured there)"),
                    Some((last, others)) => {
                        format!("name it: --set stack={} or {last} (measured there)", others.join(", "))
                    }
                };
                format!("not known; fused kernels and free launches (no `stack`) bound no real step; {name}")
            }
        }
    }
}

impl StepRange {
    /// The range that covers each value of facts that are left open.
    pub fn covering(mut self, open: Vec<OpenFact>) -> StepRange {
        for fact in &open {
            let factors = fact.values.iter().map(|(_, factor)| *factor);
            for range in [&mut self.range_s, &mut self.nine_in_ten_s] {
                range[0] *= factors.clone().fold(1.0, f64::min);
                range[1] *= factors.clone().fold(1.0, f64::max);
            }
        }
        self.open.extend(open);
        self
    }

    /// The range, and what it rests on.
    pub fn words(&self, step_s: f64) -> String {
        let steps = if self.steps == 1 { "step" } else { "steps" };
        let sources =
            if self.sources == 1 { "one source".into() } else { format!("{} sources", self.sources) };
        format!(
            "{} s (four in five of {} measured {steps} like it, {sources}; nearest {})",
            range_in_words(self.range_s),
            self.steps,
            self.nearest.join(", "),
        ) + &self.open.iter().map(|fact| fact.words(step_s)).collect::<String>()
    }
}

impl MeasuredSteps {
    /// The accuracy of a step with these traits that takes `step_s`, by all measured steps but those of a source.
    pub fn accuracy(&self, traits: &StepTraits, step_s: f64, without: Option<&str>) -> Accuracy {
        let others = Fold::Source.others(&self.steps, without.unwrap_or_default(), traits);
        self.accuracy_by(&others, traits, step_s)
    }

    /// The same by some of the measured steps.
    pub(super) fn accuracy_by(&self, steps: &[&MeasuredStep], traits: &StepTraits, step_s: f64) -> Accuracy {
        let spread = match DeviationSpread::known(traits, steps) {
            Ok(spread) => spread,
            Err(missing) => return Accuracy::Unknown(missing),
        };
        let mut weighed: Vec<(f64, &MeasuredStep)> =
            steps.iter().map(|step| (traits.likeness(&step.traits), *step)).collect();
        weighed.sort_by(|a, b| b.0.total_cmp(&a.0));
        let nearest = weighed.iter().take(1).map(|(_, step)| step.id.clone()).collect();
        let alike = weighed.iter().take_while(|(weight, _)| *weight >= ALIKE * spread.nearest);
        let alike: Vec<_> = alike.map(|(_, step)| *step).collect();
        // In whole nanoseconds: the last digit of an exponential is not the same on every machine.
        let at = |logarithm: f64| (1e9 * step_s * logarithm.exp()).round() / 1e9;
        let between = |[below, above]: [f64; 2]| {
            [at(spread.middle - below * spread.below), at(spread.middle + above * spread.above)]
        };
        Accuracy::Range(StepRange {
            estimate_s: at(spread.middle),
            range_s: between(self.widths.of_class(spread.class())),
            nine_in_ten_s: between(self.widths.of_nine_in_ten(spread.class())),
            steps: alike.len(),
            sources: alike.iter().map(|step| &step.source).collect::<BTreeSet<_>>().len(),
            most_hidden: alike.iter().filter_map(|step| step.hidden).reduce(f64::max),
            nearest,
            open: Vec::new(),
        })
    }

    /// What stands behind the range of a step on a device, in words.
    pub fn behind(&self, device: &Device) -> String {
        let on_it: Vec<&MeasuredStep> =
            self.steps.iter().filter(|step| step.traits.device == device.name).collect();
        let sources = on_it.iter().map(|step| &step.source).collect::<BTreeSet<_>>().len();
        let generation = generation(device);
        let beside = self.steps.iter().any(|step| step.traits.generation == generation);
        match on_it.len() {
            0 if has_rates(device) && beside => "no measured step, but on others of its generation".into(),
            0 => "no measured step: no range".into(),
            steps => format!("measured steps: {steps} (sources: {sources})"),
        }
    }

    /// The stacks that most sources measured on a device, or else on others of its generation: the first, and each
    /// with more than half as many sources.
    fn stacks_on(&self, device: &Device) -> Vec<String> {
        let generation = generation(device);
        let same = |step: &&MeasuredStep| step.traits.device == device.name;
        let alike = |step: &&MeasuredStep| step.traits.generation == generation;
        let measured_there = self.steps.iter().any(|step| same(&step));
        let mut here: BTreeMap<&str, (BTreeSet<&str>, usize)> = BTreeMap::new();
        for step in self.steps.iter().filter(|step| if measured_there { same(step) } else { alike(step) }) {
            let (sources, steps) = here.entry(&step.traits.stack).or_default();
            sources.insert(&step.source);
            *steps += 1;
        }
        let mut stacks: Vec<&str> = here.keys().copied().collect();
        stacks.sort_by_key(|stack| std::cmp::Reverse((here[stack].0.len(), here[stack].1)));
        let most = stacks.first().map_or(0, |first| here[first].0.len());
        stacks.retain(|stack| 2 * here[stack].0.len() > most);
        stacks.into_iter().take(NAMED).map(str::to_string).collect()
    }
}

impl OpenFact {
    /// The step by each value, and the field that would settle it.
    fn words(&self, step_s: f64) -> String {
        let values = self.values.iter().map(|(value, factor)| format!("{value} {}", digits(factor * step_s)));
        format!("; tell `{}`: {} s", self.path, values.collect::<Vec<_>>().join(", "))
    }
}

/// A range of seconds: `12.4 to 14.8`.
pub fn range_in_words([low, high]: [f64; 2]) -> String {
    format!("{} to {}", digits(low), digits(high))
}

/// How sure a step is: its range with what it rests on or why there is none, and the doubts of its reading.
pub fn known(inputs: &Inputs, step_time_s: f64) -> Answer {
    let doubts = doubts(&inputs.workload.value, &inputs.workload.sets);
    let accuracy = Accuracy::as_read(inputs, step_time_s);
    let range_s = accuracy.range().filter(|_| doubts.is_empty()).map(|range| range.range_s);
    let range = match doubts.as_slice() {
        [] => accuracy.words(step_time_s),
        [one] => format!("not known: {one}"),
        [first, more @ ..] => format!("not known: {first}; and {} more doubts", more.len()),
    };
    Answer { step_time_s, range_s, range, doubts, ..Answer::default() }
}

/// A report that says how sure its step is.
pub fn told(inputs: &Inputs, report: Report) -> Report {
    Report { answer: known(inputs, report.step_time_s), ..report }.answered()
}

/// Why no range can be told of a workload: words that change the step and are not in it, words that only limit it, or
/// a format in which nothing was measured.
fn doubts(w: &WorkloadSpec, sets: &[String]) -> Vec<String> {
    let narrow = w.precision.recipe.is_some();
    let format = (w.precision.compute == Dtype::Fp32 && !narrow).then(|| {
        "its format is fp32, in which nothing was measured (--set precision.compute=bf16)".to_owned()
    });
    let lost = w.reading.not_understood.iter().filter(|words| !is_settled(words, sets));
    let lost = lost.map(|words| format!("{words} may change the step and is not in it"));
    let limits = w.reading.at_most.iter().map(|words| format!("the step takes at most so long: {words}"));
    format.into_iter().chain(lost).chain(limits).collect()
}

/// True if a setting says the field that words name as their remedy (`documents.lengths by --set`).
fn is_settled(words: &str, sets: &[String]) -> bool {
    let before = words.split_once(" by --set").and_then(|(before, _)| before.rsplit([' ', '(']).next());
    before.is_some_and(|path| is_set(path, sets))
}

/// True if a setting says a field or an object around it.
fn is_set(path: &str, sets: &[String]) -> bool {
    let of =
        |set: &String| set.split_once('=').is_some_and(|(set, _)| path.strip_prefix(set).is_some_and(ends));
    sets.iter().any(of)
}

fn ends(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}
