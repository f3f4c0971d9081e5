//! Names of arguments and kinds of slices, as a sink numbers them.

use std::io;

use rustc_hash::FxHashMap;

use super::rows::Level;
use crate::core::program::{Phase, StreamKind};
use crate::read::trace::writer::{Key, Kind, Sink};

/// Names of arguments that differ from slice to slice of one kind.
#[derive(Clone, Copy)]
pub(super) struct Keys {
    pub(super) tflops: Key,
    pub(super) gbps: Key,
    pub(super) group_size: Key,
    pub(super) peer: Key,
    pub(super) uncontended: Key,
    pub(super) contention: Key,
    pub(super) waited_for: Key,
    pub(super) waited: [Key; 3],
    pub(super) link: Key,
    pub(super) sharers: Key,
    pub(super) nominal: Key,
    pub(super) noise: Key,
    pub(super) interference: Key,
    pub(super) critical: Key,
    pub(super) slack: Key,
    pub(super) rank: Key,
    pub(super) ops: Key,
    pub(super) stalls: Key,
    pub(super) micro_batch: Key,
    pub(super) busy: Key,
    pub(super) flops: Key,
    pub(super) bytes: Key,
    /// When a transfer beside kernels was issued and needed, how late it was, how long it was hidden.
    pub(super) beside: [Key; 4],
}

impl Keys {
    /// Asks a sink for all.
    pub(super) fn new(sink: &mut dyn Sink) -> io::Result<Keys> {
        Ok(Keys {
            tflops: sink.key("achieved_TFLOPps")?,
            gbps: sink.key("achieved_GBps")?,
            group_size: sink.key("group_size")?,
            peer: sink.key("peer_rank")?,
            uncontended: sink.key("uncontended_us")?,
            contention: sink.key("added_by_contention_us")?,
            waited_for: sink.key("waited_for")?,
            waited: [sink.key("waited_rank")?, sink.key("waited_layer")?, sink.key("waited_micro_batch")?],
            link: sink.key("link")?,
            sharers: sink.key("sharers")?,
            nominal: sink.key("nominal_us")?,
            noise: sink.key("slowed_by_noise_us")?,
            interference: sink.key("slowed_by_interference_us")?,
            critical: sink.key("critical")?,
            slack: sink.key("slack_us")?,
            rank: sink.key("rank")?,
            ops: sink.key("ops")?,
            stalls: sink.key("stalls")?,
            micro_batch: sink.key("micro_batch")?,
            busy: sink.key("busy_us")?,
            flops: sink.key("flops")?,
            bytes: sink.key("bytes")?,
            beside: [
                sink.key("issued_us")?,
                sink.key("needed_us")?,
                sink.key("late_us")?,
                sink.key("hidden_us")?,
            ],
        })
    }
}

/// Kinds of slices, made when first needed.
#[derive(Default)]
pub(super) struct Kinds {
    /// By program, description, row and step: what ops of all micro-batches have in common.
    pub(super) ops: FxHashMap<(usize, u32, StreamKind, Option<u64>), Kind>,
    pub(super) passes: FxHashMap<(String, &'static str, Option<u64>), Kind>,
    pub(super) merged: FxHashMap<(StreamKind, Level, Phase, Option<u32>, u32), Kind>,
    /// By category and name.
    pub(super) named: FxHashMap<&'static str, FxHashMap<String, Kind>>,
    /// By program, description, and whether it stands for several ops.
    pub(super) critical: FxHashMap<(usize, u32, bool), Kind>,
}
