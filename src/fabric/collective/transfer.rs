//! A transfer: an op and its size.

use stepsim_price::moe::SecondStage;
use stepsim_spec::collectives::Op;

impl Op {
    /// The op of a name as [`Op::name`] spells it.
    pub fn from_name(name: &str) -> Option<Op> {
        Op::ALL.into_iter().find(|op| op.name() == name)
    }
    /// Bus bandwidth over algorithm bandwidth for `n` ranks (nccl-tests `doc/PERFORMANCE.md`): the factor that makes
    /// a ring's bus bandwidth equal to the rate of its links.
    pub fn bus_factor(self, n: u32) -> f64 {
        let n = f64::from(n);
        match self {
            Op::AllReduce => 2.0 * (n - 1.0) / n,
            Op::AllGather | Op::ReduceScatter | Op::AllToAll => (n - 1.0) / n,
            Op::Broadcast | Op::Reduce | Op::SendRecv | Op::RingShift | Op::ExpertExchange => 1.0,
        }
    }
}

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
