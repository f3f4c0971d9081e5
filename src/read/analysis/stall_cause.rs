//! Why a compute stream stood still: one line a cause, which traces, tables, reports, pages and comparisons read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::kind::OpKind;
use stepsim_core::declare::named;
use stepsim_core::program::Phase;

named! {
    /// The terms that closed forms and readings share, in the order of tables.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub enum TimeTerm {
        /// Forward kernels.
        Forward = "forward",
        /// Recomputed kernels.
        Recompute = "recompute",
        /// Backward kernels.
        Backward = "backward",
        /// Optimizer kernels, and waiting for an optimizer elsewhere.
        Optimizer = "optimizer",
        /// Tensor-parallel communication, repeated or not.
        Tensor = "tensor parallel, exposed",
        /// Context-parallel communication.
        Context = "context parallel, exposed",
        /// Expert-parallel communication.
        Expert = "expert parallel, exposed",
        /// Waiting for other ranks: pipeline bubble, late peers, the end of the step.
        Bubble = "pipeline bubble, late peers",
        /// Transfers between stages.
        Pipeline = "pipeline transfers, exposed",
        /// Data-parallel communication.
        Data = "data parallel, exposed",
        /// Copies to and from other memory tiers.
        Offload = "offload, exposed",
        /// Launches.
        Host = "host",
        /// The time that shared links added to communication.
        Contention = "link contention",
    }
}

impl TimeTerm {
    /// How many there are.
    pub const COUNT: usize = TimeTerm::ALL.len();
}

/// The state of a rank that stands still: the use of its time in the way from the peak to MFU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitKind {
    /// Communication runs: latency and bandwidth.
    Running,
    /// The awaited op took longer because it was shared.
    Shared,
    /// A peer has not arrived.
    Late,
    /// A neighbour in the pipeline has not arrived.
    Bubble,
    /// Others have not finished.
    Tail,
    /// The optimizer works elsewhere.
    Optimizer,
    /// The host has not launched.
    Host,
    /// A copy stands behind another.
    Queued,
    /// A tier is full.
    Full,
}

/// The colour of a stall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// That of the communication which was waited for.
    Of(OpKind),
    /// That of a pass.
    Pass(Phase),
    /// Its own, as `#rrggbb`.
    Own(&'static str),
}

/// The causes in the order of reports: its name in words, as the head of a narrow column, the term of a step that it
/// belongs to, what the rank does meanwhile, and its colour.
macro_rules! causes {
    ($($(#[$doc:meta])*
       $cause:ident: $name:literal, $short:literal, $row:ident, $wait:ident, $colour:ident($of:expr);)*) => {
        /// Why a compute stream stood still.
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
        )]
        #[serde(rename_all = "snake_case")]
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
            pub fn row(self) -> TimeTerm {
                match self {
                    $(StallCause::$cause => TimeTerm::$row,)*
                }
            }
            /// The state of the rank meanwhile.
            pub fn waiting(self) -> WaitKind {
                match self {
                    $(StallCause::$cause => WaitKind::$wait,)*
                }
            }
            /// True if the rank waits for other ranks: it has nothing to do itself, and nothing is on its way.
            pub fn is_for_others(self) -> bool {
                matches!(self.waiting(), WaitKind::Late | WaitKind::Bubble | WaitKind::Tail)
            }
            /// Its colour.
            pub fn colour(self) -> Colour {
                match self {
                    $(StallCause::$cause => Colour::$colour($of),)*
                }
            }
        }
    };
}

causes! {
    /// A tensor-parallel collective was running.
    TensorParallel: "tensor parallel", "tp", Tensor, Running, Of(OpKind::Tensor);
    /// A context-parallel transfer was running.
    ContextParallel: "context parallel", "cp", Context, Running, Of(OpKind::Context);
    /// An expert-parallel all-to-all was running.
    ExpertParallel: "expert parallel", "ep", Expert, Running, Of(OpKind::Expert);
    /// The pipeline neighbour had not come to its side of the transfer.
    PipelineBubble: "pipeline bubble", "bubble", Bubble, Bubble, Own("#c9c9c9");
    /// A pipeline transfer was on the wire.
    PipelineTransfer: "pipeline transfer", "pp", Pipeline, Running, Of(OpKind::Pipeline);
    /// A data-parallel collective was running.
    DataParallel: "data parallel", "dp", Data, Running, Of(OpKind::Data);
    /// The optimizer was at work off the compute stream.
    Optimizer: "optimizer", "optim", Optimizer, Optimizer, Pass(Phase::Optimizer);
    /// The copy that was needed stood behind another copy.
    PrefetchQueued: "prefetch queued", "queued", Offload, Queued, Own("#ee99aa");
    /// The copy that was needed was on its way.
    PrefetchTransfer: "prefetch transfer", "h2d", Offload, Running, Of(OpKind::CopyIn);
    /// The needed bytes waited for room on a full tier.
    PrefetchBlocked: "prefetch blocked (full tier)", "blocked", Offload, Full, Own("#aa4455");
    /// A copy off the device, whose end was needed, was on its way.
    WriteBack: "offload write-back", "d2h", Offload, Running, Of(OpKind::CopyOut);
    /// The host had not launched the kernel.
    Host: "host", "host", Host, Host, Of(OpKind::Host);
    /// A peer of a collective had not arrived (a straggler).
    PeerLate: "peer late", "late", Bubble, Late, Own("#f0e442");
    /// A peer with other documents or images had not arrived.
    UnevenInputs: "uneven inputs", "uneven", Bubble, Late, Own("#ccbb44");
    /// Communication took longer than on an idle machine.
    Contention: "contention", "contention", Contention, Shared, Own("#ee3377");
    /// Updates on the host took longer than alone, for several share its memory.
    HostMemoryShared: "host memory shared", "host memory", Contention, Shared, Own("#6e4c1e");
    /// A copy towards the device took longer, for copies away from it crossed the same link.
    WriteBackBeside: "fetch behind write-back", "held back", Contention, Shared, Own("#b0307a");
    /// This rank had finished, others had not.
    StepTail: "step tail", "tail", Bubble, Tail, Own("#8f8f8f");
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
