//! `two-stage` (DeepEP): one row for each distinct domain goes over the rail to the rank with the same place there,
//! which forwards one row for each distinct rank; rows for the own domain pass the same forwarder. Combine sums on
//! the way back: on the expert's rank, at the forwarder, at the source.
//!
//! One persistent kernel, half of its blocks forwarding, the stages overlapped in chunks: it takes the longest time of
//! three: the network, the scale-up links, and its own channels, which handle D_n rows a token.
//!
//! Inside one domain nothing is forwarded: a row for each distinct rank is written to the peer's buffer by the kernel's
//! units, which set the pace: 20 to 26 GB/s a unit in dispatch and 13 to 17 in combine on B200 and GB200, with 4 to 24
//! units alike, behind a start of 50 to 120 us (360 rows of ai-dynamo/aiconfigurator, DeepEP's normal mode).
//!
//! Prices across domains: since 22 April 2025 units post their rows themselves, each channel through a queue pair of
//! its own (DeepEP pull request 130). The test in its repository then moves 58 and 57 GB/s of handled rows over 32
//! ranks and 51 and 50 over 64, on adapters of 50 GB/s: of these rows 3/4 and 7/8 cross the network, 0.87 and 0.89 of
//! an adapter. Over 16 ranks with NVLink of 450 GB/s 24 units move 62 GB/s (H20: issue 148), 2.6 GB/s a unit. To tell
//! one another how many rows come takes 0.10 to 0.16 ms (issue 397). Before that: `two-stage-proxy`.

use super::{Dispatcher, ExchangeKernels, ExchangeRows, Traffic, rank_dedup};
use crate::moe::RowRule;
use stepsim_spec::workload::DispatcherKind;

/// See the module's text.
#[derive(Debug)]
pub struct TwoStageDispatch;

/// Rows of any exchange in two stages.
pub(super) fn rows(t: &Traffic) -> ExchangeRows {
    let n = t.domains();
    ExchangeRows {
        network: t.tokens * t.domains_per_token * (n - 1.0) / n,
        scale_up: t.tokens * t.ranks_per_token * (t.per_domain - 1.0) / t.per_domain,
        handled: t.tokens * t.domains_per_token,
    }
}

impl Dispatcher for TwoStageDispatch {
    fn kind(&self) -> DispatcherKind {
        DispatcherKind::TwoStage
    }
    fn rows(&self, t: &Traffic) -> ExchangeRows {
        if t.domains() > 1.0 { rows(t) } else { rank_dedup::rows(t) }
    }
    fn row_rule(&self, domains: u64) -> RowRule {
        if domains > 1 { RowRule::DeepEp } else { RowRule::Payload }
    }
    fn kernels(&self, domains: u64) -> Option<ExchangeKernels> {
        let across = domains > 1;
        Some(ExchangeKernels {
            units: 20,
            rate_per_unit: if across { 2.6e9 } else { 19e9 },
            network_share: 0.88,
            start_s: 70e-6,
            // Inside one domain an estimate: two small kernels and a look at their counts.
            uncached_s: if across { 0.13e-3 } else { 0.1e-3 },
            // 102 us for 4,096 tokens of eight experts in DeepSeek's published profile: each block walks all of them.
            layout_s_per_choice: 3.1e-9,
        })
    }
    fn maps_rows(&self) -> bool {
        true
    }
}
