//! The colours of what a step is made of: one table for pages and whatever else draws.
//!
//! Passes have the colours of Okabe and Ito (2008), which colour-blind readers tell apart and which keep different
//! greys on paper; communication and stalls have colours of Paul Tol's schemes "muted" and "bright" (2021). In
//! Perfetto, which chooses colours itself, the names of passes are chosen so that they get similar hues.

use crate::analysis::kind::OpKind;
use crate::analysis::stalls::{Colour, StallCause};
use stepsim_core::program::{MemoryClass, Phase};

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

/// The parts of a colour of this table.
pub fn rgb(colour: &str) -> [u8; 3] {
    [1, 3, 5].map(|at| colour.get(at..at + 2).and_then(|hex| u8::from_str_radix(hex, 16).ok()).unwrap_or(0))
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

/// The colour of a stall: the colour of the awaited communication, else one of its own.
pub fn stall(cause: StallCause) -> &'static str {
    match cause.colour() {
        Colour::Of(kind) => communication(kind),
        Colour::Pass(phase) => pass(phase),
        Colour::Own(colour) => colour,
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

/// The colour of measured kernels by the work that they do, as `stepsim analyze` names it.
pub fn work(name: &str) -> &'static str {
    match name {
        "gemm" => "#0072b2",
        "attention" => "#cc79a7",
        "memory-bound" => "#e69f00",
        "convolution" => "#009e73",
        "optimizer" => pass(Phase::Optimizer),
        "mixed" => "#56b4e9",
        "copies and fills" => communication(OpKind::CopyIn),
        _ => "#999999",
    }
}

/// The colour of measured communication by kind.
pub fn collective(kind: &str) -> &'static str {
    match kind {
        "all-reduce" | "dp" => communication(OpKind::Data),
        "all-gather" | "tp" => communication(OpKind::Tensor),
        "reduce-scatter" | "cp" => communication(OpKind::Context),
        "all-to-all" | "dispatch" | "ep" => communication(OpKind::Expert),
        "combine" => "#ee99aa",
        "notify" => "#bbbbbb",
        "send and receive" => communication(OpKind::Pipeline),
        name if name.starts_with("pp") => communication(OpKind::Pipeline),
        _ => "#ddcc77",
    }
}

/// Colours for kinds known by number alone, in turn.
pub fn number(i: usize) -> &'static str {
    const SOME: [&str; 7] = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#999999"];
    SOME[i % SOME.len()]
}

/// The colour of measured time in which nothing ran, by cause; of simulated profiles, the colour of the stall.
pub fn idle(cause: &str) -> &'static str {
    if let Some(known) = StallCause::ALL.into_iter().find(|known| known.name() == cause) {
        return stall(known);
    }
    match cause {
        "host" => communication(OpKind::Host),
        "host, in a synchronisation" => "#bbaa44",
        "launch" => "#ee99aa",
        "event wait" => "#8f8f8f",
        "between kernels" | "queued, cause not in the file" => "#c9c9c9",
        _ => "#e0e0e0",
    }
}
