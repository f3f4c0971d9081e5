//! From a file to a typed value.

use std::io::Read;
use std::path::Path;

use serde::de::DeserializeOwned;

use stepsim_step::spec::{SpecError, json};

/// Largest decompressed file that is read, in bytes: real files are a few kilobytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The text of a file, decompressed when it is gzip (told by its first two bytes, whatever its name).
pub(super) fn text(path: &Path) -> Result<String, SpecError> {
    let name = path.display().to_string();
    let fail = |what: String| SpecError::file(&name, what);
    let file = std::fs::File::open(path)
        .map_err(|e| fail(format!("cannot be opened: {e}")).hint("check the path"))?;
    let mut raw = Vec::new();
    file.take(MAX_FILE_BYTES + 1).read_to_end(&mut raw).map_err(|e| fail(format!("cannot be read: {e}")))?;
    if raw.starts_with(&[0x1f, 0x8b]) {
        let mut text = Vec::new();
        flate2::read::MultiGzDecoder::new(raw.as_slice())
            .take(MAX_FILE_BYTES + 1)
            .read_to_end(&mut text)
            .map_err(|e| fail(format!("is not valid gzip: {e}")))?;
        raw = text;
    }
    if raw.len() as u64 > MAX_FILE_BYTES {
        return Err(fail(format!("is larger than {} MiB, which no Calculon file is", MAX_FILE_BYTES >> 20)));
    }
    String::from_utf8(raw).map_err(|e| fail(format!("is not UTF-8 text: {e}")))
}

/// One JSON document of an exact shape, no key twice.
pub(super) fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, SpecError> {
    serde_path_to_error::deserialize(json::read(file, text)?).map_err(|e| {
        let path = e.path().to_string();
        let path = if path == "." { String::new() } else { path };
        explain(path, &e.inner().to_string()).in_file(file)
    })
}

/// serde says what it expected in one sentence with what it found; split, so that every message reads alike.
fn explain(path: String, what: &str) -> SpecError {
    let (problem, allowed) = match what.split_once(", expected ") {
        Some((problem, allowed)) => (problem, allowed.replace('`', "").replace("one of ", "")),
        None => (what, String::new()),
    };
    let hint = if problem.starts_with("unknown field") {
        "Calculon takes no other keys: delete the key or correct its spelling"
    } else if problem.starts_with("missing field") {
        "Calculon has no default values: add the key"
    } else {
        ""
    };
    SpecError::at(path, problem).allowed(readable(&allowed)).hint(hint)
}

/// serde's type names in words.
fn readable(allowed: &str) -> String {
    match allowed {
        "u64" => "a whole number, 0 or more".into(),
        "f64" => "a number".into(),
        "a tuple of size 2" => "a pair of two numbers".into(),
        "a sequence" => "a list".into(),
        "a boolean" => "true or false".into(),
        other if other.starts_with("struct ") => "an object, each field by its name".into(),
        other => other.to_string(),
    }
}
