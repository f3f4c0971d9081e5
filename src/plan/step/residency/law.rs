//! The closed form of a policy: what it asks of idle links around the passes of a rank, and what it holds.
//!
//! A policy says what *it* asks for; how requests of several policies lie beside passes and one another is said once,
//! in `analytic`: collectives of neighbouring units share a slot with the pass between them, copies in the two
//! directions do not disturb each other.

use std::cell::OnceCell;

use super::StateShares;
use super::away::Away;
use super::idle_links::IdleLinks;
use crate::step::unit::{ResidentState, Unit};
use stepsim_fabric::collective::CollectiveError;

/// The closed form of a policy.
pub trait Law {
    /// Its demand on the links in a step, on one rank.
    ///
    /// # Errors
    /// A collective that no algorithm can run.
    fn closed_form(&self, given: &PolicyInputs<'_>) -> Result<LinkDemand, CollectiveError>;
    /// The device memory that it holds.
    fn held(&self, given: &PolicyInputs<'_>) -> ClassBytes;
    /// True if it does other things for layers that differ in their numbers alone.
    fn tells_layers_apart(&self) -> bool {
        false
    }
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
pub struct PolicyInputs<'a> {
    /// How its state is shared.
    pub shares: &'a StateShares<'a>,
    /// The links that it uses.
    pub links: &'a dyn IdleLinks,
    /// Units of each of its chunks, and whether that chunk ends the model.
    pub chunks: Vec<(Vec<UnitTimes<'a>>, bool)>,
    /// Passes of a step in one direction through each chunk. Where passes do not share what was copied
    /// (`offload.reuse_across_micro_batches`), laws only ask whether it is one.
    pub passes: f64,
    state: OnceCell<ResidentState>,
}

impl<'a> PolicyInputs<'a> {
    /// A rank of these chunks; other fields as they are called.
    pub fn new(
        shares: &'a StateShares<'a>,
        links: &'a dyn IdleLinks,
        chunks: Vec<(Vec<UnitTimes<'a>>, bool)>,
        passes: f64,
    ) -> PolicyInputs<'a> {
        PolicyInputs { shares, links, chunks, passes, state: OnceCell::new() }
    }
    /// The bytes of optimizer, gradients and weights of all units.
    pub(super) fn state(&self) -> &ResidentState {
        self.state.get_or_init(|| self.shares.state(self.units().map(|u| u.unit)))
    }
    /// All units.
    pub fn units(&self) -> impl Iterator<Item = &UnitTimes<'a>> {
        self.chunks.iter().flat_map(|chunk| &chunk.0)
    }
    /// Bytes of each unit, by chunk.
    pub(super) fn bytes(&self, of: impl Fn(&Unit) -> f64) -> Vec<Vec<f64>> {
        self.chunks.iter().map(|(units, _)| units.iter().map(|u| of(u.unit)).collect()).collect()
    }
    /// The same for each unit, by chunk.
    ///
    /// # Errors
    /// Those of `of`.
    pub(super) fn around(
        &self,
        of: impl Fn(&Unit) -> Result<UnitMessages, CollectiveError>,
    ) -> Result<Vec<Vec<UnitMessages>>, CollectiveError> {
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
}

/// A policy's demand on the links in a step, in seconds on idle ones.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkDemand {
    /// Around the visits of each unit, by chunk; empty: nothing.
    pub around: Vec<Vec<UnitMessages>>,
    /// When the gathers of [`UnitMessages`] run.
    pub gathers: Gathers,
    /// When gradients are reduced; none: by no policy of this class.
    pub reductions: Option<Reductions>,
    /// Seconds of collectives behind the optimizer step.
    pub behind: f64,
    /// The demand of each unit's update on other tiers behind its last reduction, station after station.
    pub updates: Option<Updates>,
}

/// When weights are gathered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Gathers {
    /// Never.
    #[default]
    Never,
    /// Once a step for each unit, one after the other from its start.
    Once,
    /// Before each visit of a unit that is not there, behind the end of the visit `ahead` before it: forward, and
    /// backward.
    Each {
        /// Visits between the gate and the visit.
        ahead: [usize; 2],
        /// True if a gather runs ahead of its pass, into the one before.
        across: bool,
        /// True if weights gathered for a forward visit stay for the backward one.
        keeps: bool,
    },
}

/// When gradients are reduced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reductions {
    /// After every micro-batch, or behind the last one's pass.
    pub every: bool,
    /// Beside the passes to come, or behind them all.
    pub overlap: bool,
    /// Bytes of gradients that are sent together.
    pub bucket_bytes: u64,
    /// True if a visit waits for the reduction of the one before the last.
    pub held: bool,
}

/// The updates of a step where their state lives on other tiers: every unit passes three stations in turn, each of
/// which takes one at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Updates {
    /// Seconds at each station, by unit in the order of chunks.
    pub stations: Vec<[f64; 3]>,
    /// The copy queues of the first and the last station: 0 towards the device, 1 away from it.
    pub queues: [usize; 2],
    /// Units whose updates may have begun and not ended; none: all.
    pub ahead: Option<usize>,
    /// True if no update begins before all gradients are reduced.
    pub together: bool,
}

/// Seconds of messages around the visits of one unit: forward, then backward.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct UnitMessages {
    /// Collectives before the visit.
    pub gather: [f64; 2],
    /// Copies in, before the visit.
    pub copy_in: [f64; 2],
    /// Copies out, behind the visit.
    pub copy_out: [f64; 2],
    /// Copies of what gathers from pass to pass: in before each backward visit but the first, out behind each but the
    /// last.
    pub carried: [f64; 2],
    /// Copies around each reduction: in of what has been reduced before, out of the sum.
    pub home: [f64; 2],
}

impl std::ops::AddAssign for UnitMessages {
    fn add_assign(&mut self, other: UnitMessages) {
        self.gather = [0, 1].map(|i| self.gather[i] + other.gather[i]);
        self.copy_in = [0, 1].map(|i| self.copy_in[i] + other.copy_in[i]);
        self.copy_out = [0, 1].map(|i| self.copy_out[i] + other.copy_out[i]);
        self.carried = [0, 1].map(|i| self.carried[i] + other.carried[i]);
        self.home = [0, 1].map(|i| self.home[i] + other.home[i]);
    }
}

/// Bytes of one class in device memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassBytes {
    /// All the time.
    pub stays: f64,
    /// From a micro-batch's forward to its backward pass: by chunk and unit; empty: nothing.
    pub carried: Vec<Vec<f64>>,
    /// Beyond both, during each forward and backward visit: by chunk and unit; empty: nothing.
    pub during: Vec<Vec<[f64; 2]>>,
    /// Beyond what stays, while weights are updated.
    pub update: f64,
}

/// Bytes during each visit of a chunk where a unit's `bytes` are there during its own visit, `ahead` visits before it
/// (forward, backward) and `behind` visits after it.
pub(super) fn windows(bytes: &[f64], ahead: [usize; 2], behind: [usize; 2]) -> Vec<[f64; 2]> {
    let last = bytes.len().saturating_sub(1);
    let sum = |from: usize, to: usize| bytes[from..=to.min(last)].iter().sum::<f64>();
    let of_visit = |i: usize| {
        [
            sum(i.saturating_sub(behind[0]), i.saturating_add(ahead[0])),
            sum(i.saturating_sub(ahead[1]), i.saturating_add(behind[1])),
        ]
    };
    (0..bytes.len()).map(of_visit).collect()
}

/// The same where visits follow one another over the chunks of a rank: behind the last visit of a chunk comes the
/// first of the next one. A single chunk's passes turn round at its ends, where nothing new is needed.
pub(super) fn windows_across(
    chunks: &[Vec<f64>],
    ahead: [usize; 2],
    behind: [usize; 2],
) -> Vec<Vec<[f64; 2]>> {
    let all = chunks.concat();
    if chunks.len() == 1 || all.is_empty() {
        return chunks.iter().map(|bytes| windows(bytes, ahead, behind)).collect();
    }
    let n = all.len();
    let most = |visits: [usize; 2]| visits.map(|v| v.min(n - 1));
    let ([ahead, ahead_back], [behind, behind_back]) = (most(ahead), most(behind));
    let sum = |from: usize, visits: usize| (0..visits).map(|i| all[(from + i) % n]).sum::<f64>();
    let mut during = (0..n).map(|i| {
        [sum(i + n - behind, behind + 1 + ahead), sum(i + n - ahead_back, ahead_back + 1 + behind_back)]
    });
    chunks.iter().map(|bytes| during.by_ref().take(bytes.len()).collect()).collect()
}
