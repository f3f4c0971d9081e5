//! The closed form of Calculon's files beside their simulation.

use std::path::Path;

use super::{failure, write_trace};
use crate::cli::Failure;
use crate::core::ids::RankId;
use crate::lab::calculon::compare::compare;
use crate::lab::calculon::files::Calculon;
use crate::lab::compare::Comparison;
use crate::lab::compare::tracks::Rows;
use crate::read::trace::Detail;

/// Compares, and writes the timeline of all stages where one is asked for.
pub(in crate::cli) fn files(case: &Calculon, trace: Option<&Path>) -> Result<Comparison, Failure> {
    let (comparison, run) = compare(case).map_err(failure)?;
    if let Some(path) = trace {
        let ranks: Vec<RankId> = (0..run.step.ranks).map(RankId).collect();
        write_trace(case, &run, &ranks, Detail::Op, None, path, Rows { terms: &comparison.terms, rank: "" })?;
    }
    Ok(comparison)
}
