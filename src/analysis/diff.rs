//! Two reports side by side: what changed, and by how much.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::report::Report;
use super::stalls::StallCause;

/// What unit a line of a comparison has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
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
    /// What it is.
    pub what: String,
    /// In which unit.
    pub unit: Unit,
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

/// Compares two reports line by line: headline, where the time went, exposed communication, memory peaks.
pub fn diff(a: &Report, b: &Report) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = |what: String, unit: Unit, a: f64, b: f64| {
        if a != 0.0 || b != 0.0 {
            lines.push(Line { what, unit, a, b });
        }
    };
    line("step time".into(), Unit::Seconds, a.step_time_s, b.step_time_s);
    line("tokens/s".into(), Unit::TokensPerSecond, a.tokens_per_s, b.tokens_per_s);
    line("MFU".into(), Unit::Fraction, a.mfu, b.mfu);
    line("HFU".into(), Unit::Fraction, a.hfu, b.hfu);
    line("devices".into(), Unit::Count, a.devices as f64, b.devices as f64);
    line("ops".into(), Unit::Count, a.ops as f64, b.ops as f64);
    line("compute".into(), Unit::Seconds, a.mean.busy_s, b.mean.busy_s);
    for cause in StallCause::ALL {
        let of = |r: &Report| r.mean.stalls_s.get(&cause).copied().unwrap_or(0.0);
        line(format!("stall: {}", cause.name()), Unit::Seconds, of(a), of(b));
    }
    let kinds: BTreeSet<_> = a.communication.keys().chain(b.communication.keys()).collect();
    for kind in kinds {
        let of = |r: &Report| r.communication.get(kind).cloned().unwrap_or_default();
        let (x, y) = (of(a), of(b));
        line(format!("{} exposed", kind.words()), Unit::Seconds, x.exposed_s, y.exposed_s);
        line(format!("{} under kernels", kind.words()), Unit::Seconds, x.under_kernels_s, y.under_kernels_s);
        line(format!("{} bytes", kind.words()), Unit::Bytes, x.bytes, y.bytes);
    }
    let tiers: BTreeSet<_> = a.memory.keys().chain(b.memory.keys()).collect();
    for tier in tiers {
        let of = |r: &Report| r.memory.get(tier).map_or(0.0, |t| t.peak_bytes as f64);
        line(format!("{tier} peak"), Unit::Bytes, of(a), of(b));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::report::tests::of_random;

    #[test]
    fn a_report_does_not_differ_from_itself() {
        let r = of_random(5, |_| 1);
        assert!(diff(&r, &r).iter().all(|l| l.change() == 0.0));
    }

    /// The parts of the mean breakdown account for the whole change of the step time.
    #[test]
    fn changes_of_the_parts_sum_to_the_change_of_the_step() {
        let (a, b) = (of_random(5, |_| 1), of_random(8, |_| 3));
        let lines = diff(&a, &b);
        let is_part = |l: &&Line| l.what == "compute" || l.what.starts_with("stall: ");
        let parts: f64 = lines.iter().filter(is_part).map(Line::change).sum();
        assert!(a.step_time_s != b.step_time_s);
        assert!((parts - lines[0].change()).abs() <= 1e-12 * a.step_time_s.max(b.step_time_s));
    }
}
