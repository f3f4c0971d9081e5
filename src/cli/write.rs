//! Files that commands write, whole or not at all.

use std::io::Write;
use std::path::Path;

use super::failure::Failure;
use super::screen::put;
use crate::read::trace::Output;

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

/// Writes a file, whole or not at all; compressed if its name ends in .gz.
///
/// # Errors
/// The file cannot be written (status 1).
pub(super) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut output = Output::create(path, path.extension().is_some_and(|e| e == "gz"))?;
    output.write_all(bytes).map_err(|e| Failure::run(output.error(e)))?;
    output.finish().map_err(Failure::run)
}
