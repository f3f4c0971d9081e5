//! The simulated layouts that are worth measuring, and what each of them bets on.
//!
//! A search takes the least of many simulated times, so it finds those that are too short by mistake: what hides more
//! communication under kernels than any measured step like it is not first where a layout as good does not, and beside
//! the first stand two that differ from it in kind: whatever the first bets on, they do not. How full a device is does
//! not lengthen a step (docs/developers/accuracy.md).

use schemars::JsonSchema;
use serde::Serialize;

use super::base::StudyBase;
use super::candidates::{SimulatedLayout, capacity};
use super::measure_words::measure_words;
use super::objective::{Measures, Objective};
use super::otherwise::{Depth, answer};
use stepsim_measure::score::ranges::{Accuracy, LayoutKind, StepTraits, most_hidden, three_unlike, told};
use stepsim_read::analysis::answer::Answer;
use stepsim_read::analysis::report::Report;
use stepsim_simulate::Options;

/// A layout with what measured steps say of it.
pub(super) struct WeighedLayout {
    /// The layout.
    pub of: SimulatedLayout,
    kind: Option<LayoutKind>,
    /// Part of device memory that it fills.
    memory: Option<f64>,
    /// Less is better.
    score: f64,
}

impl WeighedLayout {
    /// A simulated layout with its range.
    pub fn new(base: &StudyBase, of: SimulatedLayout, objective: Objective) -> WeighedLayout {
        let inputs = base.inputs(&of.candidate.sets).ok();
        let memory = inputs.as_ref().and_then(capacity).map(|capacity| of.found.memory_bytes / capacity);
        let kind = inputs.map(|inputs| LayoutKind::of(&inputs.workload.value));
        let score = of.found.score(objective);
        WeighedLayout { of, kind, memory, score }
    }

    /// True if it hides more communication than any measured step like it.
    fn bets_beyond(&self, base: &StudyBase) -> bool {
        let beyond = || {
            let inputs = base.inputs(&self.of.candidate.sets).ok()?;
            let accuracy = Accuracy::of(&inputs, self.of.found.seconds);
            let measured = accuracy.range()?.most_hidden?;
            let report = self.of.candidate.report(base)?;
            let (_, seconds) = most_hidden(report)?;
            Some(seconds / report.run_time_s > measured)
        };
        beyond().unwrap_or(false)
    }

    /// The advice about it, with its answer; what could be otherwise is played where it is `asked`. `None` where its step
    /// has no report.
    pub fn advice(&self, base: &StudyBase, asked: bool) -> Option<Advice> {
        let inputs = base.inputs(&self.of.candidate.sets).ok()?;
        let report = self.of.candidate.report(base)?.clone();
        let report = match asked {
            true => answer(&inputs, &Options::default(), report, Depth::Answer).ok()?,
            false => told(&inputs, report),
        };
        let accuracy = Accuracy::as_read(&inputs, report.step_time_s);
        Some(Advice {
            bets_on: bets_on(&report, accuracy.range().and_then(|range| range.most_hidden)),
            answer: report.answer,
            memory_share: self.memory,
            measure: StepTraits::of(&inputs)
                .and_then(|traits| measure_words(&traits.stack, &inputs.workload.value)),
        })
    }
}

/// Why a layout with a shorter step is not first.
pub(super) fn behind(found: Measures, first: Measures, tight: bool) -> &'static str {
    match tight && found.memory_bytes > first.memory_bytes {
        true => "leaves less memory free",
        false => "hides more communication than any measured step like it",
    }
}

/// A layout that needs no bet is first where it costs at most this part more.
const AS_GOOD: f64 = 0.02;

/// Layouts as good as the first whose bets are looked at.
const LOOKED_AT: usize = 8;

/// Sorts layouts by their score. Of those as good as the first, one without a bet beyond what was measured comes
/// first, and in `tight` memory the one that leaves most of it free. The places of the first and of two of other kinds.
pub(super) fn sorted(base: &StudyBase, weighed: &mut [WeighedLayout], tight: bool) -> Vec<usize> {
    weighed.sort_by(|a, b| a.score.total_cmp(&b.score));
    let most = weighed.first().map_or(0.0, |first| (1.0 + AS_GOOD) * first.score);
    let as_good = weighed.iter().take_while(|layout| layout.score <= most).take(LOOKED_AT).count();
    let as_good = &mut weighed[..as_good];
    if tight {
        as_good.sort_by(|a, b| a.of.found.memory_bytes.total_cmp(&b.of.found.memory_bytes));
    }
    if let Some(at) = as_good.iter().position(|layout| !layout.bets_beyond(base)) {
        weighed[..=at].rotate_right(1);
    }
    three_unlike(&weighed.iter().map(|layout| layout.kind).collect::<Vec<_>>())
}

/// Why a layout is worth measuring, and how far to trust it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Advice {
    /// The answer about its step.
    pub answer: Answer,
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
    /// One line each: its range, what it hangs on, its memory, what it bets on, and how to measure it.
    pub fn lines(&self) -> Vec<String> {
        let memory = self
            .memory_share
            .map(|share| format!("memory {:.0} % full, {:.0} % left", 100.0 * share, 100.0 * (1.0 - share)));
        let hangs_on = self.answer.halves().next().map(|_| self.answer.hangs_on.clone());
        [Some(format!("range {}", self.answer.range)), hangs_on, memory]
            .into_iter()
            .flatten()
            .chain(self.risk())
            .collect()
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
