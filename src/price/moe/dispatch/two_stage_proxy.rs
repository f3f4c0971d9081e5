//! `two-stage-proxy`: `two-stage` as DeepEP was first released in February 2025: a thread of the host posts to the
//! network what the kernel's blocks hand it.
//!
//! Prices across domains: the benchmark of that release on H800 (README, 24 units) moves 43 to 47 GB/s of handled
//! rows at 16, 32 and 64 ranks alike, 1.9 GB/s a unit, and 153 to 158 of 200 GB/s inside a node; DeepSeek's published
//! profile (20 units, beside compute) 1.97 GB/s a unit behind a start of 0.45 ms (three of its four exchanges lie on
//! that line), and 0.92 ms more for the dispatch that makes the handle. Links reach 160 of 200 and 40 of 50 GB/s
//! (arXiv 2505.09343, section 4.3).

use super::two_stage::TwoStageDispatch;
use super::{Dispatcher, ExchangeKernels, ExchangeRows, Traffic};
use crate::moe::RowRule;
use stepsim_spec::workload::DispatcherKind;

/// See the module's text.
#[derive(Debug)]
pub struct TwoStageProxy;

impl Dispatcher for TwoStageProxy {
    fn kind(&self) -> DispatcherKind {
        DispatcherKind::TwoStageProxy
    }
    fn rows(&self, t: &Traffic) -> ExchangeRows {
        TwoStageDispatch.rows(t)
    }
    fn row_rule(&self, domains: u64) -> RowRule {
        TwoStageDispatch.row_rule(domains)
    }
    fn kernels(&self, domains: u64) -> Option<ExchangeKernels> {
        let kernels = TwoStageDispatch.kernels(domains)?;
        let proxy = ExchangeKernels {
            rate_per_unit: 1.93e9,
            network_share: 0.8,
            start_s: 0.45e-3,
            uncached_s: 0.92e-3,
            ..kernels
        };
        Some(if domains > 1 { proxy } else { kernels })
    }
    fn maps_rows(&self) -> bool {
        true
    }
}
