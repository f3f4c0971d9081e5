//! Rows of a sweep, and the file that they are kept in.
//!
//! While a sweep runs its file is a journal: one JSON line for each finished point, in the order in which they finish,
//! written in one piece. A process killed at any moment leaves whole lines and perhaps the beginning of one, which
//! resuming drops. At the end the file is replaced by all rows in the order of the points.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::outcome::Outcome;
use crate::analysis::kind::OpKind;
use crate::spec::SpecError;
use crate::trace::OutputError;

/// One point and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// Hash of the resolved inputs, of how the point is valued, and of the program's version.
    pub key: String,
    /// What the point sets.
    pub settings: Map<String, Value>,
    /// The columns.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl Row {
    /// A line of JSON with its end.
    pub fn line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// How every line begins.
const BEGIN: &str = "{\"key\":\"";

/// Why a study has no result.
#[derive(Debug, thiserror::Error)]
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
    /// The finished file cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
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
        let (mut whole, mut rows) = (0, HashMap::new());
        for (i, line) in text.split_inclusive(|b| *b == b'\n').enumerate() {
            if line.last() != Some(&b'\n') {
                break; // The process was killed while it wrote this line.
            }
            let row: Row = serde_json::from_slice(line).map_err(|e| {
                SpecError::file(name(), format!("line {} is no row of a sweep: {e}", i + 1))
                    .hint("only files that `stepsim sweep -o` wrote can be resumed")
            })?;
            rows.insert(row.key, row.outcome);
            whole += line.len() as u64;
        }
        // What was cut off is the beginning of a row, or the file is something else.
        let (torn, begin) = (&text[whole as usize..], BEGIN.as_bytes());
        if !torn.starts_with(begin) && !begin.starts_with(torn) {
            return Err(SpecError::file(name(), "ends in what is no row of a sweep")
                .hint("only files that `stepsim sweep -o` wrote can be resumed")
                .into());
        }
        if resume && whole < text.len() as u64 {
            file.set_len(whole).map_err(fail)?;
        }
        file.seek(SeekFrom::Start(whole)).map_err(fail)?;
        Ok((Journal { path: path.to_owned(), file }, rows))
    }

    /// Appends a row in one piece.
    ///
    /// # Errors
    /// The disk is full, say.
    pub fn append(&mut self, row: &Row) -> Result<(), StudyError> {
        let error = |error| StudyError::Journal { path: self.path.clone(), error };
        self.file.write_all(row.line().as_bytes()).map_err(error)
    }
}

/// The file is there and would be lost.
pub fn present(path: &Path) -> SpecError {
    SpecError::file(path.display().to_string(), "a result file of this name is there already")
        .hint("remove it to begin again; --resume goes on with one that was interrupted")
}

/// Rows as comma-separated values: key, one column for each path, then the columns of an outcome.
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
        std::iter::once("key").chain(paths.iter().map(|p| p.as_str())).map(cell).collect();
    header.extend(fixed.iter().map(ToString::to_string));
    header.extend(kinds.iter().map(|kind| format!("exposed_{kind}_s")));
    header.push("message".into());
    let mut text = header.join(",") + "\n";
    for row in rows {
        let value = serde_json::to_value(&row.outcome).unwrap_or_default();
        let plain = |value: Option<&Value>| match value {
            None => String::new(),
            Some(Value::String(text)) => cell(text),
            Some(other) => cell(&other.to_string()),
        };
        let mut cells = vec![row.key.clone()];
        cells.extend(paths.iter().map(|path| plain(row.settings.get(*path))));
        cells.extend(fixed.iter().map(|column| plain(value.get(column))));
        cells.extend(kinds.iter().map(|kind| plain(value.get("exposed_s").and_then(|e| e.get(kind)))));
        let message = row.outcome.message.iter().flat_map(|m| m.lines()).map(str::trim);
        cells.push(cell(&message.collect::<Vec<_>>().join("; ")));
        text += &(cells.join(",") + "\n");
    }
    text
}

/// Quoted where it must be (RFC 4180).
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}
