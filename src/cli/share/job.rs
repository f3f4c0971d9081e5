//! A job of several on one machine.

use stepsim_simulate::share::JobTimes;

/// A job by its workload, and its times.
pub(super) type TimedJob<'a> = (&'a str, &'a JobTimes);

/// How much longer its step is beside the others, as a part of the step alone.
pub(super) fn slowed(job: &JobTimes) -> f64 {
    job.together.s() / job.alone.s().max(f64::MIN_POSITIVE) - 1.0
}
