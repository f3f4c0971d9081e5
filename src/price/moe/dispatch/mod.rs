//! Dispatchers: how rows get to experts and back.

mod all_gather;
mod all_to_all;
mod all_to_all_pxn;
mod hybrid;
mod rank_dedup;
mod traffic;
mod two_stage;
mod two_stage_proxy;

pub use traffic::{Dispatcher, ExchangeKernels, ExchangeRows, Traffic};

use stepsim_spec::workload::DispatcherKind;

/// All dispatchers, one for each kind.
pub static DISPATCHERS: [&dyn Dispatcher; 7] = [
    &all_to_all::AllToAll,
    &all_to_all_pxn::AllToAllPxn,
    &all_gather::AllGather,
    &two_stage::TwoStageDispatch,
    &two_stage_proxy::TwoStageProxy,
    &hybrid::Hybrid,
    &rank_dedup::RankDedup,
];

/// The dispatcher of a kind.
pub fn dispatcher(kind: DispatcherKind) -> &'static dyn Dispatcher {
    DISPATCHERS.into_iter().find(|d| d.kind() == kind).expect("every kind has its dispatcher")
}

impl dyn Dispatcher {
    /// Bytes that one rank sends in one exchange: (network, scale-up, handled).
    pub fn bytes(&self, t: &Traffic, row_bytes: u64) -> ExchangeRows {
        let ExchangeRows { network, scale_up, handled } = self.rows(t);
        let row = row_bytes as f64;
        ExchangeRows { network: network * row, scale_up: scale_up * row, handled: handled * row }
    }
}
