//! The reading of blame; who plays the step without each cause puts it into the report.

use std::fmt::Write;

use super::Blame;
use crate::analysis::cells::{self, MOST_CAUSES, SMALL, new_table, percent};
use crate::analysis::reading::{Reading, Report, Sheet, Shown};
use crate::page::sheet::{seconds, table};

const HEADS: [&str; 5] = ["cause", "step without it", "cost", "itself", "others wait"];

/// What causes cost; nothing where none was looked for or found.
pub struct Blames;

impl Reading for Blames {
    fn table(&self, r: &Report, out: &mut String, width: u16) {
        if r.blame.is_empty() {
            return;
        }
        let mut table = new_table(width, HEADS.map(String::from).to_vec());
        let share = |s: f64| s / r.run_time_s.max(f64::MIN_POSITIVE);
        let share = |s: f64| percent(if share(s).abs() < SMALL { 0.0 } else { share(s) });
        for b in r.blame.iter().take(MOST_CAUSES) {
            let [cost, itself, others] = [b.cost_s, b.itself_s, b.others_s].map(share);
            table.add_row([b.cause.clone(), cells::seconds(b.without_s), cost, itself, others]);
        }
        let _ = writeln!(out, "\nBlame (the step played again without each cause; % of the step)\n{table}");
    }

    fn page(&self, report: &Report, _: &Shown, sheet: &mut Sheet) {
        if report.blame.is_empty() {
            return;
        }
        let share = |seconds: f64| format!("{:.1} %", 100.0 * seconds / report.run_time_s);
        let row = |b: &Blame| {
            let [cost, itself, others] = [b.cost_s, b.itself_s, b.others_s].map(share);
            vec![b.cause.clone(), seconds(b.without_s), cost, itself, others]
        };
        let note = "The step played again without each cause: what it costs, the part that is its own, and what it makes ranks wait for \
                    one another.";
        sheet.section("Blame", note, |out| table(out, &HEADS, 1, report.blame.iter().map(row)));
    }
}
