//! Files of other software, where one of ours is meant: whoever knows them registers how they are read.

use std::sync::OnceLock;

use serde_json::Value;

use super::SpecError;

/// How files of other software are read.
#[derive(Clone, Copy, Debug)]
pub struct Readers {
    /// The path in a word that says more: `run.sh` of `TP=4 run.sh`.
    pub path: fn(&str) -> String,
    /// A workload of a file's text and name; `None` where the file is of no other software.
    pub workload: fn(&str, &str) -> Result<Option<Value>, SpecError>,
    /// A model of a document and the name of its file; as it is where it is of no other software.
    pub model: fn(Value, &str) -> Result<Value, SpecError>,
}

static READERS: OnceLock<Readers> = OnceLock::new();

/// From now on files of other software are read so, all of them by the first who calls this.
pub fn register(readers: Readers) {
    READERS.get_or_init(|| readers);
}

/// Those registered; without any, every file is taken for one of ours.
pub(super) fn readers() -> Readers {
    let none = Readers { path: str::to_owned, workload: |_, _| Ok(None), model: |value, _| Ok(value) };
    READERS.get().copied().unwrap_or(none)
}
