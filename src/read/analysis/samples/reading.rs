//! The reading of samples; who plays them puts it into the report.

use std::fmt::Write;

use super::OnPath;
use crate::analysis::cells::{MOST_LINKS, MOST_ROWS, bar, grouped, new_table, percent, write_list};
use crate::analysis::reading::{Reading, ReadingContext, Report};
use stepsim_core::units::Time;

/// The distribution of step times, and who was on the critical path.
pub struct Samples;

impl Reading for Samples {
    fn table(&self, r: &Report, out: &mut String, width: u16) {
        let Some(s) = &r.samples else { return };
        let last = s.seed.saturating_add(s.count.saturating_sub(1));
        let _ = writeln!(out, "\nStep times of {} samples (seeds {} to {last})", grouped(s.count), s.seed);
        let time = |name: &str, seconds: f64| format!("{name} {}", Time::from_s(seconds));
        let items = [
            time("mean", s.mean_s),
            format!("cv {:.2} %", s.cv * 100.0),
            time("min", s.min_s),
            time("p5", s.p5_s),
            time("p50", s.p50_s),
            time("p95", s.p95_s),
            time("p99", s.p99_s),
            time("max", s.max_s),
        ];
        write_list(out, &items, width);
        let most = s.histogram.iter().map(|bar| bar.samples).max().unwrap_or(0).max(1);
        let bar_width = usize::from(width).saturating_sub(50).clamp(10, 50);
        for b in &s.histogram {
            let (from, to) = (Time::from_s(b.from_s).to_string(), Time::from_s(b.to_s).to_string());
            let drawn = bar(b.samples as f64 / most as f64, bar_width);
            let _ = writeln!(out, "  {from:>11} – {to:<11} {drawn:<bar_width$} {:>6}", grouped(b.samples));
        }
        let mut table =
            new_table(width, ["critical path", "in samples", "share of it"].map(String::from).to_vec());
        let row = |on: &OnPath| [on.name.clone(), percent(on.samples), percent(on.share)];
        let stages = if s.critical_stages.len() > 1 { s.critical_stages.as_slice() } else { &[] };
        stages.iter().take(MOST_ROWS).chain(s.critical_ranks.iter().take(MOST_LINKS)).for_each(|on| {
            table.add_row(row(on));
        });
        let _ = writeln!(out, "{table}");
    }

    fn glance(&self, r: &Report, _: ReadingContext<'_>, out: &mut String, width: u16) {
        self.table(r, out, width);
    }
}
