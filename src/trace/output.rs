//! Files that are there whole or not at all.
//!
//! What is written goes to a temporary file in the same folder, which takes the final name only when everything is in
//! it. If anything fails, the temporary file is removed and a file of that name from before is untouched. (A program that is told to stop calls
//! [`remove_partial_files`]; one killed outright leaves its temporary file, `.NAME.PID.partial`, but never half a file under the final name.)
//! Compression runs on a second thread, a few blocks behind the writer. A device such as `/dev/null` is written
//! directly.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use flate2::Compression;
use flate2::write::GzEncoder;

/// Format of a timeline file, told by the extension of its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Chrome trace JSON: `.json`.
    Chrome,
    /// Perfetto protobuf: `.pftrace`.
    Perfetto,
}

impl Format {
    /// Format and compression that a file name asks for: `.json`, `.pftrace`, each with `.gz` if compressed.
    ///
    /// # Errors
    /// If the extension is another.
    pub fn of(path: &Path) -> Result<(Format, bool), OutputError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_lowercase();
        let (stem, compressed) = match name.strip_suffix(".gz") {
            Some(stem) => (stem, true),
            None => (name.as_str(), false),
        };
        match stem.rsplit_once('.').map(|(_, extension)| extension) {
            Some("json") => Ok((Format::Chrome, compressed)),
            None if name == "-" => Ok((Format::Chrome, false)),
            Some("pftrace" | "perfetto-trace") => Ok((Format::Perfetto, compressed)),
            _ if path.starts_with("/dev") => Ok((Format::Chrome, compressed)),
            _ => Err(OutputError::Extension { path: path.to_owned() }),
        }
    }
}

/// Why a file was not written. Nothing is left under its name.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
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
    /// The file cannot be made.
    #[error("cannot create `{}`: {error}; {}", path.display(), advice(error))]
    Create {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
    /// The file cannot be written to its end.
    #[error("cannot write `{}`: {error}; {}; nothing was left under that name", path.display(), advice(error))]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system says.
        error: io::Error,
    },
}

/// What to do about an error of the system.
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

/// A file on its way. Dropped without [`Output::finish`], it is gone.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    /// The temporary file and the name that it will take; absent for a device.
    pending: Option<(PathBuf, PathBuf)>,
    channel: Channel,
}

/// Where the bytes go.
#[derive(Debug)]
enum Channel {
    Plain(File),
    Stdout(io::Stdout),
    Gzip(Gzip),
    #[cfg(test)]
    Limited(tests::Limited),
}

impl Output {
    /// Begins a file; compressed with gzip if `compressed`.
    ///
    /// # Errors
    /// If the folder does not exist or may not be written to, or if the path is a folder.
    pub fn create(path: &Path, compressed: bool) -> Result<Output, OutputError> {
        if path == Path::new("-") {
            let channel = Channel::Stdout(io::stdout());
            return Ok(Output { path: path.to_owned(), pending: None, channel });
        }
        let fail = |error| OutputError::Create { path: path.to_owned(), error };
        // A link keeps being one: what it points to is replaced.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
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
        let channel = if compressed { Channel::Gzip(Gzip::new(file)) } else { Channel::Plain(file) };
        Ok(Output { path: path.to_owned(), pending, channel })
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
            Channel::Plain(file) => file.flush()?,
            Channel::Stdout(stdout) => stdout.flush()?,
            Channel::Gzip(gzip) => gzip.finish()?,
            #[cfg(test)]
            Channel::Limited(limited) => limited.flush()?,
        }
        if let Some((temporary, target)) = &self.pending {
            fs::rename(temporary, target)?;
            partial_files().remove(temporary);
            self.pending = None;
        }
        Ok(())
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.channel {
            Channel::Plain(file) => file.write(bytes),
            Channel::Stdout(stdout) => stdout.write(bytes),
            Channel::Gzip(gzip) => gzip.send(bytes).map(|()| bytes.len()),
            #[cfg(test)]
            Channel::Limited(limited) => limited.write(bytes),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Output {
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
struct Gzip {
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
            let mut encoder = GzEncoder::new(file, Compression::fast());
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// A disk that is full after some bytes.
    #[derive(Debug)]
    pub struct Limited {
        pub file: File,
        pub room: usize,
    }

    impl Write for Limited {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let n = self.file.write(&bytes[..bytes.len().min(self.room)])?;
            self.room -= n;
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.file.flush()
        }
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn the_name_tells_the_format() {
        let of = |name: &str| Format::of(Path::new(name)).map_err(|e| e.to_string());
        assert_eq!(of("a/step.json"), Ok((Format::Chrome, false)));
        assert_eq!(of("step.JSON.gz"), Ok((Format::Chrome, true)));
        assert_eq!(of("step.pftrace"), Ok((Format::Perfetto, false)));
        assert_eq!(of("step.v2.pftrace.gz"), Ok((Format::Perfetto, true)));
        assert_eq!(
            of("step.txt").unwrap_err(),
            "cannot tell the format of trace `step.txt` from its name; end it in .json, .json.gz, .pftrace or \
             .pftrace.gz"
        );
    }

    #[test]
    fn a_file_gets_its_name_only_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "before").unwrap();
        let mut output = Output::create(&path, false).unwrap();
        output.write_all(b"half").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before");
        drop(output);
        assert_eq!(fs::read(&path).unwrap(), b"before");
        assert_eq!(names(folder.path()), ["a.json"]);
        let mut output = Output::create(&path, false).unwrap();
        output.write_all(b"whole").unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(folder.path()), ["a.json"]);
    }

    #[test]
    fn gzip_gives_back_what_went_in() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json.gz");
        let text: Vec<u8> = (0..3_000_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 27) as u8).collect();
        let mut output = Output::create(&path, true).unwrap();
        for block in text.chunks(100_000) {
            output.write_all(block).unwrap();
        }
        output.finish().unwrap();
        let mut back = Vec::new();
        flate2::read::GzDecoder::new(File::open(&path).unwrap()).read_to_end(&mut back).unwrap();
        assert!(back == text, "the decompressed bytes differ");
    }

    /// An output on a full disk, plain or compressed.
    fn on_full_disk(path: &Path, room: usize, compressed: bool) -> Output {
        let mut output = Output::create(path, false).unwrap();
        let Channel::Plain(file) = &output.channel else { panic!("a plain file was asked for") };
        let limited = Limited { file: file.try_clone().unwrap(), room };
        output.channel =
            if compressed { Channel::Gzip(Gzip::new(limited)) } else { Channel::Limited(limited) };
        output
    }

    #[test]
    fn a_full_disk_leaves_nothing_behind() {
        for compressed in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.json");
            let mut output = on_full_disk(&path, 1000, compressed);
            let noise: Vec<u8> =
                (0..400_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 19) as u8).collect();
            let mut failed = None;
            for block in noise.chunks(1000).cycle().take(4000) {
                if let Err(error) = output.write_all(block) {
                    failed = Some(output.error(error));
                    break;
                }
            }
            let message = failed.expect("the disk is full").to_string();
            let expected = format!(
                "cannot write `{}`: no storage space; free space there, choose another disk, or write less (fewer \
                 ranks, a window, .gz); nothing was left under that name",
                path.display()
            );
            assert_eq!(message, expected);
            drop(output);
            assert_eq!(names(folder.path()), [""; 0]);
        }
    }

    #[test]
    fn a_disk_that_is_full_at_the_very_end_fails_too() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json.gz");
        let mut output = on_full_disk(&path, 5, true);
        output.write_all(b"few bytes, which stay in the compressor until the end").unwrap();
        let message = output.finish().unwrap_err().to_string();
        assert!(message.contains("no storage space"), "{message}");
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_full_device_is_an_error_and_stays_a_device() {
        let mut output = Output::create(Path::new("/dev/full"), false).unwrap();
        let error = output.write_all(b"x").unwrap_err();
        let message = output.error(error).to_string();
        assert!(message.starts_with("cannot write `/dev/full`: No space left on device"), "{message}");
        drop(output);
        assert!(Path::new("/dev/full").exists());
    }

    #[test]
    fn a_folder_that_is_not_there_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("no/such/a.json");
        let message = Output::create(&path, false).unwrap_err().to_string();
        assert!(message.contains("no/such/a.json"), "{message}");
        assert!(message.ends_with("make the folder first, or choose another path"), "{message}");
        let message = Output::create(folder.path(), false).unwrap_err().to_string();
        assert!(message.ends_with("name a file in a folder that exists"), "{message}");
    }
}
