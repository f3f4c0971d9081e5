//! Progress bars.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::screen;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use stepsim_core::units::grouped;

/// A bar appears after a second.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where there is no terminal, a line says how far it is so often.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// A progress bar that appears after a second; without a terminal a line every ten seconds.
pub struct TerminalProgress {
    bar: ProgressBar,
    begun: Instant,
    /// How many lines there could have been.
    lines: AtomicU64,
}

impl TerminalProgress {
    /// A bar that says what is being done.
    pub fn new(what: &'static str) -> TerminalProgress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_message(what);
        let style = ProgressStyle::with_template("{spinner} {msg}: {human_pos} ops ({per_sec}) {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        TerminalProgress { bar, begun: Instant::now(), lines: AtomicU64::new(0) }
    }
    /// A bar towards so many.
    pub fn of(what: &'static str, count: u64) -> TerminalProgress {
        let bar = TerminalProgress::new(what);
        let style = ProgressStyle::with_template("{msg}: {pos}/{len} {bar:30} {elapsed}, {eta} to go");
        bar.bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.bar.set_length(count);
        bar
    }
    /// So much has been done.
    pub fn at(&self, position: u64) {
        self.bar.set_position(position);
        let elapsed = self.begun.elapsed();
        if screen::keeps() || elapsed < PATIENCE {
            return;
        }
        if std::io::stderr().is_terminal() {
            if self.bar.is_hidden() {
                self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
            }
            return;
        }
        let lines = elapsed.as_secs() / LINE_EVERY.as_secs();
        if self.lines.fetch_max(lines, Ordering::Relaxed) < lines {
            eprintln!("{}", self.line(elapsed));
        }
    }
    /// How far it is, in words.
    pub fn line(&self, elapsed: Duration) -> String {
        let of = self.bar.length().map_or_else(String::new, |all| format!(" of {}", grouped(all)));
        let (what, done) = (self.bar.message(), grouped(self.bar.position()));
        format!("{what}: {done}{of} after {} s", elapsed.as_secs())
    }
    /// Does work under a bar: what says how far it is, is always told to go on.
    pub fn over<T>(what: &'static str, work: impl FnOnce(&mut dyn FnMut(u64) -> ControlFlow<()>) -> T) -> T {
        let bar = TerminalProgress::new(what);
        let done = work(&mut |position| {
            bar.at(position);
            ControlFlow::Continue(())
        });
        bar.done();
        done
    }
    /// Takes the bar away.
    pub fn done(&self) {
        self.bar.finish_and_clear();
    }
}
