//! Where ops of traced ranks stand: when, on which rank, at which end of a transfer.

use rustc_hash::FxHashMap;

use super::shown::{Timeline, TracedRank};
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::StreamKind;
use stepsim_core::units::Time;

/// The end of a transfer between two ranks that an op is, if any.
pub fn direction(row: StreamKind, name: &str) -> Option<TransferEnd> {
    match row {
        StreamKind::PipelineSend => Some(TransferEnd::Send),
        StreamKind::PipelineRecv => Some(TransferEnd::Receive),
        _ if name.starts_with("send") => Some(TransferEnd::Send),
        _ if name.starts_with("recv") => Some(TransferEnd::Receive),
        _ => None,
    }
}

/// End of a transfer between two ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransferEnd {
    /// The rank that has the data.
    Send,
    /// The rank that gets it.
    Receive,
}

/// Start and end of an op of a traced rank.
pub fn span(timeline: &Timeline, traced: &TracedRank, op: OpId) -> (Time, Time) {
    timeline.record.span(traced.source, op)
}

/// The place of each rank among those traced.
pub fn places(timeline: &Timeline) -> FxHashMap<RankId, usize> {
    timeline.ranks.iter().enumerate().map(|(i, traced)| (traced.rank, i)).collect()
}
