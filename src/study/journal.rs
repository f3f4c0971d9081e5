//! The file of a sweep while it runs.
//!
//! It holds one JSON line for each finished point, in the order in which they finish, written in one piece (in closed
//! form, for up to 256 that differ in their batch alone). A process killed at any moment leaves whole lines and
//! perhaps the beginning of one; a machine that loses power perhaps several broken ones. Resuming drops them and says
//! so. One process at a time writes a file: it holds a lock on it. At the end a file of all rows in the order of the
//! points takes its name. Memory holds where each row stands, not the row: a process with a million of them takes 0.4
//! GB, and took 1.9 with the rows.

use std::collections::HashMap;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use super::csv::{CsvColumns, of_csv};
use super::rows::{Row, StudyError, present};
use stepsim_read::trace::{OutputError, TimelineFile};
use stepsim_spec::SpecError;

/// How every line begins.
const BEGIN: &str = "{\"key\":\"";

/// Bytes of the finished file that are written in one piece.
const WRITTEN_AT_ONCE: usize = 1 << 16;

/// Where the line of a row stands in its file.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinePlace {
    at: u64,
    bytes: usize,
}

/// A result file on its way.
#[derive(Debug)]
pub(super) struct Journal {
    path: PathBuf,
    file: File,
    end: u64,
    /// By key.
    places: HashMap<String, LinePlace>,
    /// Numbers of the points that were valued by this sweep.
    rows: Vec<(usize, LinePlace)>,
    /// Bytes of broken lines at its end that were dropped.
    pub dropped: u64,
}

impl Journal {
    /// Begins a result file, or with `resume` opens one that may be there already.
    ///
    /// # Errors
    /// The file is there and `resume` is not asked for, another process writes it, it holds something else than rows,
    /// or it cannot be opened.
    pub fn open(path: &Path, resume: bool) -> Result<Journal, StudyError> {
        let fail = |error| OutputError::Create { path: path.to_owned(), error };
        if !resume && path.is_file() {
            return Err(present(path).into());
        }
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(resume)
            .create_new(!resume)
            .truncate(false)
            .open(path)
            .map_err(fail)?;
        match file.try_lock() {
            // A file system without locks keeps none.
            Ok(()) | Err(TryLockError::Error(_)) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(path).into()),
        }
        let mut places = HashMap::new();
        let mut end = 0;
        if resume {
            end = each_row(&file, &path.display().to_string(), &mut |row, place| {
                places.insert(row.key, place);
            })?;
        }
        let dropped = file.metadata().map_err(fail)?.len().saturating_sub(end);
        if dropped > 0 {
            file.set_len(end).map_err(fail)?;
        }
        file.seek(SeekFrom::Start(end)).map_err(fail)?;
        Ok(Journal { path: path.to_owned(), file, end, places, rows: Vec::new(), dropped })
    }

    /// Keys of the rows that it holds.
    pub fn keys(&self) -> impl Iterator<Item = &String> {
        self.places.keys()
    }

    /// Appends the lines of rows in one piece.
    ///
    /// # Errors
    /// The disk is full, say.
    pub fn append(&mut self, rows: Vec<Row>) -> Result<(), StudyError> {
        let mut lines = String::new();
        for row in rows {
            let point = row.point as usize;
            let place = self.place(row, &mut lines);
            self.rows.push((point, place));
        }
        self.write(&lines)
    }

    /// Adds a row to `lines`, which are written next.
    fn place(&mut self, row: Row, lines: &mut String) -> LinePlace {
        let line = row.line();
        let place = LinePlace { at: self.end + lines.len() as u64, bytes: line.len() };
        self.places.insert(row.key, place);
        lines.push_str(&line);
        place
    }

    fn write(&mut self, lines: &str) -> Result<(), StudyError> {
        self.file.write_all(lines.as_bytes()).map_err(|error| self.error(error))?;
        self.end += lines.len() as u64;
        Ok(())
    }

    /// Writes all rows in the order of the points to `output`, and shows each. `repeated` are points with the keys of
    /// rows that were valued for another point, or before the sweep was interrupted; `again` makes such a row the
    /// point's own.
    ///
    /// # Errors
    /// The file cannot be written, or the journal no longer be read.
    pub fn finish(
        mut self,
        output: &Path,
        repeated: &[(usize, String)],
        again: &dyn Fn(usize, &mut Row),
        see: &mut dyn FnMut(Row),
    ) -> Result<(), StudyError> {
        let own = std::mem::take(&mut self.rows).into_iter().map(|(point, place)| (point, place, false));
        let others = repeated.iter().filter_map(|(point, key)| Some((*point, *self.places.get(key)?, true)));
        let mut places: Vec<(usize, LinePlace, bool)> = own.chain(others).collect();
        places.sort_unstable_by_key(|(point, ..)| *point);
        let (path, file) = (self.path, self.file);
        let mut lines = JournalLines { at: 0, reader: BufReader::new(file) };
        let mut each = |see: &mut dyn FnMut(Row) -> io::Result<()>| -> io::Result<()> {
            lines.reader.seek(SeekFrom::Start(0))?;
            lines.at = 0;
            for &(point, place, other) in &places {
                let mut row: Row = serde_json::from_slice(&lines.read(place)?)?;
                if other {
                    again(point, &mut row);
                }
                see(row)?;
            }
            Ok(())
        };
        let fail = |error| StudyError::Journal { path: path.clone(), error };
        let csv = of_csv(output);
        let mut columns = CsvColumns::default();
        if csv {
            each(&mut |row| {
                columns.see(&row);
                Ok(())
            })
            .map_err(fail)?;
        }
        let mut written = TimelineFile::create(output, false)?;
        let mut text = if csv { columns.head() } else { String::new() };
        let wrote = each(&mut |row| {
            text += &if csv { columns.line(&row) } else { row.line() };
            if text.len() >= WRITTEN_AT_ONCE {
                written.write_all(text.as_bytes())?;
                text.clear();
            }
            see(row);
            Ok(())
        });
        wrote.and_then(|()| written.write_all(text.as_bytes())).map_err(|e| written.error(e))?;
        Ok(written.finish()?)
    }

    fn error(&self, error: io::Error) -> StudyError {
        StudyError::Journal { path: self.path.clone(), error }
    }
}

/// A file whose lines are read where they stand: one behind the other, or far apart where points were valued together.
struct JournalLines {
    at: u64,
    reader: BufReader<File>,
}

impl JournalLines {
    fn read(&mut self, place: LinePlace) -> io::Result<Vec<u8>> {
        self.reader.seek_relative(place.at as i64 - self.at as i64)?;
        let mut line = vec![0; place.bytes];
        self.reader.read_exact(&mut line)?;
        self.at = place.at + place.bytes as u64;
        Ok(line)
    }
}

/// The file belongs to another process.
fn in_use(path: &Path) -> SpecError {
    SpecError::file(path.display().to_string(), "another process writes this file")
        .hint("wait for it, or give each a part: --shard 1/2 -o one.jsonl, then `stepsim sweep merge`")
}

/// Shows each whole row at the beginning of a result file, and returns how many bytes they take. Behind them broken
/// lines may stand: what a process or a machine left that stopped while it wrote.
///
/// # Errors
/// It holds something else, or rows behind broken lines.
pub(super) fn each_row(
    file: &File,
    name: &str,
    see: &mut dyn FnMut(Row, LinePlace),
) -> Result<u64, SpecError> {
    let hint = "only JSON lines that `stepsim sweep -o` wrote can be read";
    let (mut whole, mut number) = (0, 0);
    let mut broken: Option<SpecError> = None;
    let mut first_broken = Vec::new();
    let mut reader = BufReader::with_capacity(1 << 20, file);
    let mut line = Vec::new();
    loop {
        line.clear();
        let bytes = reader
            .read_until(b'\n', &mut line)
            .map_err(|e| SpecError::file(name, format!("cannot be read: {e}")).hint("check the path"))?;
        number += 1;
        if bytes == 0 {
            break;
        }
        let ends = line.last() == Some(&b'\n');
        match (serde_json::from_slice(&line), broken.take()) {
            (Ok(row), None) if ends => {
                see(row, LinePlace { at: whole, bytes });
                whole += bytes as u64;
            }
            (Ok(_), Some(broken)) => return Err(broken),
            (result, before) => {
                if before.is_none() {
                    first_broken.clone_from(&line);
                }
                let why = result.err().map_or("it has no end".to_string(), |e| e.to_string());
                let error =
                    SpecError::file(name, format!("line {number} is no row of a sweep: {why}")).hint(hint);
                broken = before.or(Some(error));
            }
        }
    }
    // Behind rows a line may be anything; a file without any is one of rows if it begins as they do.
    let begins = first_broken.starts_with(BEGIN.as_bytes()) || BEGIN.as_bytes().starts_with(&first_broken);
    match broken.filter(|_| whole == 0 && !begins) {
        Some(error) => Err(error),
        None => Ok(whole),
    }
}
