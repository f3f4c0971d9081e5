//! The schedules known by name.

use super::definition::{Schedule, ScheduleError};
use super::facts::ChunkCount;
use super::{
    dualpipe, dualpipe_v, eager, gpipe, interleaved, interleaved_torch, looped_bfs, one_f_one_b, v_half,
    v_min, zb_auto, zb_h1, zb_h2, zb_v,
};

/// The schedules known by name.
pub const ALL: &[&dyn Schedule] = &[
    &gpipe::GPipe,
    &one_f_one_b::OneFOneB,
    &eager::Eager,
    &interleaved::InterleavedOneFOneB,
    &interleaved_torch::InterleavedTorch,
    &looped_bfs::LoopedBfs,
    &zb_h1::ZbH1,
    &zb_h2::ZbH2,
    &zb_v::ZbV,
    &v_half::V_HALF,
    &v_min::V_MIN,
    &zb_auto::ZbAuto,
    &dualpipe::DualPipe,
    &dualpipe_v::DualPipeV,
];

/// The schedule of that name or alias.
///
/// # Errors
/// If there is none: the message lists the names.
pub fn find(name: &str) -> Result<&'static dyn Schedule, ScheduleError> {
    ALL.iter().copied().find(|s| s.facts().is(name)).ok_or_else(|| {
        let names: Vec<_> = ALL.iter().map(|s| s.name()).collect();
        ScheduleError {
            schedule: name.to_owned(),
            problem: "there is no schedule of this name".to_owned(),
            remedy: format!("choose one of {}", names.join(", ")),
        }
    })
}

/// The schedules whose number of chunks is the user's, as a text.
pub(super) fn any_chunks() -> String {
    let free = ALL.iter().map(|s| s.facts()).filter(|f| matches!(f.chunks, ChunkCount::AtLeast(..)));
    free.map(|f| f.name).collect::<Vec<_>>().join(", ")
}
