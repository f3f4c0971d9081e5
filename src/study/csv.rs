//! Rows of a sweep as comma-separated values (RFC 4180).

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::rows::Row;
use stepsim_read::analysis::kind::OpKind;

/// True if a file holds comma-separated values, by its name.
pub fn of_csv(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))
}

/// Columns of every row: the columns of an outcome, but for the exposed seconds of each kind of communication.
const FIXED: [&str; 6] =
    ["status", "step_time_s", "tokens_per_s_per_device", "mfu", "memory_peak_bytes", "range_s"];

/// The columns of rows: key, point, one for each path, the outcome's, the report's, message.
#[derive(Default)]
pub(super) struct CsvColumns {
    paths: Vec<String>,
    asked: BTreeSet<String>,
}

impl CsvColumns {
    /// Takes in what a row has.
    pub fn see(&mut self, row: &Row) {
        for path in row.settings.keys().filter(|path| !self.paths.contains(path)).collect::<Vec<_>>() {
            self.paths.push(path.clone());
        }
        for path in row.outcome.columns.keys().filter(|path| !self.asked.contains(*path)).collect::<Vec<_>>()
        {
            self.asked.insert(path.clone());
        }
    }

    /// The first line.
    pub fn head(&self) -> String {
        let mut cells: Vec<String> =
            ["key", "point"].into_iter().chain(self.paths.iter().map(String::as_str)).map(cell).collect();
        cells.extend(FIXED.iter().map(ToString::to_string));
        cells.extend(kinds().map(|kind| format!("exposed_{kind}_s")));
        cells.extend(self.asked.iter().map(|path| cell(path)));
        cells.push("message".into());
        cells.join(",") + "\n"
    }

    /// The line of a row.
    pub fn line(&self, row: &Row) -> String {
        let value = stepsim_located::to_value(&row.outcome).unwrap_or_default();
        let plain = |value: Option<&Value>| match value {
            None => String::new(),
            Some(Value::String(text)) => cell(text),
            Some(other) => cell(&other.to_string()),
        };
        let mut cells = vec![row.key.clone(), row.point.to_string()];
        cells.extend(self.paths.iter().map(|path| plain(row.settings.get(path))));
        cells.extend(FIXED.iter().map(|column| plain(value.get(column))));
        cells.extend(kinds().map(|kind| plain(value.get("exposed_s").and_then(|e| e.get(kind)))));
        cells.extend(self.asked.iter().map(|path| plain(row.outcome.columns.get(path))));
        let message = row.outcome.message.iter().flat_map(|m| m.lines()).map(str::trim);
        cells.push(cell(&message.collect::<Vec<_>>().join("; ")));
        cells.join(",") + "\n"
    }
}

/// Kinds of communication.
fn kinds() -> impl Iterator<Item = &'static str> {
    OpKind::ALL.iter().filter(|k| **k != OpKind::Compute).map(|k| k.name())
}

/// Rows as comma-separated values: key, one column for each path, then the columns of an outcome and those asked for
/// of reports.
pub fn csv(rows: &[Row]) -> String {
    let mut columns = CsvColumns::default();
    rows.iter().for_each(|row| columns.see(row));
    rows.iter().fold(columns.head(), |text, row| text + &columns.line(row))
}

/// Characters that a spreadsheet takes for the beginning of a formula.
const FORMULA: [char; 6] = ['=', '@', '+', '-', '\t', '\r'];

/// Quoted where it must be (RFC 4180). A text that a spreadsheet would take for a formula has an apostrophe before
/// it, which makes it a text there; numbers have none.
pub(super) fn cell(text: &str) -> String {
    if text.starts_with(FORMULA) && text.parse::<f64>().is_err() {
        return cell(&format!("'{text}"));
    }
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}
