//! Collective algorithms: what each costs in closed form, and which transfers it is made of.
//!
//! An [`Algorithm`] is one file. It describes itself once, as [`RoundGroup`]s: **rounds** of transfers between member
//! positions. No member waits for a round of another: a slice is sent on when it has arrived and the link is free.
//! Everything else follows, at the [`Fidelity`] asked for:
//!
//! * `formula`: the textbook closed form of the algorithm, as a fixed time; no link is used;
//! * `fluid`: one activity per round kind over the links that it crosses. A link that `c` transfers of `u` bytes cross
//!   gets the coefficient `c`; the activity moves `u` bytes per unit of coefficient, so a link of capacity `B` needs
//!   `c·u/B`, and the activity takes the time of the worst link;
//! * `steps`: every transfer of every round is a flow. It waits for the flows that brought its sender what it sends,
//!   pays its latency, queues behind what its ports carried before, then shares links (`steps`).
//!
//! Without contention the three agree to rounding for every algorithm whose members all take the same hops in a
//! round, and for rings of one port a node whatever their hops; where they do not (double binary tree, rings that
//! meet on scale-up ports, torus axes of unequal length) the algorithm's file says what `fluid` and `formula` leave
//! out.
//!
//! Conventions (nccl-tests `doc/PERFORMANCE.md`): `n` members; `S` = [`Transfer::bytes`]: the buffer of one rank for
//! all-reduce and all-to-all, the **full** gathered (or unreduced) buffer for all-gather and
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
mod choice;
mod chooser;
mod direct;
mod doubling;
mod error;
mod geometry;
mod hierarchical;
mod labels;
mod latency;
mod lowering;
mod network;
mod nvls;
mod pat;
mod paths;
mod pattern;
mod plan;
mod point_to_point;
mod probe;
mod rail;
mod registry;
mod ring;
mod schedule;
mod shift;
mod sites;
mod staged;
mod steps;
mod table;
mod torus;
mod transfer;
mod tree;
mod tuning;
mod two_stage;
mod unsupported;
mod uplinks;

pub use algorithm::Algorithm;
pub use bound::{CollectiveBound, bound};
pub use choice::{AlgorithmChoice, Why};
pub use chooser::{Chooser, OwnTimes};
pub use error::CollectiveError;
pub use geometry::{DomainWiring, Geometry, NeighbourLink, SiteLinks, TorusAxis, Uplinks};
pub use labels::RouteEnds;
pub use lowering::{Fidelity, Lowering};
pub use network::Network;
pub use pattern::{OwnPattern, Pattern, Route};
pub use registry::{ALGORITHMS, algorithm};
pub use schedule::{Adjust, PatternRoutes, RepeatedPattern, RoundGroup};
pub use sites::in_chunks;
pub use stepsim_spec::collectives::{Op, SecondStage};
pub use transfer::Transfer;
pub use tuning::DeviceTuning;
pub use unsupported::UnsupportedAlgorithm;
