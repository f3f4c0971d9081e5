//! The reading of slack.

use std::fmt::Write;

use super::{by_kind, sums};
use crate::analysis::cells::{grouped, new_table, seconds};
use crate::analysis::reading::{Reading, Report, Run};

/// How much of each kind of op cannot be late.
pub struct Slacks;

impl Reading for Slacks {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        if let Some(slack) = run.slack {
            let sums = sums(run.causes, slack, &run.weights, &run.turn.recurring);
            report.slack = by_kind(sums, run.ranks_of_job());
        }
    }

    fn why(&self, r: &Report, out: &mut String, width: u16) {
        let head = ["slack", "ops", "time", "without", "< 1 % of step", "least"];
        let mut table = new_table(width, head.map(String::from).to_vec());
        for (kind, s) in &r.slack {
            table.add_row([
                kind.words().to_string(),
                grouped(s.ops.round() as u64),
                seconds(s.time_s),
                seconds(s.binding_s),
                seconds(s.near_s),
                seconds(s.least_s),
            ]);
        }
        let _ = writeln!(out, "\nHow late ops may end without moving the step (mean of a rank)\n{table}");
    }
}
