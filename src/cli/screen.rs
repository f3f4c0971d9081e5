//! Text for people: on standard output, unless a document stands there.

use std::io;
use std::io::Write;

use super::failure::Failure;
use super::outputs;

/// Prints a table or a message to standard output, unless a document stands there: then nothing else does.
///
/// # Errors
/// As `put`.
pub fn say(text: &str) -> Result<(), Failure> {
    if outputs::document_on_stdout() { Ok(()) } else { put(text) }
}

/// Writes to standard output. That its reader has gone (`| head`) is no failure.
///
/// # Errors
/// Standard output cannot be written, for example to a full disk (status 1).
pub(super) fn put(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::from(e)),
        _ => Ok(()),
    }
}

/// Columns of the terminal; 110 where standard output is none.
pub fn width() -> u16 {
    terminal_size::terminal_size().map_or(110, |(w, _)| w.0.clamp(60, 140))
}
