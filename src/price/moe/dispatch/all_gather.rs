//! `allgather`: every rank gets every token and picks the rows of its experts; a reduce-scatter brings the sums back.
//! Over the rails first, then inside the domain. Megatron-LM's default, for few ranks and large k.

use super::{Dispatcher, ExchangeRows, Traffic};
use crate::moe::RowRule;
use stepsim_spec::workload::DispatcherKind;

/// See the module's text.
#[derive(Debug)]
pub struct AllGather;

impl Dispatcher for AllGather {
    fn kind(&self) -> DispatcherKind {
        DispatcherKind::Allgather
    }
    fn rows(&self, t: &Traffic) -> ExchangeRows {
        ExchangeRows {
            network: t.tokens * (t.domains() - 1.0),
            scale_up: t.tokens * t.domains() * (t.per_domain - 1.0),
            handled: t.tokens * t.ranks,
        }
    }
    fn row_rule(&self, _domains: u64) -> RowRule {
        RowRule::Payload
    }
}
