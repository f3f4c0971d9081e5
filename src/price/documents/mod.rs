//! Documents packed into sequences: which documents a micro-batch holds, and what attention has to do for them.
//!
//! A token attends to earlier tokens of its own document alone (block-diagonal masks), so a sequence of n documents
//! costs the sum over documents of l²/2, not s²/2, and two micro-batches of equally many tokens may differ several
//! times. Whoever waits for others waits for the one with most pairs: ranks that share a sequence ([`shards`]:
//! context parallelism), data-parallel replicas and pipeline stages ([`Dealt`]: who gets which sequence). [`expected`]
//! gives the expected time of the slowest of n over the mean.
//!
//! Matrix products, norms and scans cost tokens only: packing does not change them. Conventions: a window and chunks
//! restart with each document.

mod dealt;
mod dynamic;
pub mod expected;
mod images;
mod lengths;
pub mod shards;
mod work;

pub use dealt::Dealt;
pub use dynamic::{DynamicContext, OfDegree, PackedPass, Room};
pub use images::{Images, items_of};
pub use lengths::drawn;
pub use work::{AttentionPairs, Mask, Works};
