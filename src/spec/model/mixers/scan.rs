//! The computation of a mixer without attention scores on a rank.

use stepsim_core::kernel_class::KernelClass;

/// The kind of products within a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ScanKind {
    /// A state space, or linear attention with nothing but a decay.
    #[default]
    Decay,
    /// A delta rule with a decay a head.
    Delta,
    /// A delta rule with a decay a channel.
    ChannelDelta,
}

impl ScanKind {
    /// Classes of its kernels, forward and backward.
    pub fn classes(self) -> [KernelClass; 2] {
        match self {
            ScanKind::Decay => [KernelClass::Scan, KernelClass::ScanBackward],
            ScanKind::Delta => [KernelClass::DeltaScan, KernelClass::DeltaScanBackward],
            ScanKind::ChannelDelta => [KernelClass::ChannelDeltaScan, KernelClass::ChannelDeltaScanBackward],
        }
    }
}

/// Work of a scan in chunks, in elements a token where nothing else is said.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scan {
    /// Width of the projection in.
    pub projected: u64,
    /// Width that is convolved; 0 without.
    pub convolved: u64,
    /// Width of the scan's output.
    pub inner: u64,
    /// Elements that the scan reads, each time it reads them.
    pub read: u64,
    /// Products with narrow weights between convolution and scan, each (width in, width out) of a rank.
    pub narrow: Vec<(u64, u64)>,
    /// The kind of its products.
    pub kind: ScanKind,
    /// Tokens of one chunk.
    pub chunk: u64,
    /// Products, each (rows, columns, inner length, how many of them for one chunk).
    pub products: Vec<(u64, u64, u64, u64)>,
    /// Of these, how many backward computes again before its own.
    pub repeated: usize,
    /// Elements of the states behind one chunk, in fp32.
    pub state: u64,
    /// Elements kept for backward beside what the projections keep.
    pub saved: u64,
    /// True if the output is normalised and gated.
    pub gated_norm: bool,
}
