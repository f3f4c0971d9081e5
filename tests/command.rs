//! The program as people call it: a line of words, and what it says.

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// How a command ended and what it printed.
pub struct Said {
    pub line: String,
    pub status: Option<i32>,
    pub out: String,
    pub error: String,
}

/// The words of a line; what stands between `'` is one word.
pub fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split('\'').enumerate().flat_map(|(i, part)| match i % 2 {
        0 => part.split_whitespace().collect(),
        _ => vec![part],
    })
}

/// Runs `stepsim` with the words of a line.
pub fn stepsim(line: &str) -> Said {
    stepsim_in(Path::new("."), line)
}

/// The same in a folder.
pub fn stepsim_in(folder: &Path, line: &str) -> Said {
    stepsim_of_width(folder, line, 110)
}

/// The same on a screen of so many columns.
pub fn stepsim_of_width(folder: &Path, line: &str, columns: u16) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stepsim"));
    command.args(words(line));
    let done = command.current_dir(folder).env("COLUMNS", columns.to_string()).output().expect("a run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("UTF-8");
    let (status, out, error) = (done.status.code(), text(done.stdout), text(done.stderr));
    Said { line: line.into(), status, out, error }
}

impl Said {
    /// What it printed where it worked.
    pub fn ok(self) -> String {
        assert_eq!(self.status, Some(0), "{}: {}", self.line, self.error);
        self.out
    }
    /// The same as JSON.
    pub fn json(self) -> Value {
        serde_json::from_str(&self.ok()).expect("JSON")
    }
    /// Why it was refused.
    pub fn refused(self) -> String {
        assert_eq!(self.status, Some(2), "{}: {}", self.line, self.error);
        self.error
    }
}

/// What a file of JSON holds.
pub fn json(path: impl AsRef<Path>) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("a file")).expect("JSON")
}

/// A folder of its own, gone when it is dropped, in which commands run.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Folder {
        Folder(tempfile::tempdir().expect("a folder"))
    }
    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).expect("a file");
    }
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).expect("a file")
    }
    pub fn json(&self, name: &str) -> Value {
        json(self.path(name))
    }
    pub fn stepsim(&self, line: &str) -> Said {
        stepsim_in(self.0.path(), line)
    }
    pub fn stepsim_of_width(&self, line: &str, columns: u16) -> Said {
        stepsim_of_width(self.0.path(), line, columns)
    }
}
