//! The reading of documents with a degree of their own; the planner puts it into the report.

use super::DynamicContextReport;
use crate::analysis::cells::{grouped, new_table};
use crate::analysis::reading::{Reading, Report};

/// Degrees of context parallelism, as a line and a table.
pub struct DegreesReading;

impl Reading for DegreesReading {
    fn table(&self, report: &Report, out: &mut String, width: u16) {
        report.dynamic_context.iter().for_each(|dynamic| out.push_str(&text(dynamic, width)));
    }
}

/// As a line and a table of at most `width` columns.
pub fn text(dynamic: &DynamicContextReport, width: u16) -> String {
    let head = ["  context parallel", "documents", "passes", "tokens"];
    let mut table = new_table(width, head.map(String::from).to_vec());
    for (degree, of) in &dynamic.degrees {
        table.add_row(vec![
            format!("  {degree}"),
            grouped(of.documents),
            grouped(of.passes),
            format!("{:.1} %", 100.0 * of.tokens),
        ]);
    }
    format!(
        "\n  a degree for each document, at most {} tokens of a pass on a rank\n  padding {:.2} % of all \
         tokens; work of the fullest rank {:.3} of the mean\n{table}\n",
        grouped(dynamic.tokens_per_rank),
        100.0 * dynamic.padding,
        dynamic.work_max_over_mean,
    )
}
