//! A dynamic context schedule as its section of a report.

use stepsim_price::documents::{DynamicContext, OfDegree};
use stepsim_read::analysis::dynamic_context::{DegreeReport, DynamicContextReport};

/// The section of a schedule.
pub fn section(dynamic: &DynamicContext) -> DynamicContextReport {
    let padded = dynamic.padded() as f64;
    let of_degree = |(degree, of): (u64, OfDegree)| {
        let tokens = of.tokens as f64 / padded;
        (degree, DegreeReport { documents: of.samples, passes: of.passes, tokens })
    };
    DynamicContextReport {
        tokens_per_rank: dynamic.tokens_per_rank,
        padding: 1.0 - dynamic.tokens as f64 / padded,
        work_max_over_mean: dynamic.max_over_mean(),
        degrees: dynamic.by_degree().into_iter().map(of_degree).collect(),
    }
}
