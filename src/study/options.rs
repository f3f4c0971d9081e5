//! The options of a search.

use super::objective::{Measures, Objective};
use super::space::StudyAxis;
use stepsim_core::declare::defaults;

/// Memory of measured steps is known to about this part (`docs/evidence/accuracy.md`), and a device without any left
/// has to give memory back and ask again.
pub const HEAD_ROOM: f64 = 0.08;

/// Layouts that are simulated whatever a play of them costs.
const FIRST_PLAYED: usize = 4;

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
        /// Most layouts that are simulated.
        pub most_simulated: usize = 400,
        /// Layers of micro-batches that are played of all layouts together, beyond the first few layouts; default: no
        /// limit.
        pub most_passes: Option<u64>,
        /// The simulated step is taken not to be shorter than the closed form less this part of it; 1 leaves out only
        /// what is slower for certain.
        pub margin: f64 = 0.05,
        /// Simulate every layout that the memory does not refute, and say what the search would have missed.
        pub prove: bool,
        /// Try fields beside the layout on the best that was found: layers of the first and last stage, overlap of
        /// tensor-parallel and expert collectives, expert-tensor degree, prefetch.
        pub refine: bool,
        /// True if the search also chooses whether activations and optimizer state live on other tiers of the machine,
        /// and how far ahead they are fetched.
        pub offload: bool,
        /// True if the search also chooses where encoders run: beside the language model, on stages or on devices of
        /// their own.
        pub placement: bool,
        /// Threads; default: as many as processors.
        pub threads: Option<usize>,
    }
}

impl SearchOptions {
    /// Bytes that a layout may take of a device that has `capacity`.
    pub(super) fn memory_limit(&self, capacity: f64) -> f64 {
        self.max_memory_bytes.map_or((1.0 - self.head_room) * capacity, |most| most.min(capacity))
    }
    /// True if another layout may be simulated after `played` layouts of `passes` layers of micro-batches.
    pub(super) fn affords(&self, passes: u64, played: usize) -> bool {
        self.most_passes.is_none_or(|most| played < FIRST_PLAYED || passes < most)
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
