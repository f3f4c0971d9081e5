//! The numbers that a schedule depends on.

/// The numbers that a schedule depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pipeline ranks, p.
    pub ranks: u32,
    /// Micro-batches of the step, m (DualPipe: of both directions together).
    pub micro_batches: u32,
    /// Chunks per rank, v; the schedule's own number if not given.
    pub chunks: Option<u16>,
    /// Micro-batches that pass a chunk in a row before the next chunk has its turn (interleaved); p if not given.
    pub group: Option<u32>,
}

impl Shape {
    /// The largest number of slots that an order may have.
    pub const MAX_SLOTS: u64 = 1 << 24;
    /// The largest number of chunks per rank.
    pub const MAX_CHUNKS: u16 = 1024;

    /// p ranks and m micro-batches, all else by default.
    pub fn new(ranks: u32, micro_batches: u32) -> Shape {
        Shape { ranks, micro_batches, chunks: None, group: None }
    }
    /// With v chunks per rank.
    pub fn with_chunks(self, chunks: u16) -> Shape {
        Shape { chunks: Some(chunks), ..self }
    }
    /// With groups of that many micro-batches.
    pub fn with_group(self, group: u32) -> Shape {
        Shape { group: Some(group), ..self }
    }
}
