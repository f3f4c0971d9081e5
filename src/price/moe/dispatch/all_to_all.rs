//! `alltoall`: tokens are permuted to k·T rows by expert and sent one by one in an all-to-all, k copies of each; the
//! probabilities follow in a second one. Megatron-LM's usual choice (`MoEAlltoAllTokenDispatcher`), MegaBlocks.

use super::{Dispatcher, ExchangeRows, Traffic};
use crate::moe::RowRule;
use stepsim_spec::workload::DispatcherKind;

/// See the module's text.
#[derive(Debug)]
pub struct AllToAll;

impl Dispatcher for AllToAll {
    fn kind(&self) -> DispatcherKind {
        DispatcherKind::Alltoall
    }
    fn rows(&self, t: &Traffic) -> ExchangeRows {
        ExchangeRows::straight(t, t.tokens * t.top_k)
    }
    fn row_rule(&self, _domains: u64) -> RowRule {
        RowRule::WithProbability
    }
    fn sums_per_rank(&self) -> bool {
        false
    }
}
