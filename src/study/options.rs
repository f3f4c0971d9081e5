//! The options of a search.

use serde_json::{Map, Value};

use super::objective::{Measures, Objective};
use super::space::StudyAxis;
use stepsim_core::declare::defaults;
use stepsim_core::interrupt::InterruptToken;
use stepsim_read::analysis::answer::HEAD_ROOM;

/// Told the seconds of a layout, whether it was simulated or is the best in closed form, and its settings.
pub type BestHeard = fn(f64, bool, &Map<String, Value>);

/// Layers of micro-batches that take seconds to be played, and layouts that take seconds to be estimated: whoever waits
/// hears of the best so far.
pub(super) const LONG: u64 = 20_000;
pub(super) const LARGE: usize = 2_000;

defaults! {
    /// How to search.
    #[derive(Clone, Debug)]
    pub struct SearchOptions {
        /// `path=value` texts that hold for all layouts.
        pub fix: Vec<String>,
        /// Values to try, in the place of those that would be tried, or of other fields.
        pub vary: Vec<StudyAxis>,
        /// Bytes of device memory that a layout may take; default: what the device has, less the head room.
        pub max_memory_bytes: Option<f64>,
        /// Part of device memory that stays free where no bytes are given.
        pub head_room: f64 = HEAD_ROOM,
        /// The aim.
        pub objective: Objective,
        /// Longest step that counts, in seconds.
        pub deadline_s: Option<f64>,
        /// Fewest and most devices of machines to try, by doubling the nodes from the fewest; default: the machine as
        /// it is.
        pub devices: Option<(u64, u64)>,
        /// How many layouts are ranked.
        pub top: usize = 10,
        /// Most layouts that are simulated, without those that have no result that counts.
        pub most_simulated: usize = 400,
        /// Layers of micro-batches that are played of all layouts together; default: no limit.
        pub most_passes: Option<u64>,
        /// Ops that are played of all layouts together, beyond the first: ranks that are not alike are played each;
        /// default: no limit.
        pub most_ops: Option<u64>,
        /// Layouts that are simulated whatever a play of them costs.
        pub first_played: usize = 4,
        /// The simulated step is taken not to be shorter than the closed form less this part of it; 1 leaves out only
        /// what is slower for certain.
        pub margin: f64 = 0.05,
        /// Simulate every layout that the memory does not refute, and say what the search would have missed.
        pub prove: bool,
        /// True if the search also chooses whether activations and optimizer state live on other tiers of the machine,
        /// and how far ahead they are fetched.
        pub offload: bool,
        /// True if the search also chooses where encoders run: beside the language model, on stages or on devices of
        /// their own.
        pub placement: bool,
        /// Threads; default: as many as processors.
        pub threads: Option<usize>,
        /// Seconds after which the search ends with the best so far; default: no limit.
        pub budget_s: Option<f64>,
        /// Ends the search with the best so far as soon as it is pulled.
        pub stop: InterruptToken,
        /// Hears of the best layout so far where simulations take long.
        pub hear: Option<BestHeard>,
        /// True if the first is asked what could be otherwise, and the two unlike it what they bet on.
        pub answers: bool = true,
    }
}

impl SearchOptions {
    /// Bytes that a layout may take of a device that has `capacity`.
    pub(super) fn memory_limit(&self, capacity: f64) -> f64 {
        self.max_memory_bytes.map_or((1.0 - self.head_room) * capacity, |most| most.min(capacity))
    }
    /// True if not all layouts that could be the best are simulated.
    pub(super) fn has_budget(&self) -> bool {
        self.most_passes.is_some() || self.most_ops.is_some()
    }
    /// True if layouts may take all that a device has.
    pub(super) fn is_tight(&self) -> bool {
        self.max_memory_bytes.is_none() && self.head_room == 0.0
    }
    /// True if a layout of so many layers of micro-batches is played for its report at once.
    pub(super) fn plays_once(&self, passes: u64) -> bool {
        !self.answers && passes > LONG
    }
    /// True if a layout may be simulated behind `played` others, with which it has `passes` layers of micro-batches and
    /// `ops`.
    pub(super) fn affords(&self, passes: u64, ops: f64, played: usize) -> bool {
        let within = self.most_passes.is_none_or(|most| passes <= most)
            && self.most_ops.is_none_or(|most| ops <= most as f64);
        played < self.first_played || within
    }
    /// True if a field, or one inside it or around it, is held or varied.
    pub(super) fn asks(&self, path: &str) -> bool {
        let around =
            |a: &str, b: &str| a.strip_prefix(b).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
        let touches = |of: &str| around(path, of) || around(of, path);
        self.fix.iter().any(|text| touches(text.split('=').next().unwrap_or_default()))
            || self.vary.iter().flat_map(|axis| &axis.paths).any(|of| touches(of))
    }
    /// True if a step is over by the deadline.
    pub(super) fn in_time(&self, found: Measures) -> bool {
        self.deadline_s.is_none_or(|deadline| found.seconds <= deadline)
    }
}
