//! Timelines as files.

use std::io::ErrorKind;
use std::path::Path;

use super::Failure;
use super::write::write_file;
use stepsim_core::ids::RankId;
use stepsim_fabric::topology::Axis;
use stepsim_read::trace::{self, OutputError, RunMeta, Timeline, TimelineSummary, TraceError};
use stepsim_simulate::Simulation;
use stepsim_simulate::behaviour::{DrawnRank, drawn};
use stepsim_simulate::map;
use stepsim_simulate::timeline::{fit, of_run};

pub use stepsim_simulate::timeline::{TimelineSelection, of_whole};

/// True if a file's name means the map of all ranks.
pub fn is_map(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "svg")
}

/// Writes the timeline of some ranks, or the map of all, and what the file shows beside it. Returns
/// what is to be said of its size.
pub fn write_trace(
    run: &Simulation,
    meta: &RunMeta,
    shown: &TimelineSelection,
    path: &Path,
) -> Result<Option<String>, Failure> {
    if is_map(path) && !shown.kineto {
        return write_file(path, map::file(run).as_bytes()).map(|()| None);
    }
    let format = trace::TimelineFormat::of(path);
    let doing = format.as_ref().map_or(Vec::new(), |(format, _)| map::doing(run, shown, *format));
    of_run(run, meta, shown, |timeline| {
        let mut timeline = Timeline { doing: &doing, ..timeline };
        if shown.kineto {
            return trace::write_kineto(&timeline, path).map(|_| None).map_err(Failure::run);
        }
        let note = fit(&mut timeline, shown.detail, format.map_err(Failure::input)?.0);
        told(trace::write_file(&timeline, path))?;
        Ok(note)
    })
}

/// Tells of a timeline that was written, or not.
pub fn told(written: Result<TimelineSummary, TraceError>) -> Result<(), Failure> {
    match written {
        // Its reader has seen enough.
        Err(TraceError::Output(OutputError::Write { error, .. }))
            if error.kind() == ErrorKind::BrokenPipe =>
        {
            Ok(())
        }
        written => written.map(|_| ()).map_err(Failure::run),
    }
}

/// The ranks that an argument names; without one, one of each behaviour.
pub fn traced(text: Option<&str>, run: &Simulation) -> Result<Vec<DrawnRank>, Failure> {
    let layout = &run.plan.layout;
    let count = layout.ranks();
    let ranks = match text {
        None => return Ok(drawn(run)),
        Some("all") => Ok((0..count).map(RankId).collect()),
        Some("stages") => {
            let origin =
                |r: &RankId| [Axis::Tp, Axis::Cp, Axis::Dp].iter().all(|a| layout.coordinate(*r, *a) == 0);
            Ok((0..count).map(RankId).filter(origin).collect())
        }
        Some(text) => listed(text, count),
    };
    ranks.map(DrawnRank::asked)
}

/// Numbers and ranges below `count`.
pub fn listed(text: &str, count: u32) -> Result<Vec<RankId>, Failure> {
    let wrong = |what: &str| {
        Failure::input(format!(
            "--trace-ranks {text}: {what}\n  allowed: numbers and ranges from 0 to {} like `0,8,16-31`, \
             `all`, or `stages`",
            count - 1
        ))
    };
    let mut ranks = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let number = |s: &str| s.trim().parse::<u32>().map_err(|_| wrong(&format!("`{part}` is no rank")));
        let (from, to) = (number(from)?, number(to)?);
        if from > to || to >= count {
            return Err(wrong(&format!("`{part}` is not in the run")));
        }
        ranks.extend((from..=to).map(RankId));
    }
    ranks.sort_unstable();
    ranks.dedup();
    Ok(ranks)
}
