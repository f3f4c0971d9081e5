//! Why a step cannot be planned.

use stepsim_fabric::collective::CollectiveError;
use stepsim_schedule as schedule;
use stepsim_schedule::ScheduleError;
use stepsim_spec::SpecError;

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
    /// Model FLOPs that no kernel executes: a defect of the simulator.
    #[error(
        "a defect of stepsim: {0} model FLOPs, of which {1} are executed\n  what to do: please report it with the \
         command and the files; nothing of the step is to be used"
    )]
    NotExecuted(f64, f64),
}
