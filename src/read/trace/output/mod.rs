//! Files that are there whole or not at all.
//!
//! Output goes to a temporary file in the same folder, which takes the final name only when everything is in
//! it. If anything fails, the temporary file is removed and a file of that name from before is untouched. (A program
//! that is told to stop calls [`remove_partial_files`]; one killed outright leaves its temporary file,
//! `.NAME.PID.partial`, but never half a file under the final name.) Compression runs on a second thread, a few
//! blocks behind the writer. A device such as `/dev/null` is written directly.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;

use flate2::Compression;
use flate2::write::GzEncoder;

/// A fifth smaller than at level 1, for a quarter more time.
const LEVEL: Compression = Compression::new(2);

/// True if a path is an input, which no output may replace.
static GUARD: OnceLock<fn(&Path) -> bool> = OnceLock::new();

/// From now on an output that would replace an input is refused.
pub fn guard_inputs(is_input: fn(&Path) -> bool) {
    GUARD.get_or_init(|| is_input);
}

/// Format of a timeline file, told by the extension of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimelineFormat {
    /// Chrome trace JSON: `.json`.
    Chrome,
    /// Perfetto protobuf: `.pftrace`.
    Perfetto,
}

impl TimelineFormat {
    /// Format and compression that a file name asks for: `.json`, `.pftrace`, each with `.gz` if compressed.
    ///
    /// # Errors
    /// If the extension is another.
    pub fn of(path: &Path) -> Result<(TimelineFormat, bool), OutputError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let (stem, compressed) = match name.strip_suffix(".gz") {
            Some(stem) => (stem, true),
            None => (name.as_str(), false),
        };
        match stem.rsplit_once('.').map(|(_, extension)| extension) {
            Some("json") => Ok((TimelineFormat::Chrome, compressed)),
            None if name == "-" => Ok((TimelineFormat::Chrome, false)),
            Some("pftrace" | "perfetto-trace") => Ok((TimelineFormat::Perfetto, compressed)),
            _ if path.starts_with("/dev") => Ok((TimelineFormat::Chrome, compressed)),
            _ => Err(OutputError::Extension { path: path.to_owned() }),
        }
    }
}

/// Why a file was not written. Nothing is left under its name.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// The name does not tell the format.
    #[error(
        "cannot tell the format of trace `{}` from its name; end it in .json, .json.gz, .pftrace or .pftrace.gz",
        path.display()
    )]
    Extension {
        /// The file.
        path: PathBuf,
    },
    /// It is a file from which this was made.
    #[error("`{}` is an input of this command and is not overwritten; choose another name", path.display())]
    Input {
        /// The file.
        path: PathBuf,
    },
    /// The file cannot be made.
    #[error("cannot create `{}`: {error}; {}", path.display(), advice(error))]
    Create {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// The file cannot be written to its end.
    #[error("cannot write `{}`: {error}; {}; nothing was left under that name", path.display(), advice(error))]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
}

/// The remedy for an error of the system.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "make the folder first, or choose another path",
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "choose a path where you may write"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free space there, choose another disk, or write less (fewer ranks, a window, .gz)"
        }
        io::ErrorKind::IsADirectory | io::ErrorKind::NotADirectory => "name a file in a folder that exists",
        _ => "choose another path",
    }
}

/// A file on its way. Dropped without [`TimelineFile::finish`], it is gone.
#[derive(Debug)]
pub struct TimelineFile {
    path: PathBuf,
    /// The temporary file and the name that it will take; absent for a device.
    pending: Option<(PathBuf, PathBuf)>,
    channel: ByteChannel,
}

/// Where the bytes go.
#[derive(Debug)]
enum ByteChannel {
    Plain(File),
    Stdout(io::Stdout),
    Gzip(Gzip),
}

impl TimelineFile {
    /// Begins a file; compressed with gzip if `compressed`.
    ///
    /// # Errors
    /// If the folder does not exist or may not be written to, or if the path is a folder.
    pub fn create(path: &Path, compressed: bool) -> Result<TimelineFile, OutputError> {
        if path == Path::new("-") {
            let channel = ByteChannel::Stdout(io::stdout());
            return Ok(TimelineFile { path: path.to_owned(), pending: None, channel });
        }
        let fail = |error| OutputError::Create { path: path.to_owned(), error };
        // A link keeps being one: what it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if GUARD.get().is_some_and(|is_input| is_input(&target)) {
            return Err(OutputError::Input { path: path.to_owned() });
        }
        let (file, pending) = match fs::metadata(&target) {
            Ok(meta) if meta.is_dir() => return Err(fail(io::ErrorKind::IsADirectory.into())),
            Ok(meta) if !meta.is_file() => {
                (OpenOptions::new().write(true).open(&target).map_err(fail)?, None)
            }
            _ => {
                let temporary =
                    temporary_name(&target).ok_or_else(|| fail(io::ErrorKind::IsADirectory.into()))?;
                partial_files().insert(temporary.clone());
                (File::create(&temporary).map_err(fail)?, Some((temporary, target)))
            }
        };
        let channel = if compressed { ByteChannel::Gzip(Gzip::new(file)) } else { ByteChannel::Plain(file) };
        Ok(TimelineFile { path: path.to_owned(), pending, channel })
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// If the rest cannot be written; the file is then gone.
    pub fn finish(mut self) -> Result<(), OutputError> {
        self.close().map_err(|error| self.error(error))
    }

    /// An error of writing, with the file's name and what to do.
    pub fn error(&self, error: io::Error) -> OutputError {
        OutputError::Write { path: self.path.clone(), error }
    }

    fn close(&mut self) -> io::Result<()> {
        match &mut self.channel {
            ByteChannel::Plain(file) => file.flush()?,
            ByteChannel::Stdout(stdout) => stdout.flush()?,
            ByteChannel::Gzip(gzip) => gzip.finish()?,
        }
        if let Some((temporary, target)) = &self.pending {
            fs::rename(temporary, target)?;
            partial_files().remove(temporary);
            self.pending = None;
        }
        Ok(())
    }
}

impl Write for TimelineFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.channel {
            ByteChannel::Plain(file) => file.write(bytes),
            ByteChannel::Stdout(stdout) => stdout.write(bytes),
            ByteChannel::Gzip(gzip) => gzip.send(bytes).map(|()| bytes.len()),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for TimelineFile {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.pending {
            // Nothing can be done about a failure here, and the final name is not concerned.
            let _ = fs::remove_file(temporary);
            partial_files().remove(temporary);
        }
    }
}

/// Files on their way in this process.
fn partial_files() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    static FILES: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
    FILES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the files that are on their way: for a program that is told to stop.
pub fn remove_partial_files() {
    for file in partial_files().iter() {
        let _ = fs::remove_file(file);
    }
}

/// `.NAME.PID.partial` in the same folder, so that renaming cannot cross disks.
fn temporary_name(target: &Path) -> Option<PathBuf> {
    let name = target.file_name()?.to_string_lossy();
    Some(target.with_file_name(format!(".{name}.{}.partial", std::process::id())))
}

/// Blocks that may wait for compression.
const BLOCKS: usize = 8;

/// A thread that compresses what it is sent.
#[derive(Debug)]
pub struct Gzip {
    blocks: Option<SyncSender<Vec<u8>>>,
    /// Emptied blocks come back to be filled again.
    empty: Receiver<Vec<u8>>,
    thread: Option<JoinHandle<io::Result<()>>>,
}

impl Gzip {
    fn new(file: impl Write + Send + 'static) -> Gzip {
        let (blocks, full) = sync_channel::<Vec<u8>>(BLOCKS);
        let (back, empty) = sync_channel::<Vec<u8>>(BLOCKS + 2);
        let thread = std::thread::spawn(move || {
            let mut encoder = GzEncoder::new(file, LEVEL);
            for mut block in full {
                encoder.write_all(&block)?;
                block.clear();
                // The other side may be done with blocks already.
                let _ = back.try_send(block);
            }
            encoder.finish()?.flush()
        });
        Gzip { blocks: Some(blocks), empty, thread: Some(thread) }
    }

    /// Hands a block to the thread. If the thread has gone, the reason is its error.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut block = self.empty.try_recv().unwrap_or_default();
        block.extend_from_slice(bytes);
        match &self.blocks {
            Some(blocks) if blocks.send(block).is_ok() => Ok(()),
            _ => Err(self.finish().err().unwrap_or_else(|| io::ErrorKind::BrokenPipe.into())),
        }
    }

    /// Waits until all is compressed and written.
    fn finish(&mut self) -> io::Result<()> {
        self.blocks = None;
        match self.thread.take() {
            Some(thread) => thread.join().unwrap_or_else(|_| Err(io::Error::other("the compressor stopped"))),
            None => Ok(()),
        }
    }
}

impl Drop for Gzip {
    fn drop(&mut self) {
        // The thread must have let go of the file before the file is removed; its error has been told already.
        let _ = self.finish();
    }
}
