//! Collective algorithms: what each costs in closed form, and which transfers it is made of.
//!
//! An [`Algorithm`] is one file. It describes itself once, as [`Phase`]s: **rounds** of transfers between member
//! positions that run in lock-step. Everything else follows from the rounds, at the [`Fidelity`] asked for:
//!
//! * `formula`: the textbook closed form of the algorithm, as a fixed time; no link is used;
//! * `fluid`: one activity per round kind over the links that it crosses. A link that `c` transfers of `u` bytes cross
//!   gets the coefficient `c`; the activity moves `u` bytes per unit of coefficient, so a link of capacity `B` needs
//!   `c·u/B`, and the activity takes the time of the worst link;
//! * `steps`: every transfer of every round is a flow. It waits for the flows by which its sender last sent or
//!   received, then pays its latency, then shares links.
//!
//! Without contention the three agree to rounding for every lock-step algorithm; where an algorithm is not lock-step
//! (double binary tree, torus axes of unequal length) its file says what `fluid` and `formula` leave out.
//!
//! Conventions (nccl-tests `doc/PERFORMANCE.md`): `n` members; `S` = [`Transfer::bytes`]: the buffer of one rank for
//! all-reduce, broadcast, reduce and all-to-all, the **full** gathered (or unreduced) buffer for all-gather and
//! reduce-scatter. `α` is the latency that a transfer pays before it occupies links, `B` one direction of a port or
//! link in bytes per second. Reduction arithmetic is free.
//!
//! A [`Lowering`] adds communicators to a world: it looks at a group's [`Geometry`], lets a [`Chooser`] pick an
//! algorithm for each transfer, and writes paths and actions. Groups of equal geometry share actions.
//!
//! Hazards:
//! * Bytes on the wire are the algorithm's bytes divided by the protocol's efficiency: on machines with a tuning table
//!   links carry more than the payload, as they do in reality.
//! * Positions are not member indices: a group is put in an order that suits the fabric (node by node, or by torus
//!   coordinates) before an algorithm sees it.

mod algorithm;
mod bound;
mod broadcast;
mod chooser;
mod direct;
mod doubling;
mod geometry;
mod hierarchical;
mod labels;
mod lowering;
mod nvls;
mod pat;
mod paths;
mod pattern;
mod plan;
mod point_to_point;
mod rail;
mod registry;
mod ring;
mod schedule;
mod shift;
mod sites;
mod table;
mod torus;
mod tree;
mod tuning;
mod two_stage;

pub use crate::moe::Staged;
pub use crate::spec::collectives::Op;
pub use algorithm::{Algorithm, Unsupported};
pub use bound::{Bound, bound};
pub use chooser::{Choice, Chooser, Why};
pub use geometry::{Axis, Fabric, Geometry, LinkClass, Network, SiteLinks};
pub use labels::Sent;
pub use lowering::{CollectiveError, Fidelity, Lowering};
pub use pattern::{OwnPattern, Pattern, Route};
pub use registry::{ALGORITHMS, algorithm};
pub use schedule::{Adjust, Part, Phase, Routes};
pub use tuning::DeviceTuning;

impl Op {
    /// All, in the order of reports.
    pub const ALL: [Op; 9] = [
        Op::AllReduce,
        Op::AllGather,
        Op::ReduceScatter,
        Op::AllToAll,
        Op::Broadcast,
        Op::Reduce,
        Op::SendRecv,
        Op::RingShift,
        Op::ExpertExchange,
    ];
    /// The name in the field's spelling.
    pub fn name(self) -> &'static str {
        match self {
            Op::AllReduce => "all-reduce",
            Op::AllGather => "all-gather",
            Op::ReduceScatter => "reduce-scatter",
            Op::AllToAll => "all-to-all",
            Op::Broadcast => "broadcast",
            Op::Reduce => "reduce",
            Op::SendRecv => "send-recv",
            Op::RingShift => "ring-shift",
            Op::ExpertExchange => "expert-exchange",
        }
    }
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
    /// What is done.
    pub op: Op,
    /// `S` in bytes: one rank's buffer; for all-gather and reduce-scatter the full buffer. For an expert exchange: what
    /// one rank sends to other nodes.
    pub bytes: u64,
    /// What else an expert exchange is made of.
    pub staged: Option<Staged>,
}

impl Transfer {
    /// Any transfer but an expert exchange.
    pub fn new(op: Op, bytes: u64) -> Transfer {
        Transfer { op, bytes, staged: None }
    }
}
