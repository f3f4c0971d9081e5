//! Why a compute stream stood still: one line a cause, which traces, tables, reports and comparisons read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kind::OpKind;
use crate::program::Phase;

/// The terms that closed forms and readings share, in the order of tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// Forward kernels.
    Forward,
    /// Recomputed kernels.
    Recompute,
    /// Backward kernels.
    Backward,
    /// Optimizer kernels, and waiting for an optimizer elsewhere.
    Optimizer,
    /// Tensor-parallel communication, repeated or not.
    Tensor,
    /// Context-parallel communication.
    Context,
    /// Expert-parallel communication.
    Expert,
    /// Waiting for other ranks: pipeline bubble, late peers, the end of the step.
    Bubble,
    /// Transfers between stages.
    Pipeline,
    /// Data-parallel communication.
    Data,
    /// Copies to and from other memory tiers.
    Offload,
    /// Launches.
    Host,
    /// What sharing links added to communication.
    Contention,
}

impl Row {
    /// How many there are.
    pub const COUNT: usize = 13;
    /// The names, in order.
    pub const NAMES: [&'static str; Row::COUNT] = [
        "forward",
        "recompute",
        "backward",
        "optimizer",
        "tensor parallel, exposed",
        "context parallel, exposed",
        "expert parallel, exposed",
        "pipeline bubble, late peers",
        "pipeline transfers, exposed",
        "data parallel, exposed",
        "offload, exposed",
        "host",
        "link contention",
    ];
}

/// The causes in the order of reports: its name in words, as the head of a narrow column, and the term of a step that it
/// belongs to.
macro_rules! causes {
    ($($(#[$doc:meta])* $cause:ident: $name:literal, $short:literal, $row:ident;)*) => {
        /// Why a compute stream stood still.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
        #[non_exhaustive]
        pub enum StallCause {
            $($(#[$doc])* $cause,)*
        }

        impl StallCause {
            /// How many causes there are.
            pub const COUNT: usize = [$($name),*].len();
            /// All causes, in the order of reports.
            pub const ALL: [StallCause; StallCause::COUNT] = [$(StallCause::$cause),*];

            /// The name in words, as traces and tables show it.
            pub fn name(self) -> &'static str {
                match self {
                    $(StallCause::$cause => $name,)*
                }
            }
            /// The name as the head of a narrow column.
            pub fn short(self) -> &'static str {
                match self {
                    $(StallCause::$cause => $short,)*
                }
            }
            /// The term of a step that it belongs to.
            pub fn row(self) -> Row {
                match self {
                    $(StallCause::$cause => Row::$row,)*
                }
            }
        }
    };
}

causes! {
    /// A tensor-parallel collective was running.
    TensorParallel: "tensor parallel", "tp", Tensor;
    /// A context-parallel transfer was running.
    ContextParallel: "context parallel", "cp", Context;
    /// An expert-parallel all-to-all was running.
    ExpertParallel: "expert parallel", "ep", Expert;
    /// The pipeline neighbour had not come to its side of the transfer.
    PipelineBubble: "pipeline bubble", "bubble", Bubble;
    /// A pipeline transfer was on the wire.
    PipelineTransfer: "pipeline transfer", "pp", Pipeline;
    /// A data-parallel collective was running.
    DataParallel: "data parallel", "dp", Data;
    /// The optimizer was at work off the compute stream.
    Optimizer: "optimizer", "optim", Optimizer;
    /// The copy that was needed stood behind another copy.
    PrefetchQueued: "prefetch queued", "queued", Offload;
    /// The copy that was needed was on its way.
    PrefetchTransfer: "prefetch transfer", "h2d", Offload;
    /// What was needed waited for room on a full tier.
    PrefetchBlocked: "prefetch blocked (full tier)", "blocked", Offload;
    /// A copy off the device, whose end was needed, was on its way.
    WriteBack: "offload write-back", "d2h", Offload;
    /// The host had not launched the kernel.
    Host: "host", "host", Host;
    /// A peer of a collective had not arrived (a straggler).
    PeerLate: "peer late", "late", Bubble;
    /// Communication took longer than on an idle machine.
    Contention: "contention", "contention", Contention;
    /// Updates on the host took longer than alone, for several share its memory.
    HostMemoryShared: "host memory shared", "host memory", Contention;
    /// This rank had finished, others had not.
    StepTail: "step tail", "tail", Bubble;
}

impl StallCause {
    /// The cause while an op of this kind runs.
    pub(super) fn running(kind: OpKind, phase: Phase) -> StallCause {
        match kind {
            OpKind::Tensor => StallCause::TensorParallel,
            OpKind::Context => StallCause::ContextParallel,
            OpKind::Expert => StallCause::ExpertParallel,
            OpKind::Pipeline => StallCause::PipelineTransfer,
            OpKind::Data => StallCause::DataParallel,
            OpKind::CopyIn => StallCause::PrefetchTransfer,
            OpKind::CopyOut => StallCause::WriteBack,
            OpKind::Compute if phase == Phase::Optimizer => StallCause::Optimizer,
            OpKind::Host | OpKind::Compute => StallCause::Host,
        }
    }
}
