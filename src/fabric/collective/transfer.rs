//! A transfer: an op and its size.

use stepsim_spec::collectives::{Op, SecondStage};

/// An op with its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Transfer {
    /// The operation.
    pub op: Op,
    /// `S` in bytes: one rank's buffer; for all-gather and reduce-scatter the full buffer. For an expert exchange: what
    /// one rank sends to other nodes.
    pub bytes: u64,
    /// The further parts of an expert exchange.
    pub staged: Option<SecondStage>,
}

impl Transfer {
    /// Any transfer but an expert exchange.
    pub fn new(op: Op, bytes: u64) -> Transfer {
        Transfer { op, bytes, staged: None }
    }
}
