//! `hybridep`: DeepEP's branch for NVLink racks. Inside one domain one row for each distinct rank, written straight
//! into the peer's buffer; across domains in two stages as `two-stage`, with separate arrays for probabilities.
//!
//! Prices: 16 units in one domain by default. Its published benchmark on B200 reaches about 0.6 of a link with 16 units
//! (DeepEP pull request 420); two nodes of eight B300 reach 44 GB/s of network rows with 8 units (DeepEP issue 590).

use super::{Dispatcher, ExchangeKernels, ExchangeRows, Traffic, rank_dedup, two_stage};
use crate::moe::RowRule;
use stepsim_spec::workload::DispatcherKind;

/// See the module's text.
#[derive(Debug)]
pub struct Hybrid;

impl Dispatcher for Hybrid {
    fn kind(&self) -> DispatcherKind {
        DispatcherKind::Hybridep
    }
    fn rows(&self, t: &Traffic) -> ExchangeRows {
        if t.domains() > 1.0 { two_stage::rows(t) } else { rank_dedup::rows(t) }
    }
    fn row_rule(&self, _domains: u64) -> RowRule {
        RowRule::HybridEp
    }
    fn kernels(&self, domains: u64) -> Option<ExchangeKernels> {
        let across = domains > 1;
        Some(ExchangeKernels {
            units: if across { 8 } else { 16 },
            rate_per_unit: if across { 11e9 } else { 34e9 },
            network_share: 0.8,
            start_s: 30e-6,
            uncached_s: 30e-6,
            layout_s_per_choice: 0.0,
        })
    }
}
