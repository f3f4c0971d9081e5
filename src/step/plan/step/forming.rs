//! What it costs to form the groups of dynamic context parallelism, at the beginning of a step.
//!
//! The groups themselves are made once a run. In each step, ranks tell each other how long their samples are, and send them to
//! the ranks that run them (Megatron-LM's `get_batch_and_global_seqlens` and `reroute_samples_to_dcp_ranks`).

use crate::core::ids::OpId;
use crate::core::program::{NO_MICRO_BATCH, Phase, ProgramBuilder};
use crate::step::collective::Op;
use crate::step::documents::DynamicContext;
use crate::step::model::CommGroup;
use crate::step::plan::step::groups::Group;
use crate::step::plan::step::writer::Writer;

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
    /// Whom they go to, and what and how many bytes each is.
    pub fn messages(&self) -> impl Iterator<Item = (Group, Op, u64)> + '_ {
        self.messages.iter().map(|(_, op, bytes)| (self.group, *op, *bytes))
    }
    /// Pushes them; the last is what the first pass waits for.
    pub(super) fn push(&self, w: &mut Writer<'_, '_>, b: &mut ProgramBuilder) -> Option<OpId> {
        let mut last: Option<OpId> = None;
        for (name, op, bytes) in self.messages {
            let what = (name, Phase::Forward, None);
            let sent = w.communicate(b, self.group, op, bytes, what, last.as_slice(), NO_MICRO_BATCH);
            last = sent.or(last);
        }
        last
    }
}
