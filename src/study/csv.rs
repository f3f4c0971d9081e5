//! Rows of a sweep as comma-separated values (RFC 4180).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use super::rows::Row;
use stepsim_read::analysis::kind::OpKind;
use stepsim_step::spec::SpecError;

/// True if a file holds comma-separated values, by its name.
pub fn of_csv(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))
}

/// Columns of every row: the columns of an outcome, but for the exposed seconds of each kind of communication.
const FIXED: [&str; 5] = ["status", "step_time_s", "tokens_per_s_per_device", "mfu", "memory_peak_bytes"];

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
        let value = serde_json::to_value(&row.outcome).unwrap_or_default();
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

/// Shows each row of a finished file of comma-separated values, as [`csv`] writes them; messages keep no lines of
/// their own.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn each_of_csv(path: &Path, see: &mut dyn FnMut(Row)) -> Result<(), SpecError> {
    let name = path.display().to_string();
    let wrong = |problem: String| {
        SpecError::file(&name, problem).hint("only what `stepsim sweep -o` wrote can be gone on with")
    };
    let file = File::open(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    let mut records = Records { lines: BufReader::new(file) };
    let mut next = || records.next().transpose().map_err(|e| wrong(format!("cannot be read: {e}")));
    let header = next()?.unwrap_or_default();
    if !matches!(&header[..], [key, point, ..] if key == "key" && point == "point") {
        return Err(wrong("is no file of rows".into()));
    }
    let Some(status) = header.iter().position(|head| head == "status") else {
        return Err(wrong("is no file of rows".into()));
    };
    let mut count = 0;
    while let Some(cells) = next()? {
        count += 1;
        if cells.len() != header.len() {
            return Err(wrong(format!("row {count} has {} cells of {}", cells.len(), header.len())));
        }
        let row = of_cells(&header, &cells, status);
        see(serde_json::from_value(row).map_err(|e| wrong(format!("row {count}: {e}")))?);
    }
    Ok(())
}

/// A row as JSON; what is asked for of reports stands behind column `status`, what points set before it.
fn of_cells(header: &[String], cells: &[String], status: usize) -> Value {
    let mut row = Map::from_iter([("settings".to_string(), Map::new().into())]);
    for (at, (head, cell)) in header.iter().zip(cells).enumerate().filter(|(_, (_, cell))| !cell.is_empty()) {
        let read = || serde_json::from_str(cell).unwrap_or_else(|_| Value::from(cell.as_str()));
        let kind = head.strip_prefix("exposed_").and_then(|rest| rest.strip_suffix("_s"));
        match (head.as_str(), kind) {
            ("key" | "message" | "status", _) => drop(row.insert(head.clone(), cell.as_str().into())),
            ("point" | "step_time_s" | "tokens_per_s_per_device" | "mfu" | "memory_peak_bytes", _) => {
                row.insert(head.clone(), read());
            }
            (_, Some(kind)) if at > status => {
                row.entry("exposed_s").or_insert_with(|| Map::new().into())[kind] = read()
            }
            _ if at > status => row.entry("columns").or_insert_with(|| Map::new().into())[head] = read(),
            _ => row["settings"][head] = read(),
        }
    }
    row.into()
}

/// The cells of each record, without the apostrophes of [`cell`].
struct Records<R> {
    lines: R,
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = io::Result<Vec<String>>;

    /// A record ends with the first line behind which no quotation is open.
    fn next(&mut self) -> Option<Self::Item> {
        let mut text = String::new();
        loop {
            match self.lines.read_line(&mut text) {
                Err(e) => return Some(Err(e)),
                Ok(0) if text.is_empty() => return None,
                Ok(read) if read == 0 || text.matches('"').count().is_multiple_of(2) => {
                    return Some(Ok(cells(&text)));
                }
                Ok(_) => {}
            }
        }
    }
}

/// The cells of one record.
fn cells(text: &str) -> Vec<String> {
    let (mut record, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let plain = |cell: &mut String| {
        let text = std::mem::take(cell);
        let guarded = text.strip_prefix('\'').filter(|rest| rest.starts_with(FORMULA));
        guarded.map(String::from).unwrap_or(text)
    };
    let mut chars = text.strip_suffix('\n').unwrap_or(text).chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(plain(&mut cell)),
            c => cell.push(c),
        }
    }
    record.push(plain(&mut cell));
    record
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
