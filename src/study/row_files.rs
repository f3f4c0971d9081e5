//! Files of rows, as lines or as a table.

use std::io::Write;
use std::path::Path;

use super::csv::{csv, of_csv};
use super::journal::each_row;
use super::rows::{Row, StudyError, write_text};
use stepsim_read::trace::TimelineFile;
use stepsim_spec::SpecError;

/// Rows that are written in one piece into a finished file.
const ROWS_AT_ONCE: usize = 256;

/// Reads the rows of a finished or interrupted result file; a line that was cut off is passed over.
///
/// # Errors
/// It cannot be read or holds something else.
pub fn read_rows(path: &Path) -> Result<Vec<Row>, SpecError> {
    let name = path.display().to_string();
    let file = std::fs::File::open(path)
        .map_err(|e| SpecError::file(&name, format!("cannot be read: {e}")).hint("check the path"))?;
    let mut rows = Vec::new();
    each_row(&file, &name, &mut |row, _| rows.push(row))?;
    Ok(rows)
}

/// Writes rows as their file's name says: comma-separated values, or JSON lines.
///
/// # Errors
/// The file cannot be written.
pub fn write_rows(path: &Path, rows: &[Row]) -> Result<(), StudyError> {
    if of_csv(path) {
        return write_text(path, &csv(rows));
    }
    let mut output = TimelineFile::create(path, false)?;
    for some in rows.chunks(ROWS_AT_ONCE) {
        let lines: String = some.iter().map(Row::line).collect();
        output.write_all(lines.as_bytes()).map_err(|e| output.error(e))?;
    }
    Ok(output.finish()?)
}
