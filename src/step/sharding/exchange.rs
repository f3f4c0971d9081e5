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

#[cfg(test)]
mod tests {
    use super::Exchange::{Gather, GatherSecondary, Sum, SumAcross, SumReplicas};
    use crate::sharding::ALL;

    /// Ranks of each exchange among 8 that hold the same weights, in groups of 4.
    #[test]
    fn groups_have_the_sizes_of_theory() {
        let sizes = |name: &str| {
            let facts = ALL.iter().find(|facts| facts.name == name).expect("a kind");
            let cuts = facts.dense.ranks(4, 8);
            [Sum, SumAcross, SumReplicas, Gather, GatherSecondary].map(|exchange| {
                let (run, step) = exchange.span(&cuts, 8);
                run / step
            })
        };
        assert_eq!(sizes("none"), [8, 1, 1, 1, 1]);
        for zero in ["zero1", "zero2", "zero3", "hybrid", "mics"] {
            assert_eq!(sizes(zero), [4, 1, 2, 4, 1], "{zero}");
        }
        assert_eq!(sizes("node-gradients"), [4, 2, 1, 8, 1]);
        assert_eq!(sizes("zero-plus-plus"), [4, 2, 1, 8, 4]);
    }
}
