//! The reading of candidates; who plays them puts them into the report.

use std::fmt::Write;

use super::{Candidate, CandidateKind};
use crate::analysis::cells::{self, SMALL, new_table, percent};
use crate::analysis::reading::{PageContents, Reading, ReadingContext, Report, Sheet};
use crate::page::sheet::{quoted, seconds, table};

const HEADS: [&str; 6] = ["what", "otherwise", "step then", "cost", "itself", "others wait"];

/// Candidates shown in a table.
const SHOWN: usize = 10;

/// The candidates, dearest first; nothing where nothing was played or found.
pub struct CandidateTable;

impl Reading for CandidateTable {
    fn table(&self, r: &Report, out: &mut String, width: u16) {
        if r.candidates.is_empty() && r.candidates_left_out == 0 {
            return;
        }
        let _ = writeln!(out, "\nCandidates (the step played with each otherwise; % of the step)");
        let mut table = new_table(width, HEADS.map(String::from).to_vec());
        for c in r.candidates.iter().take(SHOWN) {
            table.add_row(row(r, c, cells::seconds));
        }
        let _ = writeln!(out, "{table}");
        if let Some(rest) = left_out(r) {
            let _ = writeln!(out, "  {rest}");
        }
    }

    /// How to set the dearest choice, and the command that plays all.
    fn glance(&self, r: &Report, asked: ReadingContext<'_>, out: &mut String, _: u16) {
        let Some(whatif) = asked.whatif else { return };
        let set = r.answer.halves().find(|c| !c.sets.is_empty() && c.kind != CandidateKind::Limit);
        let more = left_out(r).map_or(String::new(), |more| format!("     ({more})"));
        let arguments = set.map_or(String::new(), |c| c.arguments(quoted));
        // `whatif` with the arguments is the step then.
        match arguments.as_str() {
            "" => {}
            short if short.len() + whatif.len() < 70 => {
                let _ = writeln!(out, "Try       {short}   all: {whatif}");
                return;
            }
            long => {
                let _ = writeln!(out, "Try       {long}");
            }
        }
        let _ = writeln!(out, "Try       {whatif}{more}");
    }

    fn page(&self, report: &Report, _: &PageContents, sheet: &mut Sheet) {
        if report.candidates.is_empty() {
            return;
        }
        let note = format!(
            "The step played with each change, dearest first: its cost, its own part, and the part that ranks \
             wait for one another. {}",
            left_out(report).unwrap_or_default()
        );
        let heads = [HEADS.as_slice(), &["how"]].concat();
        sheet.section("Candidates", &note, |out| {
            let rows = report.candidates.iter().map(|c| {
                let mut cells = row(report, c, seconds);
                cells.push(c.arguments(quoted));
                cells
            });
            table(out, &heads, 2, rows);
        });
    }
}

fn row(r: &Report, c: &Candidate, seconds: impl Fn(f64) -> String) -> Vec<String> {
    let share = |s: f64| s / r.step_time_s.max(f64::MIN_POSITIVE);
    let share = |s: f64| percent(if share(s).abs() < SMALL { 0.0 } else { share(s) });
    let [cost, own, induced] = [c.cost_s(), c.own_s, c.induced_s].map(share);
    vec![c.what.clone(), c.otherwise.clone(), seconds(c.step_s), cost, own, induced]
}

/// How many candidates were not played, and why not.
fn left_out(r: &Report) -> Option<String> {
    let n = r.candidates_left_out;
    (n > 0).then(|| format!("{} limits and choices were not played", cells::grouped(n)))
}
