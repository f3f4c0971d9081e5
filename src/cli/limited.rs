//! Limits of the shell (`ulimit -v`, `-d`, `-f`): the system ends a program that goes beyond them, and does not ask
//! it. Where one is set the command runs in a child; the program itself tells what ended the child, and removes what
//! it was writing.

use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io};

use super::failure::Failure;
use stepsim_read::trace::remove_partial_files_of;

/// Tells the child that it is one.
const CHILD: &str = "STEPSIM_WITHIN_LIMITS";

/// Limits as the system names them, and as a shell sets them.
const LIMITS: [(&str, &str); 3] =
    [("Max address space", "ulimit -v"), ("Max data size", "ulimit -d"), ("Max file size", "ulimit -f")];

/// How long a child may take to stop that was told to.
const PATIENCE: Duration = Duration::from_secs(2);

/// True if the program was told to stop.
static STOPPED: AtomicBool = AtomicBool::new(false);

/// Runs the command line in a child where a limit is set, and returns its exit status; `written` are the files that
/// it may write. `None`: there is no limit, or this is the child.
pub(super) fn in_child(written: &[PathBuf]) -> Option<Result<u8, Failure>> {
    let limits = limits();
    if limits.is_empty() || env::var_os(CHILD).is_some() {
        return None;
    }
    let mut command = Command::new(env::current_exe().ok()?);
    command.args(env::args_os().skip(1)).env(CHILD, "1").env("RUST_BACKTRACE", "0");
    let mut child = command.spawn().ok()?;
    // Who stops the program from a terminal stops the child too.
    let _ = ctrlc::set_handler(|| STOPPED.store(true, Ordering::Relaxed));
    let pid = child.id();
    let status = wait(&mut child);
    let ended = status.map_err(Failure::run).and_then(|status| told(status, &limits));
    if !matches!(ended, Ok(0)) {
        written.iter().for_each(|path| remove_partial_files_of(pid, path));
    }
    Some(ended)
}

/// The limits that are set.
fn limits() -> Vec<&'static str> {
    let text = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let is_set = |name: &str| {
        let soft = text.lines().find_map(|line| line.strip_prefix(name)?.split_whitespace().next());
        soft.is_some_and(|soft| soft != "unlimited")
    };
    LIMITS.iter().filter(|(name, _)| is_set(name)).map(|(_, shell)| *shell).collect()
}

fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut stopped = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        if STOPPED.load(Ordering::Relaxed) && stopped.get_or_insert_with(Instant::now).elapsed() > PATIENCE {
            child.kill()?;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The exit status of a child, or what the system ended it for.
fn told(status: ExitStatus, limits: &[&str]) -> Result<u8, Failure> {
    const ABORTED: i32 = 6;
    const FILE_TOO_LARGE: i32 = 25;
    match (status.code(), signal(status)) {
        (Some(code), _) => Ok(code as u8),
        (None, Some(ABORTED)) if limits.iter().any(|limit| *limit != "ulimit -f") => {
            Err(Failure::memory(format!(
                "the command needs more memory than `{}` allows; nothing was left under the names of its \
                 outputs\n  what to do: raise the limit, or simulate less: fewer steps, no --no-fold, no timeline",
                limits.join("`, `")
            )))
        }
        (None, Some(FILE_TOO_LARGE)) => Err(Failure::run(
            "a file would be larger than `ulimit -f` allows; nothing was left under its name\n  what to do: \
             raise the limit, or write less: fewer ranks, a window, .gz",
        )),
        (None, signal) => Ok(128 + signal.unwrap_or(0) as u8),
    }
}

#[cfg(unix)]
fn signal(status: ExitStatus) -> Option<i32> {
    std::os::unix::process::ExitStatusExt::signal(&status)
}
#[cfg(not(unix))]
fn signal(_: ExitStatus) -> Option<i32> {
    None
}
