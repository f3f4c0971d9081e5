//! Progress bars.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::screen;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar that appears after a second, on a terminal only.
pub struct TerminalProgress {
    bar: ProgressBar,
    begun: Instant,
}

impl TerminalProgress {
    /// A bar that says what is being done.
    pub fn new(what: &'static str) -> TerminalProgress {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()).with_message(what);
        let style = ProgressStyle::with_template("{spinner} {msg}: {human_pos} ops ({per_sec}) {elapsed}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
        TerminalProgress { bar, begun: Instant::now() }
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
        if self.bar.is_hidden()
            && !screen::keeps()
            && self.begun.elapsed() > Duration::from_secs(1)
            && std::io::stderr().is_terminal()
        {
            self.bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        }
        self.bar.set_position(position);
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
