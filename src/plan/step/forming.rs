//! The cost of forming the groups of dynamic context parallelism, at the beginning of a step.
//!
//! The groups themselves are made once a run. In each step, ranks tell each other how long their samples are, and
//! send them to the ranks that run them (Megatron-LM's `get_batch_and_global_seqlens` and
//! `reroute_samples_to_dcp_ranks`).

use crate::step::groups::Group;
use stepsim_fabric::collective::Op;
use stepsim_price::documents::DynamicContext;
use stepsim_price::model::CommGroup;

/// Bytes of a sample's length: an int32.
const LENGTH_BYTES: u64 = 4;
/// Bytes of a token that is sent: its number, label and position (int64 each), and its part in the loss (fp32).
const TOKEN_BYTES: u64 = 28;

/// The messages that form the groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forming {
    group: Group,
    messages: [(&'static str, Op, u64); 2],
}

impl Forming {
    /// Of a step; `None` where one rank runs all.
    pub fn of(dynamic: &DynamicContext) -> Option<Forming> {
        let power = dynamic.loads.len().checked_ilog2().filter(|power| *power > 0)?;
        let samples: u64 = dynamic.by_degree().values().map(|of| of.samples).sum();
        Some(Forming {
            group: Group::Layer(CommGroup::ContextOf(power as u8)),
            messages: [
                ("all-gather lengths of samples", Op::AllGather, samples * LENGTH_BYTES),
                ("all-to-all samples", Op::AllToAll, dynamic.received() * TOKEN_BYTES),
            ],
        })
    }
    /// Name, group, operation and bytes of each.
    pub fn messages(self) -> impl Iterator<Item = (&'static str, Group, Op, u64)> {
        self.messages.into_iter().map(move |(name, op, bytes)| (name, self.group, op, bytes))
    }
}
