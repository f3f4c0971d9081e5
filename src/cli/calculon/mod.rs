//! Parts shared by the commands that simulate Calculon's files.

pub(super) mod compare;
pub(super) mod estimate;
pub(super) mod run;
pub(super) mod search;

use std::path::Path;

use super::Failure;
use super::timeline::{of_whole, write_with_rows};
use estimate::does_not_fit;
use stepsim_core::ids::RankId;
use stepsim_core::units::Time;
use stepsim_form::calculon::closed_form::{self, Quirks};
use stepsim_form::calculon::files::Calculon;
use stepsim_form::calculon::simulate::{CalculonError, CalculonRun};
use stepsim_form::compare::tracks::TrackContents;
use stepsim_read::trace::{Detail, RunMeta, Timeline};

/// Reads the three files; a step that does not fit in memory by the closed form is refused, as Calculon refuses it.
pub(super) fn load(app: &Path, exe: &Path, sys: &Path) -> Result<Calculon, Failure> {
    let case = Calculon::load(app, exe, sys).map_err(Failure::input)?;
    let estimate = closed_form::estimate(&case, Quirks::AS_PUBLISHED);
    match estimate.fits() {
        Ok(()) => Ok(case),
        Err(over) => Err(Failure::input(does_not_fit(&case, &estimate, over))),
    }
}

/// The exit status of a simulation that failed.
pub(super) fn failure(error: CalculonError) -> Failure {
    match error {
        CalculonError::Engine(e) => e.into(),
        e => Failure::input(e),
    }
}

/// Writes the timeline of some stages; with the `rows` of a closed form, if there are any.
pub(super) fn write_trace(
    case: &Calculon,
    run: &CalculonRun,
    ranks: &[RankId],
    detail: Detail,
    window: Option<(Time, Time)>,
    path: &Path,
    rows: TrackContents<'_>,
) -> Result<(), Failure> {
    let width = run.step.ranks.saturating_sub(1).to_string().len();
    let name = |rank: RankId| format!("stage {:0width$}", rank.0);
    let mut meta = RunMeta::default();
    meta.text("stepsim", env!("CARGO_PKG_VERSION"));
    let names = case.names();
    meta.text("application", &names.application);
    meta.text("execution", &names.execution);
    meta.text("system", &names.system);
    meta.number("step time ms", run.seconds() * 1e3);
    of_whole((&run.world, &run.record), ranks.iter().copied(), &name, &meta, |timeline| {
        write_with_rows(&Timeline { detail, window, ..timeline }, rows, path)
    })
}
