//! The reading of the critical path.

use std::fmt::Write;

use super::{OnRank, section};
use crate::analysis::cells::{SMALL, percent, write_list};
use crate::analysis::kind::OpKind;
use crate::analysis::reading::{Asked, Reading, Report, Run, Sheet, Shown};
use crate::analysis::shown::longest;
use crate::analysis::stalls::StallCause;
use crate::page::sheet::seconds;
use stepsim_core::units::{Time, grouped};

/// What costs less than this part of the step is no lever.
const NO_LEVER: f64 = 0.005;

/// The chain of ops that the step's length hangs on.
pub struct Path;

impl Reading for Path {
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

    /// What costs most that can be taken away, with the command that takes it away.
    fn glance(&self, r: &Report, asked: Asked<'_>, out: &mut String, _: u16) {
        let Some(whatif) = asked.whatif else { return };
        let step = r.run_time_s.max(f64::MIN_POSITIVE);
        let path = r.critical_path.by_kind_s.iter();
        let of_kind = path.filter(|(kind, _)| !matches!(kind, OpKind::Compute | OpKind::Host));
        let bubble = r.mean.stalls_s.get(&StallCause::PipelineBubble).copied().unwrap_or(0.0);
        let mut costs: Vec<(&str, &str, f64)> =
            of_kind.map(|(kind, s)| (kind.words(), kind.name(), *s)).collect();
        costs.push(("pipeline bubble", "bubble", bubble));
        costs.push(("exposed communication", "exposed", r.critical_path.contention_s));
        costs.extend(of_slow_ranks(r).map(|s| ("the slow ranks", "stragglers", s)));
        let Some((words, name, s)) = costs.into_iter().max_by(|a, b| a.2.total_cmp(&b.2)) else { return };
        if s < NO_LEVER * step {
            let _ = writeln!(out, "Try       {whatif}     (what 10 % on each resource buys)");
            return;
        }
        let gain = (percent(s / step), Time::from_s(s));
        let _ = writeln!(out, "Try       without {words}: at most {} of the step, {}", gain.0, gain.1);
        let _ = writeln!(out, "          {whatif} --without {name}");
    }

    fn page(&self, report: &Report, shown: &Shown, sheet: &mut Sheet) {
        let path = &report.critical_path;
        let note = format!(
            "The chain of ops that the step's length hangs on: {} ops, {} changes of rank, {} of contention, {} of waiting for \
             room in memory.",
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

/// The most that slow ranks can cost: what their part of the critical path is longer than on healthy ones.
fn of_slow_ranks(r: &Report) -> Option<f64> {
    let beyond = |on: &OnRank| {
        let slow = r.slow_ranks.iter().find(|s| s.ranks.binary_search(&on.rank).is_ok())?;
        Some(on.time_s * (1.0 - 1.0 / slow.slowness))
    };
    (!r.slow_ranks.is_empty()).then(|| r.critical_path.ranks.iter().filter_map(beyond).sum())
}
