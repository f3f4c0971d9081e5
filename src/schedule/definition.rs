//! The interface of a schedule.

use super::facts::ScheduleFacts;
use super::order::Order;
use super::shape::Shape;
use super::times::{Bubble, PassProfile, PassTimes};
use super::turns::Turns;

/// A pipeline schedule.
pub trait Schedule: Sync {
    /// Its facts.
    fn facts(&self) -> ScheduleFacts;
    /// Its name in kebab case.
    fn name(&self) -> &'static str {
        self.facts().name
    }
    /// The order of every rank.
    ///
    /// # Errors
    /// If the schedule is not defined for these numbers; the error names numbers that would do.
    fn order(&self, shape: &Shape) -> Result<Order, ScheduleError>;
    /// The turns in which the order goes on for more micro-batches; `None` where it does not, or nobody knows.
    fn turns(&self, _shape: &Shape) -> Option<Turns> {
        None
    }
    /// The order for the times that passes really take and the memory that there is; most schedules do not mind.
    ///
    /// # Errors
    /// As [`Schedule::order`].
    fn order_for(&self, shape: &Shape, _profile: &PassProfile) -> Result<Order, ScheduleError> {
        self.order(shape)
    }
    /// The bubble by theory, where a closed form holds; for shapes that have an order.
    fn bubble(&self, _shape: &Shape, _times: &PassTimes) -> Option<Bubble> {
        None
    }
    /// Live micro-batch chunks at the worst moment on each rank by theory, where a closed form holds; for
    /// shapes that have an order.
    fn peak(&self, _shape: &Shape) -> Option<Vec<u32>> {
        None
    }
}

/// Why a schedule is not defined for some numbers, and which would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("schedule {schedule}: {problem}; {remedy}")]
pub struct ScheduleError {
    /// The schedule's name.
    pub schedule: String,
    /// The problem, with the numbers.
    pub problem: String,
    /// The setting that would run.
    pub remedy: String,
}

impl ScheduleError {
    /// An error of this schedule.
    pub fn new(schedule: &dyn Schedule, problem: String, remedy: String) -> ScheduleError {
        ScheduleError { schedule: schedule.name().to_owned(), problem, remedy }
    }
}
