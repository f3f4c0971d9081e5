//! Rows of a sweep, and the file that they are kept in.
//!
//! While a sweep runs its file is a journal: one JSON line for each finished point, in the order in which they finish,
//! written in one piece (in closed form, for up to 256 that differ in their batch alone). A process killed at any moment leaves whole lines and perhaps the beginning of one, which
//! resuming drops. At the end the file is replaced by all rows in the order of the points.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::outcome::Outcome;
use crate::lab::simulate::{Fault, Status};
use crate::read::analysis::kind::OpKind;
use crate::read::trace::{Output, OutputError};
use crate::step::spec::SpecError;

/// One point and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Hash of the resolved inputs, of how the point is valued, and of the program's version.
    pub key: String,
    /// Number of the point in its study, from 0.
    #[serde(default)]
    pub point: u64,
    /// What the point sets.
    pub settings: Map<String, Value>,
    /// The columns.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Row {
    /// A column by name: a path that the point sets, one that was asked for of the report, or a field of the outcome; `exposed_tp_s` is what `exposed_s` has for
    /// `tp`, `memory_peak_GiB` the peak in GiB.
    pub fn column(&self, name: &str) -> Option<Value> {
        if let Some(value) = self.settings.get(name) {
            return Some(value.clone());
        }
        let o = &self.outcome;
        if let Some(value) = o.columns.get(name) {
            return Some(value.clone());
        }
        let number = |x: f64| Some(Value::from(x));
        match name {
            "point" => Some(self.point.into()),
            "status" => serde_json::to_value(o.status).ok(),
            "step_time_s" => number(o.step_time_s?),
            "tokens_per_s_per_device" => number(o.tokens_per_s_per_device?),
            "mfu" => number(o.mfu?),
            "memory_peak_bytes" => Some(o.memory_peak_bytes?.into()),
            "memory_peak_GiB" => number(o.memory_peak_bytes? as f64 / (1u64 << 30) as f64),
            _ => {
                let kind = name.strip_prefix("exposed_")?.strip_suffix("_s")?;
                number(o.exposed_s.get(kind).copied().or(o.step_time_s.map(|_| 0.0))?)
            }
        }
    }
    /// Names of the columns that rows may have beside what they set.
    pub fn columns() -> Vec<String> {
        let fixed = [
            "step_time_s",
            "tokens_per_s_per_device",
            "mfu",
            "memory_peak_bytes",
            "memory_peak_GiB",
            "status",
            "point",
        ];
        let kinds = OpKind::ALL.iter().filter(|kind| **kind != OpKind::Compute);
        let exposed = kinds.map(|kind| format!("exposed_{}_s", kind.name()));
        fixed.iter().map(ToString::to_string).chain(exposed).collect()
    }

    /// A line of JSON with its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// Rows that are written in one piece into a finished file.
const ROWS_AT_ONCE: usize = 256;

/// How every line begins.
const BEGIN: &str = "{\"key\":\"";

/// Why a study has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StudyError {
    /// The study is wrong, or a result file is another's.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// A result file cannot be written. Rows that were finished before are in it, whole: resuming goes on from there.
    #[error("cannot write `{}`: {error}; rows up to here are kept, go on with --resume", path.display())]
    Journal {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// Whoever watched the study stopped it.
    #[error("stopped; rows that were written are kept, go on with --resume")]
    Stopped,
    /// The finished file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

impl From<&StudyError> for Fault {
    fn from(e: &StudyError) -> Fault {
        match e {
            StudyError::Spec(e) => e.into(),
            e => Fault { status: Status::Failed, message: e.to_string(), ..Fault::default() },
        }
    }
}

/// A result file on its way.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// Begins a result file, or with `resume` opens one that may be there already: its rows come back by key.
    ///
    /// # Errors
    /// The file is there and `resume` is not asked for, holds something else than rows, or cannot be opened.
    pub fn open(path: &Path, resume: bool) -> Result<(Journal, HashMap<String, Outcome>), StudyError> {
        let fail = |error| OutputError::Create { path: path.to_owned(), error };
        let name = || path.display().to_string();
        if !resume && path.is_file() {
            return Err(present(path).into());
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(fail)?;
        let mut text = Vec::new();
        if resume {
            file.read_to_end(&mut text).map_err(fail)?;
        }
        let (rows, whole) = rows_of(&text, &name())?;
        let whole = whole as u64;
        if resume && whole < text.len() as u64 {
            file.set_len(whole).map_err(fail)?;
        }
        file.seek(SeekFrom::Start(whole)).map_err(fail)?;
        let rows = rows.into_iter().map(|row| (row.key, row.outcome)).collect();
        Ok((Journal { path: path.to_owned(), file }, rows))
    }

    /// Appends the lines of rows in one piece.
    ///
    /// # Errors
    /// The disk is full, say.
    pub fn append(&mut self, lines: &str) -> Result<(), StudyError> {
        let error = |error| StudyError::Journal { path: self.path.clone(), error };
        self.file.write_all(lines.as_bytes()).map_err(error)
    }
}

/// The file is there and would be lost.
pub fn present(path: &Path) -> SpecError {
    SpecError::file(path.display().to_string(), "a result file of this name is there already")
        .hint("remove it to begin again; --resume goes on with one that was interrupted")
}

/// Reads the rows of a finished or interrupted result file; a line that was cut off is passed over.
///
/// # Errors
/// It cannot be read or holds something else.
pub fn read_rows(path: &Path) -> Result<Vec<Row>, SpecError> {
    let name = path.display().to_string();
    let text = std::fs::read(path)
        .map_err(|e| SpecError::file(&name, format!("cannot be read: {e}")).hint("check the path"))?;
    rows_of(&text, &name).map(|(rows, _)| rows)
}

/// The whole rows at the beginning of a result file, and how many bytes they take.
fn rows_of(text: &[u8], name: &str) -> Result<(Vec<Row>, usize), SpecError> {
    let hint = "only JSON lines that `stepsim sweep -o` wrote can be read";
    let (mut whole, mut rows) = (0, Vec::new());
    for (i, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
        if line.last() != Some(&b'\n') {
            break; // The process was killed while it wrote this line.
        }
        rows.push(serde_json::from_slice(line).map_err(|e| {
            SpecError::file(name, format!("line {} is no row of a sweep: {e}", i + 1)).hint(hint)
        })?);
        whole += line.len();
    }
    // What was cut off is the beginning of a row, or the file is something else.
    let (torn, begin) = (&text[whole..], BEGIN.as_bytes());
    if !torn.starts_with(begin) && !begin.starts_with(torn) {
        return Err(SpecError::file(name, "ends in what is no row of a sweep").hint(hint));
    }
    Ok((rows, whole))
}

/// Rows of parts of one study in the order of its points, and how many points below the last one are missing.
///
/// # Errors
/// Two rows of one point differ: the parts are not of one study.
pub fn merge(parts: Vec<(String, Vec<Row>)>) -> Result<(Vec<Row>, u64), SpecError> {
    let mut rows: BTreeMap<u64, Row> = BTreeMap::new();
    for (name, part) in parts {
        for row in part {
            let known = rows.entry(row.point).or_insert_with(|| row.clone());
            if *known != row {
                let problem = format!("its point {} is another than in a file before it", row.point);
                return Err(SpecError::file(name, problem)
                    .allowed("parts of one study, by one version, each point alike in all of them")
                    .hint("merge what one study wrote with --shard 1/N to N/N"));
            }
        }
    }
    let end = rows.keys().next_back().map_or(0, |last| last + 1);
    let missing = end - rows.len() as u64;
    Ok((rows.into_values().collect(), missing))
}

/// Writes rows as their file's name says: comma-separated values, or JSON lines.
///
/// # Errors
/// The file cannot be written.
pub fn write_rows(path: &Path, rows: &[Row]) -> Result<(), StudyError> {
    if of_csv(path) {
        return write_text(path, &csv(rows));
    }
    let mut output = Output::create(path, false)?;
    for some in rows.chunks(ROWS_AT_ONCE) {
        let lines: String = some.iter().map(Row::line).collect();
        output.write_all(lines.as_bytes()).map_err(|e| output.error(e))?;
    }
    Ok(output.finish()?)
}

/// Writes a text whole or not at all.
///
/// # Errors
/// The file cannot be written.
pub fn write_text(path: &Path, text: &str) -> Result<(), StudyError> {
    let mut output = Output::create(path, false)?;
    output.write_all(text.as_bytes()).map_err(|e| output.error(e))?;
    Ok(output.finish()?)
}

/// Whether a file holds comma-separated values, by its name.
pub fn of_csv(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("csv"))
}

/// Rows as comma-separated values: key, one column for each path, then the columns of an outcome and those asked for of reports.
pub fn csv(rows: &[Row]) -> String {
    let mut paths: Vec<&String> = Vec::new();
    for path in rows.iter().flat_map(|row| row.settings.keys()) {
        if !paths.contains(&path) {
            paths.push(path);
        }
    }
    let fixed = ["status", "step_time_s", "tokens_per_s_per_device", "mfu", "memory_peak_bytes"];
    let kinds = OpKind::ALL.iter().filter(|k| **k != OpKind::Compute).map(|k| k.name());
    let kinds: Vec<&str> = kinds.collect();
    let mut header: Vec<String> =
        ["key", "point"].into_iter().chain(paths.iter().map(|p| p.as_str())).map(cell).collect();
    header.extend(fixed.iter().map(ToString::to_string));
    header.extend(kinds.iter().map(|kind| format!("exposed_{kind}_s")));
    let asked: BTreeSet<&String> = rows.iter().flat_map(|row| row.outcome.columns.keys()).collect();
    header.extend(asked.iter().map(|path| cell(path)));
    header.push("message".into());
    let mut text = header.join(",") + "\n";
    for row in rows {
        let value = serde_json::to_value(&row.outcome).unwrap_or_default();
        let plain = |value: Option<&Value>| match value {
            None => String::new(),
            Some(Value::String(text)) => cell(text),
            Some(other) => cell(&other.to_string()),
        };
        let mut cells = vec![row.key.clone(), row.point.to_string()];
        cells.extend(paths.iter().map(|path| plain(row.settings.get(*path))));
        cells.extend(fixed.iter().map(|column| plain(value.get(column))));
        cells.extend(kinds.iter().map(|kind| plain(value.get("exposed_s").and_then(|e| e.get(kind)))));
        cells.extend(asked.iter().map(|path| plain(row.outcome.columns.get(*path))));
        let message = row.outcome.message.iter().flat_map(|m| m.lines()).map(str::trim);
        cells.push(cell(&message.collect::<Vec<_>>().join("; ")));
        text += &(cells.join(",") + "\n");
    }
    text
}

/// The rows of a finished file of comma-separated values, as [`csv`] writes them; messages keep no lines of their own.
///
/// # Errors
/// It cannot be read, or holds something else.
pub fn read_csv(path: &Path) -> Result<Vec<Row>, SpecError> {
    let name = path.display().to_string();
    let wrong = |problem: String| {
        SpecError::file(&name, problem).hint("only what `stepsim sweep -o` wrote can be gone on with")
    };
    let text = std::fs::read_to_string(path).map_err(|e| wrong(format!("cannot be read: {e}")))?;
    let mut lines = records(&text).into_iter();
    let header = lines.next().unwrap_or_default();
    let status = header.iter().position(|head| head == "status");
    let (Some(status), ["key", "point", ..]) =
        (status, &*header.iter().map(String::as_str).collect::<Vec<_>>())
    else {
        return Err(wrong("is no file of rows".into()));
    };
    let row = |(i, cells): (usize, Vec<String>)| {
        if cells.len() != header.len() {
            return Err(wrong(format!("row {} has {} cells of {}", i + 1, cells.len(), header.len())));
        }
        let mut row = Map::from_iter([("settings".to_string(), Map::new().into())]);
        for (at, (head, cell)) in
            header.iter().zip(&cells).enumerate().filter(|(_, (_, cell))| !cell.is_empty())
        {
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
        serde_json::from_value(row.into()).map_err(|e| wrong(format!("row {}: {e}", i + 1)))
    };
    lines.enumerate().map(row).collect()
}

/// The cells of each record (RFC 4180), without the apostrophes of [`cell`].
fn records(text: &str) -> Vec<Vec<String>> {
    let (mut records, mut record, mut cell, mut quoted) = (Vec::new(), Vec::new(), String::new(), false);
    let plain = |cell: &mut String| {
        let text = std::mem::take(cell);
        let guarded = text.strip_prefix('\'').filter(|rest| rest.starts_with(FORMULA));
        guarded.map(String::from).unwrap_or(text)
    };
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => record.push(plain(&mut cell)),
            '\n' if !quoted => {
                record.push(plain(&mut cell));
                records.push(std::mem::take(&mut record));
            }
            c => cell.push(c),
        }
    }
    records
}

/// What a spreadsheet takes for the beginning of a formula.
const FORMULA: [char; 6] = ['=', '@', '+', '-', '\t', '\r'];

/// Quoted where it must be (RFC 4180). What a spreadsheet would take for a formula has an apostrophe before it, which makes it a
/// text there; numbers have none.
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// What a finished sweep wrote as comma-separated values is what it found, whatever stands in a cell.
    #[test]
    fn values_are_read_back() {
        let row = |point: u64, stack: &str, message: Option<&str>| Row {
            key: format!("{point:032x}"),
            point,
            settings: Map::from_iter([
                ("stack".to_string(), stack.into()),
                ("batch.micro_batch".into(), json!(2)),
            ]),
            outcome: Outcome {
                message: message.map(String::from),
                step_time_s: Some(0.125),
                memory_peak_bytes: Some(1 << 40),
                exposed_s: BTreeMap::from([("tp".to_string(), 1e-9)]),
                columns: BTreeMap::from([("mean.busy_s".to_string(), json!(0.5))]),
                ..Outcome::default()
            },
        };
        let rows = vec![row(0, "=a,\"b\"", None), row(1, "-c", Some("no, \"never\"; 'why'"))];
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.csv");
        write_rows(&path, &rows).expect("a file");
        assert_eq!(read_csv(&path).expect("rows"), rows);
        for wrong in ["", "a,b\n", "key,point,status\n1,2\n"] {
            std::fs::write(&path, wrong).expect("a file");
            read_csv(&path).expect_err(wrong);
        }
    }
}
