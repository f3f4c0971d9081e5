//! The closed form of Calculon's files beside their simulation.

use std::path::Path;

use super::{failure, write_trace};
use crate::Failure;
use stepsim_core::ids::RankId;
use stepsim_form::calculon::compare::compare;
use stepsim_form::calculon::files::Calculon;
use stepsim_form::compare::Comparison;
use stepsim_form::compare::tracks::TrackContents;
use stepsim_read::trace::Detail;

/// Compares, and writes the timeline of all stages where one is asked for.
pub(crate) fn files(case: &Calculon, trace: Option<&Path>) -> Result<Comparison, Failure> {
    let (comparison, run) = compare(case).map_err(failure)?;
    if let Some(path) = trace {
        let ranks: Vec<RankId> = (0..run.step.ranks).map(RankId).collect();
        write_trace(
            case,
            &run,
            &ranks,
            Detail::Op,
            None,
            path,
            TrackContents { of: Some(&comparison), rank: "" },
        )?;
    }
    Ok(comparison)
}
