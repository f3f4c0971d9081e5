//! Where the time of a mean rank went, and its longest stalls.

use std::fmt::Write;

use super::{Breakdown, RankTime, StallCause};
use crate::analysis::cells::{SMALL, bar, grouped};
use crate::analysis::reading::{Lines, Measure, PageContents, Reading, Report, Run, Sheet};
use crate::analysis::report::RankInfo;
use crate::analysis::run::RankReading;
use crate::analysis::shown::{self};
use crate::page::sheet::{bars, key, seconds};
use stepsim_core::units::{PS_PER_S, Time};

/// Kernels, and why the compute stream stood still: the mean of all ranks.
pub struct TimeWent;

impl Reading for TimeWent {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        report.mean = mean(&run.ranks, run.info.ranks, |_| true);
    }

    /// Bars, longest first; the kernels' bar leads.
    fn table(&self, r: &Report, out: &mut String, width: u16) {
        let step = r.run_time_s.max(f64::MIN_POSITIVE);
        let _ = writeln!(
            out,
            "\nWhere the time went (mean of {} ranks, % of the step)",
            grouped(r.classes.ranks)
        );
        let mut rows = vec![("compute".to_string(), r.mean.busy_s)];
        if r.mean.slowed_by_memory_s > 0.0 {
            rows.push(("  of it held up by device memory".to_string(), r.mean.slowed_by_memory_s));
        }
        let (large, small): (Vec<_>, Vec<_>) = r.mean.stalls_s.iter().partition(|s| *s.1 >= SMALL * step);
        let mut large: Vec<_> = large.into_iter().map(|(cause, s)| (with_column(*cause), *s)).collect();
        large.sort_by(|a, b| b.1.total_cmp(&a.1));
        rows.extend(large);
        let rest: f64 = small.iter().map(|s| s.1).sum();
        if rest > 0.0 {
            rows.push(("other stalls".to_string(), rest));
        }
        let bar_width = usize::from(width).saturating_sub(62).clamp(10, 50);
        for (name, s) in rows {
            let bar = bar(s / step, bar_width);
            let _ = writeln!(
                out,
                "  {name:<36} {bar:<bar_width$} {:>5.1} %  {}",
                100.0 * s / step,
                Time::from_s(s)
            );
        }
    }

    fn page(&self, report: &Report, _: &PageContents, sheet: &mut Sheet) {
        sheet.section("Where the time went", "Kernels, then why the compute stream stood still.", |out| {
            let entries = chart_key(report);
            key(out, entries.iter().map(|(class, name)| (class.clone(), name.as_str())));
            out.push_str(&chart(report));
        });
    }

    fn compare(&self, a: &Report, b: &Report, lines: &mut Lines) {
        lines.section("mean of a rank");
        compare(lines, &a.mean, &b.mean);
    }
}

/// The longest waits of ranks, on the page alone.
pub struct LongestStalls;

impl Reading for LongestStalls {
    fn page(&self, report: &Report, shown: &PageContents, sheet: &mut Sheet) {
        let note = "By the op that ranks waited for: the mean of the ranks drawn, and the times of all. A press shows \
                    the longest of its kind in the drawing above.";
        sheet.section("Longest stalls", note, |out| {
            shown::longest(out, ["waited for", "cause"], &shown.stalls, report.run_time_s);
        });
    }
}

/// The mean of the ranks that `wanted` picks by stage, each as often as it stands for.
pub(crate) fn mean(readings: &[RankReading], ranks: &[RankInfo], wanted: impl Fn(u32) -> bool) -> Breakdown {
    let (mut busy, mut slowed, mut stalls, mut count) = (0u128, 0u128, [0u128; StallCause::COUNT], 0u128);
    for (reading, info) in readings.iter().zip(ranks).filter(|(_, info)| wanted(info.stage)) {
        let weight = info.members.len() as u128;
        count += weight;
        busy += weight * u128::from(reading.time.busy.0);
        slowed += weight * u128::from(reading.time.slowed_by_memory.0);
        for (sum, stall) in stalls.iter_mut().zip(reading.time.stalls) {
            *sum += weight * u128::from(stall.0);
        }
    }
    let seconds = |sum: u128| sum as f64 / count.max(1) as f64 / PS_PER_S;
    let present = StallCause::ALL.into_iter().zip(stalls).filter(|s| s.1 > 0);
    Breakdown {
        busy_s: seconds(busy),
        slowed_by_memory_s: seconds(slowed),
        stalls_s: present.map(|(cause, sum)| (cause, seconds(sum))).collect(),
    }
}

pub(crate) fn breakdown(time: &RankTime) -> Breakdown {
    let present = StallCause::ALL.into_iter().map(|c| (c, time.stall(c))).filter(|s| s.1 > Time::ZERO);
    Breakdown {
        busy_s: time.busy.s(),
        slowed_by_memory_s: time.slowed_by_memory.s(),
        stalls_s: present.map(|(cause, t)| (cause, t.s())).collect(),
    }
}

/// The lines of both.
pub(crate) fn compare(lines: &mut Lines, a: &Breakdown, b: &Breakdown) {
    lines.add("compute", Measure::Seconds, a.busy_s, b.busy_s);
    for cause in StallCause::ALL {
        let of = |t: &Breakdown| t.stalls_s.get(&cause).copied().unwrap_or(0.0);
        lines.add(format!("stall: {}", cause.name()), Measure::Seconds, of(a), of(b));
    }
}

/// The name of a cause with the head of its column in the table by stage.
fn with_column(cause: StallCause) -> String {
    match (cause.name(), cause.short()) {
        (name, short) if name.contains(short) => name.to_string(),
        (name, short) => format!("{name} ({short})"),
    }
}

/// Where the time of each stage went.
fn chart(report: &Report) -> String {
    let step = report.run_time_s;
    let percent = |s: f64| format!("{} ({:.1} %)", seconds(s), 100.0 * s / step);
    let line = |name: String, time: &Breakdown| {
        let mut parts = vec![("busy".to_owned(), time.busy_s, format!("kernels: {}", percent(time.busy_s)))];
        for (cause, s) in &time.stalls_s {
            parts.push((format!("s{}", *cause as usize), *s, format!("{}: {}", cause.name(), percent(*s))));
        }
        (name, parts, format!("{:.1} % busy", 100.0 * time.busy_s / step))
    };
    let mut lines = vec![line("mean of all ranks".to_owned(), &report.mean)];
    if report.stages.len() > 1 {
        lines.extend(report.stages.iter().map(|stage| line(format!("stage {}", stage.stage), &stage.time)));
    }
    bars("breakdown", "where the time went", step, &lines)
}

/// The meaning of the colours of [`chart`], by class, with the share of each in the mean of all ranks; of causes, the
/// visible ones.
fn chart_key(report: &Report) -> Vec<(String, String)> {
    let percent = |s: f64| 100.0 * s / report.run_time_s;
    let named = |class: String, name: &str, s: f64| (class, format!("{name} {:.1} %", percent(s)));
    let causes = report.mean.stalls_s.iter().filter(|(_, s)| percent(**s) >= 0.05);
    let causes = causes.map(|(cause, s)| named(format!("s{}", *cause as usize), cause.name(), *s));
    [named("busy".to_owned(), "kernels", report.mean.busy_s)].into_iter().chain(causes).collect()
}
