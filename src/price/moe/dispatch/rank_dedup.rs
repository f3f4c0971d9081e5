//! `rank-dedup`: one row for each distinct rank, sent straight to it, wherever it is.

use super::{Dispatcher, ExchangeRows, Traffic};
use crate::moe::RowRule;
use stepsim_spec::workload::DispatcherKind;

/// See the module's text.
#[derive(Debug)]
pub struct RankDedup;

/// Rows sent straight to each distinct rank.
pub(super) fn rows(t: &Traffic) -> ExchangeRows {
    ExchangeRows::straight(t, t.tokens * t.ranks_per_token)
}

impl Dispatcher for RankDedup {
    fn kind(&self) -> DispatcherKind {
        DispatcherKind::RankDedup
    }
    fn rows(&self, t: &Traffic) -> ExchangeRows {
        rows(t)
    }
    fn row_rule(&self, _domains: u64) -> RowRule {
        RowRule::Payload
    }
}
