//! Why a step cannot be planned.

use crate::collective::CollectiveError;
use crate::schedule;
use crate::schedule::ScheduleError;
use crate::spec::SpecError;

/// Why a step cannot be planned.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PlanError {
    /// The workload does not fit the machine or itself.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The schedule is not defined for these numbers.
    #[error(transparent)]
    Schedule(#[from] ScheduleError),
    /// The layers cannot be split so.
    #[error(transparent)]
    Split(#[from] schedule::SplitError),
    /// A group cannot communicate.
    #[error(transparent)]
    Collective(#[from] CollectiveError),
}
