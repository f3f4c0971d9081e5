//! Two reports side by side: what changed, and by how much.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kind::OpKind;
use super::report::{Breakdown, Report};
use super::stalls::StallCause;
use super::waterfall_report::BarsReport;

/// What unit a line of a comparison has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Tokens per second.
    TokensPerSecond,
    /// A fraction of one.
    Fraction,
    /// A number.
    Count,
}

/// One quantity in both reports; zero where a report does not have it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Line {
    /// What it belongs to: `step`, `mean of a rank`, `from peak to MFU`, `communication`, `kernels`, `memory`, `stage 3`,
    /// `layers`.
    pub section: String,
    /// What it is.
    pub what: String,
    /// In which unit.
    pub unit: Measure,
    /// In the first report.
    pub a: f64,
    /// In the second.
    pub b: f64,
}

impl Line {
    /// Second less first.
    pub fn change(&self) -> f64 {
        self.b - self.a
    }
}

/// The lines of a comparison, section by section.
#[derive(Debug, Default)]
pub(super) struct Lines {
    section: String,
    /// So far.
    pub(super) lines: Vec<Line>,
}

impl Lines {
    pub(super) fn section(&mut self, name: impl Into<String>) {
        self.section = name.into();
    }
    /// A quantity; left out where neither has it.
    pub(super) fn add(&mut self, what: impl Into<String>, unit: Measure, a: f64, b: f64) {
        if a != 0.0 || b != 0.0 {
            self.lines.push(Line { section: self.section.clone(), what: what.into(), unit, a, b });
        }
    }
    /// Quantities by name.
    pub(super) fn all(&mut self, unit: Measure, a: &BTreeMap<String, f64>, b: &BTreeMap<String, f64>) {
        let names: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
        for name in names {
            let of = |m: &BTreeMap<String, f64>| m.get(name).copied().unwrap_or(0.0);
            self.add(name, unit, of(a), of(b));
        }
    }
}

/// Compares two reports line by line: headline, where the time went, the way from the peak to MFU, communication, kernels
/// by class, memory peaks, then stages and layers where both have as many.
pub fn diff(a: &Report, b: &Report) -> Vec<Line> {
    let mut lines = Lines::default();
    lines.section("step");
    lines.add("step time", Measure::Seconds, a.step_time_s, b.step_time_s);
    lines.add("tokens/s", Measure::TokensPerSecond, a.tokens_per_s, b.tokens_per_s);
    lines.add("MFU", Measure::Fraction, a.mfu, b.mfu);
    lines.add("HFU", Measure::Fraction, a.hfu, b.hfu);
    lines.add("devices", Measure::Count, a.devices as f64, b.devices as f64);
    lines.add("ops", Measure::Count, a.ops as f64, b.ops as f64);
    lines.section("mean of a rank");
    breakdown(&mut lines, &a.mean, &b.mean);
    lines.section("from peak to MFU");
    let bars = |r: &Report| r.waterfall.as_ref().map_or_else(BTreeMap::new, |w| bars(&w.mean));
    lines.all(Measure::Fraction, &bars(a), &bars(b));
    lines.section("communication");
    communication(&mut lines, a, b);
    lines.section("kernels");
    let kernels = |r: &Report| r.kernels.iter().map(|k| (k.class.name().to_string(), k.time_s)).collect();
    lines.all(Measure::Seconds, &kernels(a), &kernels(b));
    lines.section("memory");
    let peaks =
        |r: &Report| r.memory.iter().map(|(tier, t)| (format!("{tier} peak"), t.peak_bytes as f64)).collect();
    lines.all(Measure::Bytes, &peaks(a), &peaks(b));
    if a.stages.len() == b.stages.len() && a.stages.len() > 1 {
        for (x, y) in a.stages.iter().zip(&b.stages) {
            lines.section(format!("stage {}", x.stage));
            breakdown(&mut lines, &x.time, &y.time);
        }
    }
    if a.layers.len() == b.layers.len() {
        lines.section("layers");
        lines.all(Measure::Seconds, &layers(a), &layers(b));
    }
    lines.lines
}

fn breakdown(lines: &mut Lines, a: &Breakdown, b: &Breakdown) {
    lines.add("compute", Measure::Seconds, a.busy_s, b.busy_s);
    for cause in StallCause::ALL {
        let of = |t: &Breakdown| t.stalls_s.get(&cause).copied().unwrap_or(0.0);
        lines.add(format!("stall: {}", cause.name()), Measure::Seconds, of(a), of(b));
    }
}

/// The bars by group, what and part; the peak itself is left out.
fn bars(of: &BarsReport) -> BTreeMap<String, f64> {
    let name = |b: &super::waterfall_report::BarReport| {
        [&b.group, &b.what, &b.part]
            .into_iter()
            .filter(|s| !s.is_empty())
            .cloned()
            .collect::<Vec<_>>()
            .join(": ")
    };
    of.bars.iter().map(|b| (name(b), b.share)).collect()
}

fn communication(lines: &mut Lines, a: &Report, b: &Report) {
    let kinds: BTreeSet<&OpKind> = a.communication.keys().chain(b.communication.keys()).collect();
    for kind in kinds {
        let of = |r: &Report| r.communication.get(kind).cloned().unwrap_or_default();
        let (x, y) = (of(a), of(b));
        lines.add(format!("{} exposed", kind.words()), Measure::Seconds, x.exposed_s, y.exposed_s);
        lines.add(
            format!("{} under kernels", kind.words()),
            Measure::Seconds,
            x.under_kernels_s,
            y.under_kernels_s,
        );
        lines.add(format!("{} bytes", kind.words()), Measure::Bytes, x.bytes, y.bytes);
    }
}

fn layers(r: &Report) -> BTreeMap<String, f64> {
    let of_layer = |l: &super::layers::LayerReport| {
        let name = l.layer.map_or("no layer".to_string(), |n| format!("layer {n:>3}"));
        let kinds: Vec<_> =
            l.by_kind_s.iter().map(|(kind, s)| (format!("{name}: {}", kind.name()), *s)).collect();
        kinds
    };
    r.layers.iter().flat_map(of_layer).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read::analysis::report::tests::of_random;

    #[test]
    fn a_report_does_not_differ_from_itself() {
        let r = of_random(5, |_| 1);
        assert!(diff(&r, &r).iter().all(|l| l.change() == 0.0));
    }

    /// The parts of a breakdown account for the whole change of the step time, on the mean and on every stage.
    #[test]
    fn changes_of_the_parts_sum_to_the_change_of_the_step() {
        let (a, b) = (of_random(5, |_| 1), of_random(8, |_| 3));
        let lines = diff(&a, &b);
        let step = lines[0].change();
        assert!(a.step_time_s != b.step_time_s);
        let sections: BTreeSet<&str> = lines.iter().map(|l| l.section.as_str()).collect();
        for section in sections.into_iter().filter(|s| *s == "mean of a rank" || s.starts_with("stage")) {
            let parts: f64 = lines.iter().filter(|l| l.section == section).map(Line::change).sum();
            assert!((parts - step).abs() <= 1e-12 * a.step_time_s.max(b.step_time_s), "{section}");
        }
    }
}
