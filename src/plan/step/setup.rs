//! The setup that all ranks of a step share, and the variants that tell their programs apart.

use super::forming::Forming;
use super::messages::Messages;
use super::residency::StateShares;
use super::unit::Unit;

/// The setup that all ranks of the step share.
pub(super) struct Setup<'a> {
    /// How state is shared among ranks and tiers.
    pub(super) shares: StateShares<'a>,
    /// Units of each stage.
    pub(super) stages: Vec<Vec<Unit>>,
    /// Steps of the run, one after the other.
    pub(super) steps: u32,
    /// True if ranks update their weights before they know the norm of all gradients, as under schedules that cut
    /// each backward pass (Qi et al. 2024, section 4: a step that should not have been taken is taken back).
    pub(super) updates_unasked: bool,
    /// The messages over the borders between stages.
    pub(super) messages: Messages,
    /// The forming of the groups of dynamic context parallelism.
    pub(super) forming: Option<Forming>,
    /// Parameters of the embedding table on one rank.
    pub(super) table_parameters: u64,
    /// True if the head multiplies by it, too.
    pub(super) tied_embeddings: bool,
}

/// The variant that tells the programs of ranks of one pipeline rank apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Variant {
    /// Class of the device.
    pub(super) class: u32,
    /// The documents that it gets ([`Packs::of`](super::packs::Packs::of)).
    pub(super) documents: u32,
}
