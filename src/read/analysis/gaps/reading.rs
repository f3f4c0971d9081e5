//! The reading of idle gaps.

use std::fmt::Write;

use super::{GapLength, GapReport, gaps};
use crate::analysis::cells::{self, new_table, percent};
use crate::analysis::reading::{Lines, Measure, PageContents, Reading, Report, Run, Sheet};
use crate::page::sheet::{bars, seconds};

/// Idle gaps by length.
pub struct Gaps;

impl Reading for Gaps {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        report.gaps = gaps(run.causes, &run.turn.recurring, &run.weights);
    }

    fn table(&self, r: &Report, out: &mut String, width: u16) {
        if r.gaps.is_empty() {
            return;
        }
        let mut table = new_table(width, ["gaps", "number", "time", "of step"].map(String::from).to_vec());
        let step = r.run_time_s.max(f64::MIN_POSITIVE);
        for (length, gap) in &r.gaps {
            table.add_row([
                length.name().to_owned(),
                format!("{:.1}", gap.count),
                cells::seconds(gap.seconds),
                percent(gap.seconds / step),
            ]);
        }
        let _ = writeln!(out, "\nIdle gaps by length (mean of a rank, between kernels)\n{table}");
    }

    fn page(&self, report: &Report, _: &PageContents, sheet: &mut Sheet) {
        if report.gaps.is_empty() {
            return;
        }
        let note = "How long a rank's kernels stand still at a stretch: short gaps are launches and \
                    latencies, long ones have room for other work.";
        sheet.section("Idle gaps by length", note, |out| out.push_str(&chart(report)));
    }

    fn compare(&self, a: &Report, b: &Report, lines: &mut Lines) {
        lines.section("idle gaps");
        for length in GapLength::ALL {
            let of = |r: &Report| r.gaps.get(&length).map_or(0.0, |gap| gap.seconds);
            lines.add(length.name(), Measure::Seconds, of(a), of(b));
        }
    }
}

/// The time in gaps of each length.
fn chart(report: &Report) -> String {
    let longest = report.gaps.values().map(|gap| gap.seconds).fold(0.0, f64::max);
    let line = |(length, gap): (&GapLength, &GapReport)| {
        let note = format!("{} in {:.1} gaps a rank", seconds(gap.seconds), gap.count);
        (length.name().to_owned(), vec![("idle".to_owned(), gap.seconds, note.clone())], note)
    };
    bars("gaps", "time in idle gaps by length", longest, &report.gaps.iter().map(line).collect::<Vec<_>>())
}
