//! The reading of slow ranks.

use super::slow_ranks;
use crate::analysis::reading::{Reading, Report, Run};

/// Whose kernels take longer than the device needs.
pub struct SlowOnes;

impl Reading for SlowOnes {
    fn read(&self, run: &mut Run<'_, '_>, report: &mut Report) {
        let members = run.info.ranks.iter().map(|r| r.members.as_slice());
        report.slow_ranks = slow_ranks(run.world(), members);
    }
}
