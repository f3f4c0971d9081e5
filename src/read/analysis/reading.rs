//! The interface of a reading: one subject of a run, from the record to its report.
//!
//! A reading sees the [`Run`] once and makes its section of the report ([`Reading::read`]). Everything else is made
//! of reports: its tables, its chart, its lines in a comparison; columns of studies and Python take its section as it
//! stands in JSON. Reports, tables, pages and comparisons walk the [`registry`](super::registry) and know no reading
//! by name.
//!
//! A reading of a caller's own goes by `Inputs::read_by`; its section is
//! [`Report::own`] under its name.

use std::fmt;

pub use super::lines::{Lines, Measure};
pub use super::report::Report;
pub use super::run::Run;
pub use super::shown::PageContents;
pub use crate::page::sheet::Sheet;

/// One subject of a run.
pub trait Reading: Sync {
    /// True if it holds where turns of a schedule are counted and not played: each of its sums takes an op
    /// [`Run::times`] and a stretch of time [`Run::time`]. Where it does not, every step is played whole.
    fn counts_turns(&self) -> bool {
        false
    }

    /// Reads a run and puts its section into the report: one of a caller's own under its name into [`Report::own`].
    /// Sections of readings before it are there.
    fn read(&self, _run: &mut Run<'_, '_>, _report: &mut Report) {}

    /// Its table under `--full`: text of at most `width` columns that begins with an empty line.
    fn table(&self, _report: &Report, _out: &mut String, _width: u16) {}

    /// Its addition to `--why`, in full.
    fn why(&self, _report: &Report, _out: &mut String, _width: u16) {}

    /// Its line or two on one screen.
    fn glance(&self, _report: &Report, _asked: ReadingContext<'_>, _out: &mut String, _width: u16) {}

    /// Its chart: a section of the page about a run.
    fn page(&self, _report: &Report, _shown: &PageContents, _sheet: &mut Sheet) {}

    /// Its numbers side by side. Those of a caller's own section are compared without it.
    fn compare(&self, _a: &Report, _b: &Report, _lines: &mut Lines) {}
}

impl fmt::Debug for dyn Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a reading")
    }
}

/// The facts that the command line knows and the report does not.
#[derive(Clone, Copy, Debug)]
pub struct ReadingContext<'a> {
    /// The command that plays all candidates: `stepsim whatif` with the inputs of the run.
    pub whatif: Option<&'a str>,
}
