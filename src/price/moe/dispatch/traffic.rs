//! The interface of a dispatcher.

use super::super::RowRule;
use stepsim_spec::workload::DispatcherKind;

/// One exchange of one rank, as dispatchers see it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Traffic {
    /// Tokens of a rank, T.
    pub tokens: f64,
    /// Experts that a token visits, k.
    pub top_k: f64,
    /// Ranks of the exchange, R.
    pub ranks: f64,
    /// Ranks of one scale-up domain, g.
    pub per_domain: f64,
    /// Distinct domains that a token touches, its own included, D_n.
    pub domains_per_token: f64,
    /// Distinct ranks that a token touches, its own included, D_r.
    pub ranks_per_token: f64,
}

impl Traffic {
    /// Scale-up domains, N.
    pub fn domains(&self) -> f64 {
        self.ranks / self.per_domain
    }
}

/// Rows that one rank sends (and receives) in one exchange.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ExchangeRows {
    /// Through its network port.
    pub network: f64,
    /// Over scale-up links.
    pub scale_up: f64,
    /// Through the kernel's own channels, wherever they go.
    pub handled: f64,
}

impl ExchangeRows {
    /// So many rows of a rank sent straight to ranks, all alike often.
    pub(super) fn straight(t: &Traffic, rows: f64) -> ExchangeRows {
        ExchangeRows {
            network: rows * (t.ranks - t.per_domain) / t.ranks,
            scale_up: rows * (t.per_domain - 1.0) / t.ranks,
            handled: rows,
        }
    }
}

/// The cost of the exchange's own kernels. Rates are measured beside compute where nothing else is said.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ExchangeKernels {
    /// Compute units that dispatch and combine hold from start to end, where the workload does not say.
    pub units: u32,
    /// Bytes per second and unit of what is handled; infinite where the links alone limit.
    pub rate_per_unit: f64,
    /// Share of a network port's rate that the kernels reach (what they reach of scale-up links stands in the machine's
    /// file, as for all).
    pub network_share: f64,
    /// Seconds before the first and after the last row: launch, handshake, drain.
    pub start_s: f64,
    /// Seconds more of a dispatch that has no handle yet.
    pub uncached_s: f64,
    /// Seconds for each of the T·k choices of a rank's tokens, in which the kernel before that dispatch counts who gets
    /// how many.
    pub layout_s_per_choice: f64,
}

/// A way to bring rows to experts and back.
pub trait Dispatcher: Sync + std::fmt::Debug {
    /// The kind of dispatcher.
    fn kind(&self) -> DispatcherKind;
    /// Rows of one exchange of one rank.
    fn rows(&self, t: &Traffic) -> ExchangeRows;
    /// The bytes of a row; `domains` is the number of scale-up domains.
    fn row_rule(&self, domains: u64) -> RowRule;
    /// The cost of its kernels; `None` where it runs the machine's usual collectives.
    fn kernels(&self, _domains: u64) -> Option<ExchangeKernels> {
        None
    }
    /// True if the rows of one token for one rank are one (copied to its experts there, summed before they go back).
    fn sums_per_rank(&self) -> bool {
        true
    }
    /// True if a rank learns the place of its rows only from the rows that it has received.
    fn maps_rows(&self) -> bool {
        false
    }
}
