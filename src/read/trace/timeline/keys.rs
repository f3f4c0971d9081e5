//! Names of arguments and kinds of slices, as a sink numbers them.

use std::io;

use rustc_hash::FxHashMap;

use super::rows::SliceLevel;
use crate::trace::writer::{ArgumentName, Sink, SliceKind};
use stepsim_core::program::{Phase, StreamKind};

/// Arguments, each with the name that a sink is told.
macro_rules! keys {
    ($($key:ident = $name:literal),* $(,)?) => {
        /// Names of arguments that differ from slice to slice of one kind.
        #[derive(Clone, Copy)]
        pub(super) struct Keys { $(pub(super) $key: ArgumentName),* }

        impl Keys {
            /// Asks a sink for all.
            pub(super) fn new(sink: &mut dyn Sink) -> io::Result<Keys> {
                Ok(Keys { $($key: sink.key($name)?),* })
            }
        }
    };
}

keys! {
    tflops = "achieved_TFLOPps",
    gbps = "achieved_GBps",
    group_size = "group_size",
    peer = "peer_rank",
    uncontended = "uncontended_us",
    contention = "added_by_contention_us",
    waited_for = "waited_for",
    waited_rank = "waited_rank",
    waited_layer = "waited_layer",
    waited_micro_batch = "waited_micro_batch",
    exposes = "exposes",
    link = "link",
    sharers = "sharers",
    nominal = "nominal_us",
    noise = "slowed_by_noise_us",
    interference = "slowed_by_interference_us",
    critical = "critical",
    slack = "slack_us",
    rank = "rank",
    ops = "ops",
    stalls = "stalls",
    micro_batch = "micro_batch",
    busy = "busy_us",
    flops = "flops",
    bytes = "bytes",
    // When a transfer beside kernels was issued and needed, how late it was, how long it was hidden.
    issued = "issued_us",
    needed = "needed_us",
    late = "late_us",
    hidden = "hidden_us",
}

/// Kinds of slices, made when first needed.
#[derive(Default)]
pub(super) struct SliceKinds {
    /// By program, description, row and step: what ops of all micro-batches have in common.
    pub(super) ops: FxHashMap<(usize, u32, StreamKind, Option<u64>), SliceKind>,
    pub(super) passes: FxHashMap<(String, &'static str, Option<u64>), SliceKind>,
    pub(super) merged: FxHashMap<(StreamKind, SliceLevel, Phase, Option<u32>, u32), SliceKind>,
    /// By category and name.
    pub(super) named: FxHashMap<&'static str, FxHashMap<String, SliceKind>>,
    /// By program, description, and whether it stands for several ops.
    pub(super) critical: FxHashMap<(usize, u32, bool), SliceKind>,
}
