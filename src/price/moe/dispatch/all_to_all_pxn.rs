//! `alltoall-pxn`: as `alltoall`, but what leaves the domain first crosses to the rank on the destination's rail
//! (NCCL's PXN; Tutel's two-dimensional hierarchical all-to-all).

use super::{Dispatcher, ExchangeRows, Traffic};
use crate::moe::RowRule;
use stepsim_spec::workload::DispatcherKind;

/// See the module's text.
#[derive(Debug)]
pub struct AllToAllPxn;

impl Dispatcher for AllToAllPxn {
    fn kind(&self) -> DispatcherKind {
        DispatcherKind::AlltoallPxn
    }
    fn rows(&self, t: &Traffic) -> ExchangeRows {
        let copies = t.tokens * t.top_k;
        ExchangeRows {
            scale_up: copies * (t.per_domain - 1.0) / t.per_domain,
            ..ExchangeRows::straight(t, copies)
        }
    }
    fn row_rule(&self, _domains: u64) -> RowRule {
        RowRule::WithProbability
    }
    fn sums_per_rank(&self) -> bool {
        false
    }
}
