//! Communication that a step hides under its kernels.

use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::report::Report;

/// The kind of communication that runs longest under kernels, with its seconds; `None` where none does.
pub fn most_hidden(report: &Report) -> Option<(OpKind, f64)> {
    let hidden = report.communication.iter().map(|(kind, of)| (*kind, of.under_kernels_s));
    hidden.filter(|(_, seconds)| *seconds > 0.0).max_by(|a, b| a.1.total_cmp(&b.1))
}
