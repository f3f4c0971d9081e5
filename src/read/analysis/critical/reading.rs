//! The reading of the critical path.

use std::fmt::Write;

use super::section;
use crate::analysis::cells::{SMALL, percent, write_list};
use crate::analysis::reading::{PageContents, Reading, Report, Run, Sheet};
use crate::analysis::shown::longest;
use crate::page::sheet::seconds;
use stepsim_core::units::grouped;

/// The chain of ops that the step's length hangs on.
pub struct CriticalPathReading;

impl Reading for CriticalPathReading {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        let (turn, info) = (&run.turn, run.info);
        report.critical_path = section(&turn.path, run.world(), turn.again.as_ref(), |r| info.place(r));
    }

    fn table(&self, r: &Report, out: &mut String, width: u16) {
        let path = &r.critical_path;
        let step = r.run_time_s.max(f64::MIN_POSITIVE);
        let parts: Vec<_> =
            path_parts(r).iter().map(|(name, s)| format!("{name} {}", percent(s / step))).collect();
        let (ops, changes) = (grouped(path.ops), grouped(path.rank_changes));
        let _ = writeln!(out, "\nCritical path ({ops} ops, {changes} changes of rank; % of the step)");
        write_list(out, &parts, width);
    }

    fn page(&self, report: &Report, shown: &PageContents, sheet: &mut Sheet) {
        let path = &report.critical_path;
        let note = format!(
            "The chain of ops that decides the step's length: {} ops, {} changes of rank, {} of contention, \
             {} of waiting for room in memory.",
            grouped(path.ops),
            grouped(path.rank_changes),
            seconds(path.contention_s),
            seconds(path.memory_s)
        );
        sheet.section("Critical path", &note, |out| {
            longest(out, ["what", "kind"], &shown.critical, report.run_time_s);
        });
    }
}

/// The critical path by kind of op, longest first.
pub(crate) fn path_parts(r: &Report) -> Vec<(&'static str, f64)> {
    let path = &r.critical_path;
    let mut parts: Vec<_> = path.by_kind_s.iter().map(|(kind, s)| (kind.words(), *s)).collect();
    parts.extend([("contention", path.contention_s), ("full tier", path.memory_s)]);
    parts.retain(|p| p.1 >= SMALL * r.run_time_s.max(f64::MIN_POSITIVE));
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    parts
}
