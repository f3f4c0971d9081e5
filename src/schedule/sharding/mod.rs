//! Sharding: what data-parallel ranks cut among them instead of each holding it whole.
//!
//! A kind is data: over whom weights, gradients and optimizer state are cut ([`Cuts`] of [`CutExtent`]s), once for
//! dense weights and once for experts, and a few more [`ShardingFacts`]. The numbers of ranks follow once from
//! workload and machine ([`Cuts::ranks`]), and from them who sums and gathers what with whom ([`Exchange::span`]).
//! Nobody asks for a kind by its name.
//!
//! A gradient is summed over N ranks that hold the same weights in up to three hops:
//!
//! ```text
//! bytes of one rank     B            B/summed              B/optimizer
//! hop                   Sum          SumAcross             SumReplicas
//! over ranks            summed       optimizer/summed      N/optimizer
//! collective            scatter      scatter               all-reduce
//! ```
//!
//! A new kind is one new file and one line in [`ALL`].

mod cuts;
mod exchange;
mod facts;
mod hpz;
mod hybrid;
mod kind;
mod mics;
mod node_gradients;
mod none;
mod registry;
mod zero1;
mod zero2;
mod zero3;
mod zero_plus_plus;

pub use cuts::{CutExtent, Cuts};
pub use exchange::Exchange;
pub use facts::{GroupSize, ShardingFacts};
pub use kind::ShardingKind;
pub use none::NONE;
pub use registry::ALL;
pub use zero1::ZERO1;
