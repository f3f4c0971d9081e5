//! The colours of what a step is made of: one table for pages and whatever else draws.
//!
//! Passes have the colours of Okabe and Ito (2008), which colour-blind readers tell apart and which keep different
//! greys on paper; communication and stalls those of Paul Tol's schemes "muted" and "bright" (2021). In Perfetto, which
//! chooses colours itself, the names of passes are chosen so that they get similar hues.

use crate::analysis::kind::OpKind;
use crate::analysis::stalls::StallCause;
use crate::program::{MemoryClass, Phase};

/// The colour of a pass, as `#rrggbb`.
pub fn pass(phase: Phase) -> &'static str {
    match phase {
        Phase::Forward => "#009e73",
        Phase::Recompute => "#56b4e9",
        Phase::Backward => "#cc79a7",
        Phase::InputGrad => "#0072b2",
        Phase::WeightGrad => "#e69f00",
        Phase::Optimizer => "#d55e00",
    }
}

/// The colour of two passes that are taken in turn.
pub const PAIR: &str = "#6b8e8b";

/// The colour of kernels, whatever they compute.
pub const COMPUTE: &str = "#4d7f77";

/// The colour of a kind of communication.
pub fn communication(kind: OpKind) -> &'static str {
    match kind {
        OpKind::Compute => COMPUTE,
        OpKind::Tensor => "#332288",
        OpKind::Context => "#88ccee",
        OpKind::Expert => "#aa3377",
        OpKind::Pipeline => "#117733",
        OpKind::Data => "#999933",
        OpKind::CopyIn => "#cc6677",
        OpKind::CopyOut => "#882255",
        OpKind::Host => "#ddcc77",
    }
}

/// The colour of a stall: that of the communication that was waited for, else one of its own.
pub fn stall(cause: StallCause) -> &'static str {
    match cause {
        StallCause::TensorParallel => communication(OpKind::Tensor),
        StallCause::ContextParallel => communication(OpKind::Context),
        StallCause::ExpertParallel => communication(OpKind::Expert),
        StallCause::PipelineBubble => "#c9c9c9",
        StallCause::PipelineTransfer => communication(OpKind::Pipeline),
        StallCause::DataParallel => communication(OpKind::Data),
        StallCause::Optimizer => pass(Phase::Optimizer),
        StallCause::PrefetchQueued => "#ee99aa",
        StallCause::PrefetchTransfer => communication(OpKind::CopyIn),
        StallCause::PrefetchBlocked => "#aa4455",
        StallCause::WriteBack => communication(OpKind::CopyOut),
        StallCause::Host => communication(OpKind::Host),
        StallCause::PeerLate => "#f0e442",
        StallCause::Contention => "#ee3377",
        StallCause::StepTail => "#8f8f8f",
    }
}

/// The colour of a class of memory.
pub fn memory(class: MemoryClass) -> &'static str {
    match class {
        MemoryClass::Weights => "#0072b2",
        MemoryClass::Gradients => "#cc79a7",
        MemoryClass::Optimizer => "#d55e00",
        MemoryClass::Activations => "#009e73",
        MemoryClass::Workspace => "#999999",
    }
}
