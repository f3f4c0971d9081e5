//! Why a step cannot be planned.

use crate::step::collective::CollectiveError;
use crate::step::schedule;
use crate::step::schedule::ScheduleError;
use crate::step::spec::SpecError;

/// Why a step cannot be planned.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
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
