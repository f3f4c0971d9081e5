//! A table of points that a press on a heading sorts; each row holds its command, folded.

use std::fmt::Write;

use super::escaped::escaped;

/// One row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlotPoint {
    /// A cell a column.
    pub cells: Vec<String>,
    /// The command that runs it.
    pub command: String,
    /// Why it has no result; may be empty.
    pub message: String,
}

/// True if a cell is a number, or empty.
fn is_number(cell: &str) -> bool {
    cell.is_empty() || cell.replace(',', "").parse::<f64>().is_ok()
}

/// The table; a column of numbers stands to the right.
pub fn points(out: &mut String, heads: &[String], points: &[PlotPoint]) {
    let numbers = |i: usize| points.iter().all(|p| p.cells.get(i).is_none_or(|cell| is_number(cell)));
    let class: Vec<&str> = (0..heads.len()).map(|i| if numbers(i) { " class=\"n\"" } else { "" }).collect();
    out.push_str("<table class=\"points\"><thead><tr>");
    for (head, class) in heads.iter().zip(&class) {
        let _ = write!(out, "<th{class}><button>{}</button></th>", escaped(head));
    }
    out.push_str("<th></th></tr></thead><tbody>\n");
    for point in points {
        out.push_str("<tr>");
        for (cell, class) in point.cells.iter().zip(&class) {
            let _ = write!(out, "<td{class}>{}</td>", escaped(cell));
        }
        let _ =
            write!(out, "<td><details><summary>command</summary><code>{}</code>", escaped(&point.command));
        if !point.message.is_empty() {
            let _ = write!(out, "<p>{}</p>", escaped(&point.message));
        }
        out.push_str("</details></td></tr>\n");
    }
    out.push_str("</tbody></table>");
}
