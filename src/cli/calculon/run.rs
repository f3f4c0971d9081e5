//! Calculon's files, simulated.

use super::{failure, write_trace};
use crate::Failure;
use crate::run::{Args, head, print};
use crate::timeline::listed;
use crate::write::write_report;
use stepsim_core::ids::RankId;
use stepsim_form::calculon::files::Calculon;
use stepsim_form::calculon::simulate::{CalculonRun, Choices};
use stepsim_form::compare::tracks::TrackContents;

/// Simulates Calculon's files.
pub(crate) fn files(args: &Args, case: &Calculon) -> Result<(), Failure> {
    let choices = if args.compatible { Choices::COMPATIBLE } else { Choices::REAL };
    let run = CalculonRun::new(case, &choices).map_err(failure)?;
    let mut report = run.report(case);
    report.run = head(args, report.run);
    if let Some(path) = &args.output {
        let ranks = match args.trace_ranks() {
            None | Some("all" | "stages") => (0..run.step.ranks).map(RankId).collect(),
            Some(text) => listed(text, run.step.ranks)?,
        };
        write_trace(
            case,
            &run,
            &ranks,
            args.detail.unwrap_or_default(),
            args.window_ms,
            path,
            TrackContents::default(),
        )?;
    }
    write_report(args.report.as_deref(), &report)?;
    if !args.is_quiet() {
        print(&report, None, args)?;
    }
    Ok(())
}
