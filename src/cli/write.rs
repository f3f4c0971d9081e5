//! Files that commands write, whole or not at all.

use std::io::Write;
use std::path::Path;

use super::failure::Failure;
use super::screen::put;
use stepsim_read::trace::TimelineFile;

/// Writes a value as indented JSON, whole or not at all; `-` is the standard output.
///
/// # Errors
/// The file cannot be written (status 1).
pub fn write_json(path: &Path, value: &impl serde::Serialize) -> Result<(), Failure> {
    let mut text = serde_json::to_vec_pretty(value).map_err(Failure::run)?;
    text.push(b'\n');
    if path == Path::new("-") {
        return put(&String::from_utf8_lossy(&text));
    }
    write_file(path, &text)
}

/// Writes a report as [`write_json`] does, where one is asked for.
///
/// # Errors
/// The file cannot be written (status 1).
pub fn write_report(path: Option<&Path>, report: &impl serde::Serialize) -> Result<(), Failure> {
    path.map_or(Ok(()), |path| write_json(path, report))
}

/// Writes a page, where one is asked for.
///
/// # Errors
/// There is no page of it, or the file cannot be written (status 1).
pub fn write_page<E: std::fmt::Display>(
    path: Option<&Path>,
    page: impl FnOnce() -> Result<String, E>,
) -> Result<(), Failure> {
    path.map_or(Ok(()), |path| write_file(path, page().map_err(Failure::run)?.as_bytes()))
}

/// Writes a file, whole or not at all; compressed if its name ends in .gz.
///
/// # Errors
/// The file cannot be written (status 1).
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut output = TimelineFile::create(path, path.extension().is_some_and(|e| e == "gz"))?;
    output.write_all(bytes).map_err(|e| Failure::run(output.error(e)))?;
    output.finish().map_err(Failure::run)
}
