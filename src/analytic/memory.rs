//! What one rank's device memory holds at its fullest.

use crate::plan::step::Unit;
use crate::plan::step::residency::{Given, Held};

/// Bytes in device memory, by class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    /// Weights that stay.
    pub weights: f64,
    /// Gradients that stay.
    pub gradients: f64,
    /// Optimizer state that stays.
    pub optimizer: f64,
    /// Kept activations of all micro-batches in flight.
    pub activations: f64,
    /// Weights gathered or copied in for the units in work.
    pub gathered: f64,
    /// Short-lived tensors of the unit in work, and its activations while it is recomputed.
    pub workspace: f64,
    /// Of all these, what is held at one moment for certain: the state that stays, and the kept activations at their most.
    pub certain: f64,
}

impl Memory {
    /// The sum of what the policies of a rank hold: weights, gradients, optimizer state, activations.
    pub(super) fn new([weights, gradients, optimizer, activations]: [Held; 4], given: &Given<'_>) -> Memory {
        let policy = &given.shares.workload().recompute;
        let work = |u: &Unit| {
            let again = u.plan.all_saved_bytes().saturating_sub(u.kept_bytes(policy));
            u.plan.workspace_bytes as f64 + again as f64
        };
        Memory {
            weights: weights.stays,
            gradients: gradients.stays + gradients.passes,
            optimizer: optimizer.stays + optimizer.passes,
            activations: activations.stays + activations.passes,
            gathered: weights.passes,
            workspace: given.largest(work),
            certain: weights.stays
                + gradients.stays
                + optimizer.stays
                + activations.stays
                + activations.passes,
        }
    }
    /// Every class with its name.
    pub fn named(&self) -> [(&'static str, f64); 6] {
        [
            ("weights", self.weights),
            ("gradients", self.gradients),
            ("optimizer state", self.optimizer),
            ("activations", self.activations),
            ("gathered weights", self.gathered),
            ("workspace", self.workspace),
        ]
    }
    /// All of them.
    pub fn total(&self) -> f64 {
        self.named().iter().map(|class| class.1).sum()
    }
}
