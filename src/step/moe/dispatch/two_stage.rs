//! `two-stage` (DeepEP): one row for each distinct domain goes over the rail to the rank with the same place there, which
//! forwards one row for each distinct rank; rows for the own domain pass the same forwarder. Combine sums on the way
//! back: on the expert's rank, at the forwarder, at the source.
//!
//! One persistent kernel, half of its blocks forwarding, the stages overlapped in chunks: it takes the longest of the
//! network's time, the scale-up links' and that of its own channels, which handle D_n rows a token.
//!
//! Inside one domain nothing is forwarded: a row for each distinct rank is written to the peer's buffer by the kernel's
//! units, which set the pace: 20 to 26 GB/s a unit in dispatch and 13 to 17 in combine on B200 and GB200, with 4 to 24
//! units alike, behind a start of 50 to 120 us (360 rows of ai-dynamo/aiconfigurator, DeepEP's normal mode).
//!
//! Prices across domains: DeepEP's own benchmark on H800 (README of the first release, 24 units) moves 43 to 47 GB/s of such rows
//! at 16, 32 and 64 ranks alike, 1.9 GB/s a unit, and 153 to 158 of 200 GB/s inside a node; DeepSeek's published
//! profile (20 units, beside compute) 1.97 GB/s a unit behind a start of 0.45 ms (three of its four exchanges lie on that
//! line), and 0.92 ms more for the dispatch that makes the handle. Links reach 160 of 200 and 40 of 50 GB/s (arXiv
//! 2505.09343, section 4.3).

use super::{Dispatcher, Kernels, Rows, Traffic, rank_dedup};
use crate::step::moe::RowRule;
use crate::step::spec::workload::DispatcherKind;

/// See the module's text.
#[derive(Debug)]
pub struct TwoStage;

/// Rows of any exchange in two stages.
pub(super) fn rows(t: &Traffic) -> Rows {
    let n = t.domains();
    Rows {
        network: t.tokens * t.domains_per_token * (n - 1.0) / n,
        scale_up: t.tokens * t.ranks_per_token * (t.per_domain - 1.0) / t.per_domain,
        handled: t.tokens * t.domains_per_token,
    }
}

impl Dispatcher for TwoStage {
    fn kind(&self) -> DispatcherKind {
        DispatcherKind::TwoStage
    }
    fn rows(&self, t: &Traffic) -> Rows {
        if t.domains() > 1.0 { rows(t) } else { rank_dedup::rows(t) }
    }
    fn row_rule(&self, domains: u64) -> RowRule {
        if domains > 1 { RowRule::DeepEp } else { RowRule::Payload }
    }
    fn kernels(&self, domains: u64) -> Option<Kernels> {
        let across = domains > 1;
        Some(Kernels {
            units: 20,
            rate_per_unit: if across { 1.93e9 } else { 19e9 },
            network_share: 0.8,
            start_s: if across { 0.45e-3 } else { 70e-6 },
            // Inside one domain an estimate: two small kernels and a look at their counts.
            uncached_s: if across { 0.92e-3 } else { 0.1e-3 },
            // 102 us for 4,096 tokens of eight experts in that profile: each block walks all of them.
            layout_s_per_choice: 3.1e-9,
        })
    }
    fn maps_rows(&self) -> bool {
        true
    }
}
