//! All readings: a line each.

use super::reading::Reading;

/// Where readings have an order of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Tables, and what stands on one screen.
    Table,
    /// The page about a run.
    Page,
    /// Two steps side by side.
    Difference,
}

/// Each reading with its place in the views, lowest first: tables, page, comparison. They read a run in the order of
/// the lines.
const ALL: &[(&dyn Reading, [u8; 3])] = &[
    (&super::stalls::TimeWent, [1, 3, 1]),
    (&super::stages::StagesReading, [5, 0, 6]),
    (&super::stages::Ranks, [0, 0, 0]),
    (&super::waterfall::Bars, [3, 1, 2]),
    (&super::kernel_classes::KernelsReading, [12, 9, 4]),
    (&super::slow_ranks::SlowOnes, [0, 0, 0]),
    (&super::overlap::CommunicationReading, [6, 6, 3]),
    (&super::memory::MemoryReading, [8, 7, 5]),
    (&super::cost::StepCost, [8, 7, 5]),
    (&super::prefetch::Prefetch, [7, 0, 0]),
    (&super::critical::CriticalPathReading, [9, 4, 0]),
    (&super::stalls::LongestStalls, [0, 5, 0]),
    (&super::layers::LayersReading, [0, 0, 7]),
    (&super::links::LinksReading, [10, 8, 0]),
    (&super::slack::Slacks, [13, 0, 0]),
    (&super::candidates::CandidateTable, [2, 2, 0]),
    (&super::dynamic_context::DegreesReading, [4, 0, 0]),
    (&super::gaps::Gaps, [1, 3, 1]),
    (&super::samples::Samples, [11, 0, 0]),
];

/// All readings in the order in which they read a run, the caller's own last.
pub(super) fn all(own: &[&'static dyn Reading]) -> impl Iterator<Item = &'static dyn Reading> {
    ALL.iter().map(|(reading, _)| *reading).chain(own.iter().copied())
}

/// The same in the order of a view.
pub fn in_view(view: View, own: &[&'static dyn Reading]) -> impl Iterator<Item = &'static dyn Reading> {
    let mut known = ALL.to_vec();
    known.sort_by_key(|(_, places)| places[view as usize]);
    known.into_iter().map(|(reading, _)| reading).chain(own.to_vec())
}
