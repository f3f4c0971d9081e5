//! The costs of policies on links that nothing else uses.

use crate::step::groups::Group;
use stepsim_fabric::collective::{CollectiveError, Op};

/// Times of messages on an idle machine.
pub trait IdleLinks {
    /// Seconds of a collective of `bytes`; none in a group of one.
    ///
    /// # Errors
    /// No algorithm can run it.
    fn collective(&self, group: Group, op: Op, bytes: f64) -> Result<f64, CollectiveError>;
    /// Seconds of a copy towards the device, away from it, and of an update in place, on the way to a tier.
    fn copy(&self, tier: u8, bytes: f64) -> [f64; 3];
}
