//! The closed form of a policy: what it asks of idle links around the passes of a rank, and what it holds.
//!
//! A policy says what *it* asks for; how requests of several policies lie beside passes and one another is said once, in
//! `analytic`: collectives of neighbouring units share a slot with the pass between them, copies in the two directions
//! do not disturb each other.

use super::{Away, Shares};
use crate::collective::{CollectiveError, Op};
use crate::plan::step::groups::Group;
use crate::plan::step::unit::Unit;

/// The closed form of a policy.
pub trait Law {
    /// What it asks of the links in a step, on one rank.
    ///
    /// # Errors
    /// A collective that no algorithm can run.
    fn closed_form(&self, given: &Given<'_>) -> Result<Form, CollectiveError>;
    /// What it holds of the device's memory.
    fn held(&self, given: &Given<'_>) -> Held;
}

/// Times of messages on an idle machine.
pub trait IdleLinks {
    /// Seconds of a collective of so many bytes; none in a group of one.
    ///
    /// # Errors
    /// No algorithm can run it.
    fn collective(&self, group: Group, op: Op, bytes: f64) -> Result<f64, CollectiveError>;
    /// Seconds of a copy towards the device, away from it, and of an update in place, on the way to a tier.
    fn copy(&self, tier: u8, bytes: f64) -> [f64; 3];
}

/// A unit with the seconds of its passes.
#[derive(Clone, Copy)]
pub struct UnitTimes<'a> {
    /// The unit.
    pub unit: &'a Unit,
    /// Forward.
    pub forward: f64,
    /// Backward, with what is recomputed for it.
    pub backward: f64,
}

/// One rank as the closed form of its policies sees it.
pub struct Given<'a> {
    /// How its state is shared.
    pub shares: &'a Shares<'a>,
    /// The links that it uses.
    pub links: &'a dyn IdleLinks,
    /// Units of each of its chunks, and whether that chunk ends the model.
    pub chunks: Vec<(Vec<UnitTimes<'a>>, bool)>,
    /// Passes of a step in one direction through each chunk.
    pub passes: f64,
    /// Most bytes of activations that wait between passes.
    pub kept: u64,
}

impl<'a> Given<'a> {
    /// All units.
    pub fn units(&self) -> impl Iterator<Item = &UnitTimes<'a>> {
        self.chunks.iter().flat_map(|chunk| &chunk.0)
    }
    /// The same for each unit, by chunk.
    ///
    /// # Errors
    /// Those of `of`.
    pub(super) fn around(
        &self,
        of: impl Fn(&Unit) -> Result<Around, CollectiveError>,
    ) -> Result<Vec<Vec<Around>>, CollectiveError> {
        self.chunks.iter().map(|(units, _)| units.iter().map(|u| of(u.unit)).collect()).collect()
    }
    /// Seconds to copy the shares of `bytes` that live on tiers: in, out and in place.
    pub(super) fn copies(&self, placed: &[Away], bytes: f64) -> [f64; 3] {
        let mut time = [0.0; 3];
        for away in placed {
            let bytes = bytes * away.fraction;
            let [inward, outward, _] = self.links.copy(away.tier, bytes);
            time[0] += inward;
            time[1] += outward;
            // Updates happen at the device's end of the way, where there are stops on it.
            time[2] += self.links.copy(away.near(), bytes)[2];
        }
        time
    }
    /// The largest of something over the units.
    pub(crate) fn largest(&self, of: impl Fn(&Unit) -> f64) -> f64 {
        self.units().map(|u| of(u.unit)).fold(0.0, f64::max)
    }
}

/// What a policy asks of the links in a step, in seconds on idle ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Form {
    /// Around the visits of each unit, by chunk; empty: nothing.
    pub around: Vec<Vec<Around>>,
    /// In how many passes of a step weights are gathered for forward, and gradients reduced behind backward.
    pub repeats: Repeats,
    /// Exposed whatever the passes do.
    pub once: Once,
}

/// In how many passes of a step the collectives of [`Around`] run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Repeats {
    /// Gathers before forward visits.
    pub gathers: f64,
    /// Reductions behind backward visits.
    pub reductions: f64,
}

/// What is exposed once a step, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Once {
    /// Collectives.
    pub collectives: f64,
    /// Copies between tiers, and updates on the host.
    pub copies: f64,
}

/// Seconds of messages around the visits of one unit: forward, then backward.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Around {
    /// Collectives before the visit.
    pub gather: [f64; 2],
    /// Collectives behind the backward visit.
    pub reduce: f64,
    /// Copies in, before the visit.
    pub copy_in: [f64; 2],
    /// Copies out, behind the forward visit.
    pub copy_out: f64,
}

impl std::ops::AddAssign for Around {
    fn add_assign(&mut self, other: Around) {
        self.gather = [0, 1].map(|i| self.gather[i] + other.gather[i]);
        self.reduce += other.reduce;
        self.copy_in = [0, 1].map(|i| self.copy_in[i] + other.copy_in[i]);
        self.copy_out += other.copy_out;
    }
}

/// Bytes of one class in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Held {
    /// All the time.
    pub stays: f64,
    /// Beyond that, at the fullest moment.
    pub passes: f64,
}
