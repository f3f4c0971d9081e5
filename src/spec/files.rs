//! Where the text of named files comes from: the disk, or wherever a caller keeps it.
//!
//! Nothing else in the library reads a file: what comes after loading has its content in place.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// The largest input that is read, in bytes: rank maps of the largest machines are a few megabytes.
const MAX_BYTES: u64 = 64 << 20;

/// A place to read files from.
pub trait Files {
    /// The text at a path, as it stands in a file that refers to it or on the command line.
    ///
    /// # Errors
    /// Why it cannot be read, in words that follow "cannot be read: ".
    fn read(&self, path: &Path) -> Result<String, String>;
}

/// Files that were read from the disk; nothing is kept unless that is asked for.
static READ: Mutex<Option<BTreeSet<PathBuf>>> = Mutex::new(None);

/// From now on, files that are read are known, those before forgotten: for a command that must not write over its
/// inputs.
pub fn keep_reads() {
    READ.lock().unwrap_or_else(PoisonError::into_inner).replace(BTreeSet::new());
}
/// A file is read.
pub fn note_read(path: &Path) {
    if let Some(read) = READ.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        read.extend(path.canonicalize());
    }
}
/// True if a file, links followed, was read since [`keep_reads`].
pub fn was_read(path: &Path) -> bool {
    READ.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_some_and(|read| read.contains(path))
}

/// Texts that stand in for files: see [`lend`].
static LENT: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());

/// From now on these texts are read under their names, before any file: for a program without a disk, as in a browser.
pub fn lend(texts: BTreeMap<String, String>) {
    *LENT.lock().unwrap_or_else(PoisonError::into_inner) = texts;
}
/// A text that was lent under this name.
fn lent(path: &Path) -> Option<String> {
    LENT.lock().unwrap_or_else(PoisonError::into_inner).get(path.to_str()?).cloned()
}
/// The path below `root` and the text of each JSON file under the folder `name`; schemas, which are for editors, are
/// left out.
pub(super) fn json_below(root: &Path, name: &str, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(root.join(name)).into_iter().flatten().flatten() {
        let (path, name) = (entry.path(), format!("{name}/{}", entry.file_name().to_string_lossy()));
        if path.is_dir() {
            json_below(root, &name, found);
        } else if name.ends_with(".json") && !name.ends_with(".schema.json") {
            found.extend(std::fs::read_to_string(&path).ok().map(|text| (name, text)));
        }
    }
}

/// True if there is something to read at a path.
pub fn exists(path: &Path) -> bool {
    path.exists() || lent(path).is_some()
}

/// The file system; `-` is the standard input.
#[derive(Clone, Copy, Debug, Default)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path) -> Result<String, String> {
        if let Some(text) = lent(path) {
            return Ok(text);
        }
        let mut bytes = Vec::new();
        let source: Box<dyn Read> = match path.to_str() {
            Some("-") => Box::new(std::io::stdin()),
            _ => Box::new(std::fs::File::open(path).map_err(|e| e.to_string())?),
        };
        note_read(path);
        source.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(|e| e.to_string())?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(format!("it is larger than {} MiB, which no input is", MAX_BYTES >> 20));
        }
        String::from_utf8(bytes).map_err(|_| "the file is not UTF-8 text".to_string())
    }
}

/// Another place of files that notes which are read.
pub(super) struct RecordingFiles<'a> {
    files: &'a dyn Files,
    paths: RefCell<Vec<PathBuf>>,
}

impl<'a> RecordingFiles<'a> {
    pub(super) fn new(files: &'a dyn Files) -> RecordingFiles<'a> {
        RecordingFiles { files, paths: RefCell::default() }
    }
    /// Those that have been read.
    pub(super) fn paths(self) -> Vec<PathBuf> {
        self.paths.into_inner()
    }
}

impl Files for RecordingFiles<'_> {
    fn read(&self, path: &Path) -> Result<String, String> {
        self.paths.borrow_mut().push(path.to_owned());
        self.files.read(path)
    }
}

/// Texts by path, for callers that have no files: an empty map refuses every path.
impl Files for BTreeMap<String, String> {
    fn read(&self, path: &Path) -> Result<String, String> {
        let text = path.to_str().and_then(|path| self.get(path));
        text.cloned().ok_or_else(|| "no file of this name was given".to_string())
    }
}
