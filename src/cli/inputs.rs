//! Files that a command reads by itself, beside the documents that [`stepsim_spec`] loads.

use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::de::DeserializeOwned;

use stepsim_located::from_text;
use stepsim_spec::SpecError;
use stepsim_spec::files::note_read;

/// Most bytes that a file may hold, packed or unpacked: some ten times the largest trace of a step that was met.
const MOST: u64 = 1 << 30;

/// The bytes of a file, unpacked if they are packed.
///
/// # Errors
/// It cannot be read, or is larger than anything that is read here.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, SpecError> {
    note_read(path);
    let unpacked = || -> std::io::Result<Vec<u8>> {
        let limited = |file: &mut dyn Read| {
            let mut bytes = Vec::new();
            match file.take(MOST + 1).read_to_end(&mut bytes)? {
                read if read as u64 > MOST => {
                    Err(std::io::Error::other(format!("it holds more than {MOST} bytes")))
                }
                _ => Ok(bytes),
            }
        };
        let bytes = limited(&mut std::fs::File::open(path)?)?;
        if !bytes.starts_with(&[0x1F, 0x8B]) {
            return Ok(bytes);
        }
        limited(&mut MultiGzDecoder::new(bytes.as_slice()))
    };
    unpacked().map_err(|e| SpecError::file(path.display().to_string(), format!("cannot be read: {e}")))
}

/// The text of a file, unpacked if it is packed.
///
/// # Errors
/// It cannot be read, or is no text.
pub(super) fn text(path: &Path) -> Result<String, SpecError> {
    let no_text =
        |_| SpecError::file(path.display().to_string(), "cannot be read: the file is not UTF-8 text");
    String::from_utf8(bytes(path)?).map_err(no_text)
}

/// The one document of a file that a command of ours has written, unpacked if it is packed.
///
/// # Errors
/// It cannot be read, or is another document than is `allowed`.
pub(super) fn document<T: DeserializeOwned>(path: &Path, allowed: &str) -> Result<T, SpecError> {
    let bytes = bytes(path).map_err(|e| e.allowed(allowed))?;
    let file = path.display().to_string();
    let text = String::from_utf8_lossy(&bytes);
    from_text(&text).map_err(|e| SpecError::at(e.path, e.problem).in_file(&file).allowed(allowed))
}
