//! Rows of a sweep as comma-separated values (RFC 4180).

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde_json::{Map, Value};

use super::rows::{Row, StudyError};
use stepsim_read::analysis::kind::OpKind;
use stepsim_spec::SpecError;

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

/// How every file begins.
const BEGIN: &str = "key,point,";

/// Shows each whole row of a file of comma-separated values, as [`csv`] writes them; messages keep no lines of their
/// own. Returns the bytes behind them: the end of a file that was cut off.
///
/// # Errors
/// It cannot be read, holds something else, or rows behind a broken one; or `see` fails.
pub fn each_of_csv(
    path: &Path,
    see: &mut dyn FnMut(Row) -> Result<(), StudyError>,
) -> Result<u64, StudyError> {
    let name = path.display().to_string();
    let wrong = |problem: String| {
        SpecError::file(&name, problem).hint("only what `stepsim sweep -o` wrote can be gone on with")
    };
    let file = File::open(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    let mut records = Records { lines: BufReader::new(file) };
    let mut next = || records.next().transpose().map_err(|e| wrong(format!("cannot be read: {e}")));
    let head = next()?.unwrap_or_default();
    let begins = head.starts_with(BEGIN) || BEGIN.starts_with(head.trim_end_matches('\0'));
    if begins && !head.ends_with('\n') {
        return Ok(head.len() as u64);
    }
    let header = cells(&head);
    let status = header.iter().position(|head| head == "status");
    let Some(status) = status.filter(|_| begins) else {
        return Err(wrong("is no file of rows".into()).into());
    };
    let (mut count, mut cut, mut broken) = (0, 0, None);
    while let Some(text) = next()? {
        count += 1;
        if let Some(problem) = broken.take() {
            return Err(wrong(problem).into());
        }
        match whole_row(&header, &text, status) {
            Ok(row) => see(row)?,
            Err(problem) => {
                cut = text.len() as u64;
                broken = Some(format!("row {count} {problem}"));
            }
        }
    }
    Ok(cut)
}

/// The row of a record, or what is wrong with it.
fn whole_row(header: &[String], text: &str, status: usize) -> Result<Row, String> {
    let cells = cells(text);
    if !text.ends_with('\n') || text.contains('\0') {
        return Err("has no end".into());
    }
    if cells.len() != header.len() {
        return Err(format!("has {} cells of {}", cells.len(), header.len()));
    }
    serde_json::from_value(of_cells(header, &cells, status)).map_err(|e| format!("is none: {e}"))
}

/// A row as JSON; what is asked for of reports stands behind column `status`, what points set before it.
fn of_cells(header: &[String], cells: &[String], status: usize) -> Value {
    let mut row = Map::from_iter([("settings".to_string(), Map::new().into())]);
    for (at, (head, cell)) in header.iter().zip(cells).enumerate().filter(|(_, (_, cell))| !cell.is_empty()) {
        let read = || serde_json::from_str(cell).unwrap_or_else(|_| Value::from(cell.as_str()));
        let kind = head.strip_prefix("exposed_").and_then(|rest| rest.strip_suffix("_s"));
        match (head.as_str(), kind) {
            ("key" | "message" | "status", _) => drop(row.insert(head.clone(), cell.as_str().into())),
            ("point", _) => drop(row.insert(head.clone(), read())),
            (fixed, _) if FIXED.contains(&fixed) => drop(row.insert(head.clone(), read())),
            (_, Some(kind)) if at > status => {
                row.entry("exposed_s").or_insert_with(|| Map::new().into())[kind] = read()
            }
            _ if at > status => row.entry("columns").or_insert_with(|| Map::new().into())[head] = read(),
            _ => row["settings"][head] = read(),
        }
    }
    row.into()
}

/// The text of each record.
struct Records<R> {
    lines: R,
}

impl<R: BufRead> Iterator for Records<R> {
    type Item = io::Result<String>;

    /// A record ends with the first line behind which no quotation is open.
    fn next(&mut self) -> Option<Self::Item> {
        let (mut text, mut quotes) = (Vec::new(), 0);
        loop {
            let before = text.len();
            match self.lines.read_until(b'\n', &mut text) {
                Err(e) => return Some(Err(e)),
                Ok(0) if text.is_empty() => return None,
                Ok(read) => {
                    quotes += text[before..].iter().filter(|byte| **byte == b'"').count();
                    if read == 0 || quotes.is_multiple_of(2) {
                        return Some(Ok(String::from_utf8_lossy(&text).into_owned()));
                    }
                }
            }
        }
    }
}

/// The cells of one record, without the apostrophes of [`cell`].
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
