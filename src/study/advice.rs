//! The simulated layouts that are worth measuring, and what each of them bets on.
//!
//! A search takes the least of many simulated times, so it finds those that are too short by mistake. Layouts are
//! therefore ranked by the upper end of their range, which a full device lengthens, and beside the first stand two
//! that differ from it in kind: whatever the first bets on, they do not.

use schemars::JsonSchema;
use serde::Serialize;

use super::base::StudyBase;
use super::candidates::{SimulatedLayout, capacity};
use super::likely::LikelyTime;
use super::measure_words::measure_words;
use super::objective::{Measures, Objective};
use stepsim_measure::score::outcome::slots;
use stepsim_measure::score::ranges::{
    Accuracy, Circumstances, FULL, LayoutKind, MeasuredSteps, StepTraits, cost_of, most_hidden, three_unlike,
};
use stepsim_read::analysis::report::Report;
use stepsim_simulate::Options;
use stepsim_simulate::jump::reported;

/// A layout with what measured steps say of it.
pub(super) struct WeighedLayout {
    /// The layout.
    pub of: SimulatedLayout,
    kind: Option<LayoutKind>,
    /// Part of device memory that it fills.
    memory: Option<f64>,
    /// Less is better: what it costs at the upper end of its range.
    cost: f64,
}

impl WeighedLayout {
    /// A simulated layout with its range.
    pub fn new(base: &StudyBase, of: SimulatedLayout, objective: Objective) -> WeighedLayout {
        let inputs = base.inputs(&of.candidate.sets).ok();
        let memory = inputs.as_ref().and_then(capacity).map(|capacity| of.found.memory_bytes / capacity);
        let measured = MeasuredSteps::shipped();
        let traits = inputs.as_ref().and_then(StepTraits::of);
        let accuracy =
            traits.map(|traits| measured.accuracy(&traits, of.found.seconds, &Circumstances::default()));
        let range = accuracy.as_ref().and_then(Accuracy::range);
        // Without software of a name nothing but the step is known.
        let slots = inputs.as_ref().map_or(1, slots);
        let seconds = range.map_or(of.found.seconds, |range| cost_of(range.range_s[1], memory, slots));
        let kind = inputs.map(|inputs| LayoutKind::of(&inputs.workload.value));
        let cost = Measures { seconds, ..of.found }.score(objective);
        WeighedLayout { of, kind, memory, cost }
    }

    /// The advice about it; `None` where its step has no report.
    pub fn advice(&self, base: &StudyBase) -> Option<Advice> {
        let inputs = base.inputs(&self.of.candidate.sets).ok()?;
        let report = reported(&inputs, &Options::default()).ok()?;
        let accuracy = Accuracy::of(&inputs, self.of.found.seconds, &Circumstances::default());
        let range = accuracy.range();
        Some(Advice {
            estimate_s: range.map(|range| range.estimate_s),
            range_s: range.map(|range| range.range_s),
            accuracy: accuracy.words(self.of.found.seconds),
            memory_share: self.memory,
            measure: StepTraits::of(&inputs)
                .and_then(|traits| measure_words(&traits.stack, &inputs.workload.value)),
            bets_on: bets_on(&report, range.and_then(|range| range.most_hidden)),
        })
    }
}

/// Sorts layouts by what they cost at the upper end of their ranges; the places of the first and of two of other kinds.
pub(super) fn sorted(weighed: &mut [WeighedLayout]) -> Vec<usize> {
    weighed.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let costs: Vec<(Option<LayoutKind>, f64)> = weighed.iter().map(|w| (w.kind, w.cost)).collect();
    three_unlike(&costs)
}

/// Why a layout is worth measuring, and how far to trust it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Advice {
    /// The likely time of the step, by the measured steps that are like it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate_s: Option<f64>,
    /// Four in five steps like it lie between these two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range_s: Option<[f64; 2]>,
    /// Both in words.
    pub accuracy: String,
    /// Part of device memory that it fills.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_share: Option<f64>,
    /// The overlap that has to go right for the step to be as short.
    pub bets_on: String,
    /// Words that give a run of the software this layout and ten steps, where they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measure: Option<String>,
}

impl Advice {
    /// One line each: its step, its memory, what it bets on, and how to measure it.
    pub fn lines(&self) -> Vec<String> {
        let memory = self.memory_share.map(|share| {
            let full = if share > FULL { ": so full a device gives memory back and asks again" } else { "" };
            format!("memory {:.0} % full, {:.0} % left{full}", 100.0 * share, 100.0 * (1.0 - share))
        });
        [Some(self.accuracy.clone()), memory].into_iter().flatten().chain(self.risk()).collect()
    }

    /// The time of its step.
    pub fn likely(&self) -> LikelyTime {
        let Advice { accuracy, estimate_s, range_s, .. } = self;
        LikelyTime { words: accuracy.clone(), estimate_s: *estimate_s, range_s: *range_s }
    }

    /// Its bets, and how to measure it: a line each.
    pub fn risk(&self) -> Vec<String> {
        let measure = self.measure.as_ref().map(|words| format!("measure ten steps: {words}"));
        std::iter::once(format!("bets on {}", self.bets_on)).chain(measure).collect()
    }
}

/// The communication that a step hides under its kernels most, beside the most that a measured step like it hid.
fn bets_on(report: &Report, measured: Option<f64>) -> String {
    let Some((kind, seconds)) = most_hidden(report) else {
        return "no communication that kernels have to hide".into();
    };
    let beside = measured.map_or(String::new(), |most| {
        let than = if most < seconds / report.run_time_s {
            "no measured step like it hid more than"
        } else {
            "measured steps like it hid up to"
        };
        format!("; {than} {:.0} %", 100.0 * most)
    });
    format!(
        "{seconds:.3} s of {} communication hidden under kernels, {:.0} % of the step{beside}",
        kind.name(),
        100.0 * seconds / report.run_time_s
    )
}
