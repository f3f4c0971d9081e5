//! Why a run could not be played to its end.

use std::fmt;

use crate::ids::RankId;
use crate::units::{Bytes, Time};

/// One op that waits, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingOp {
    /// The rank it belongs to.
    pub rank: RankId,
    /// The stream it heads, by name.
    pub stream: &'static str,
    /// The op, by name, layer and micro-batch.
    pub op: String,
    /// The op or ranks that it waits for.
    pub waits_for: String,
}

/// The bytes that fill a tier, by class, largest first.
pub type Holdings = Vec<(&'static str, Bytes)>;

/// Why a run ended early. None of these is recoverable by trying again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EngineError {
    /// No op can start although ops remain.
    #[error("deadlock at {at}: no op can start, and each of these waits for the next{}", list(.cycle))]
    Deadlock {
        /// When it came to a standstill.
        at: Time,
        /// The wait cycle; the last waits for the first.
        cycle: Vec<WaitingOp>,
    },
    /// Bytes are needed that never fit.
    #[error(
        "out of memory at {at} on rank {}: {op} needs {need} on tier `{tier}`, which holds {level} of {capacity}:{}\n  \
         what to do: recompute activations, shard or offload what is largest, or use a smaller micro-batch",
        .rank.0, holdings(.holds)
    )]
    OutOfMemory {
        /// When.
        at: Time,
        /// The rank that needs them.
        rank: RankId,
        /// The op that asks for them, or "the state before the step".
        op: String,
        /// How many more bytes.
        need: Bytes,
        /// The tier's name.
        tier: String,
        /// Bytes on it now.
        level: Bytes,
        /// Bytes that it can hold.
        capacity: Bytes,
        /// The bytes that fill it.
        holds: Holdings,
    },
    /// Members of a communicator disagree on what it does next.
    #[error(
        "communication mismatch at {at}: rank {} does {op} (transfer {transfer}) where the communicator's \
         other members do transfer {expected}", .rank.0
    )]
    Mismatch {
        /// When the odd one arrived.
        at: Time,
        /// The odd one.
        rank: RankId,
        /// Its op.
        op: String,
        /// The transfer that it brings.
        transfer: u32,
        /// The transfer that the others brought.
        expected: u32,
    },
    /// The world contradicts itself; a defect of whatever made it.
    #[error("a world that cannot be played: {0}")]
    Invalid(String),
    /// Something lasts longer than the clock counts.
    #[error(
        "the step takes more than {limit} of simulated time\n  \
         what to do: look for a bandwidth, an efficiency or a peak that is far too small (`stepsim inspect`)"
    )]
    TooLong {
        /// The longest time.
        limit: Time,
    },
    /// A limit of the run was met.
    #[error(
        "the run would need {need} {what}, more than the limit of {limit}\n  what to do: fold it (leave out \
         --no-fold, and jitter of every rank), simulate fewer devices or micro-batches, or, if it is the \
         record, allow more with --record-gib"
    )]
    Limit {
        /// Of what.
        what: &'static str,
        /// How much.
        need: u64,
        /// The limit.
        limit: u64,
    },
}

fn list(cycle: &[WaitingOp]) -> String {
    use fmt::Write;
    cycle.iter().fold(String::new(), |mut s, w| {
        let _ = write!(s, "\n  rank {} {}: {} waits for {}", w.rank.0, w.stream, w.op, w.waits_for);
        s
    })
}

fn holdings(holds: &Holdings) -> String {
    use fmt::Write;
    holds.iter().fold(String::new(), |mut s, (class, bytes)| {
        let _ = write!(s, "\n  {class:<12} {bytes}");
        s
    })
}
