//! Who exchanges state with whom among the ranks that hold the same weights.

use super::Cuts;

/// The exchanges of ranks that hold the same weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Exchange {
    /// They sum their gradients, the first hop.
    Sum,
    /// They sum what the first hop has left to them, so that each has the part that it updates.
    SumAcross,
    /// They update the same part, and sum its gradient.
    SumReplicas,
    /// They gather weights, for a pass or behind the update.
    Gather,
    /// They gather weights from second copies.
    GatherSecondary,
}

impl Exchange {
    /// All of them.
    pub const ALL: [Exchange; 5] = [
        Exchange::Sum,
        Exchange::SumAcross,
        Exchange::SumReplicas,
        Exchange::Gather,
        Exchange::GatherSecondary,
    ];

    /// Of the `all` ranks that hold the same weights in order: the length of the run in which the members of one
    /// group lie, and the step from one member to the next.
    pub fn span(self, cuts: &Cuts<u32>, all: u32) -> (u32, u32) {
        let updated = cuts.optimizer.max(cuts.summed);
        match self {
            Exchange::Sum => (cuts.summed, 1),
            Exchange::SumAcross => (updated, cuts.summed),
            Exchange::SumReplicas => (all, updated),
            Exchange::Gather => (cuts.weights.max(cuts.optimizer), 1),
            Exchange::GatherSecondary => (cuts.secondary, 1),
        }
    }
}
