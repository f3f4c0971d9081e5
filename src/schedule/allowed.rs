//! The checks of a shape that all schedules share.

use super::definition::{Schedule, ScheduleError};
use super::facts::ChunkCount;
use super::registry::any_chunks;
use super::shape::Shape;

impl Shape {
    /// Chunks per rank under `schedule`.
    pub fn chunks_under(&self, schedule: &dyn Schedule) -> u16 {
        self.chunks.unwrap_or(schedule.facts().chunks.usual())
    }

    /// The checks that all schedules share; returns (p, m, v).
    ///
    /// # Errors
    /// There is no pipeline, too many slots, or chunks and groups are not what the schedule's facts allow.
    pub fn checked(&self, schedule: &dyn Schedule) -> Result<(u32, u32, u16), ScheduleError> {
        let fail =
            |problem: String, remedy: &str| Err(ScheduleError::new(schedule, problem, remedy.to_owned()));
        let (p, m, v) = (self.ranks, self.micro_batches, self.chunks_under(schedule));
        if p == 0 || m == 0 {
            return fail(
                format!("{p} stages and {m} micro-batches are no pipeline"),
                "there must be at least 1 of each",
            );
        }
        match schedule.facts().chunks {
            ChunkCount::Exactly(n) if v != n => {
                let held = if n == 1 { "1 chunk".to_owned() } else { format!("{n} chunks") };
                return fail(
                    format!("a rank holds {held} by definition, not {v}"),
                    &format!("leave the number of chunks out, or choose {}", any_chunks()),
                );
            }
            ChunkCount::AtLeast(least, _) if v < least => {
                return fail(
                    format!("{v} chunks per rank are too few"),
                    &format!("it runs with {least} or more; with 1 chunk choose 1f1b"),
                );
            }
            _ => {}
        }
        if self.group.is_some() && !schedule.facts().groups {
            return fail("it has no groups of micro-batches".to_owned(), "leave the group size out");
        }
        if v > Self::MAX_CHUNKS {
            let remedy = format!("it runs with {} or fewer", Self::MAX_CHUNKS);
            return fail(format!("{v} chunks per rank are too many"), &remedy);
        }
        let slots = u64::from(p).saturating_mul(u64::from(m)).saturating_mul(u64::from(v) * 3);
        if slots > Self::MAX_SLOTS {
            return fail(
                format!("{p} stages x {m} micro-batches x {v} chunks are up to {slots} slots"),
                &format!("keep their product at or below {}", Self::MAX_SLOTS / 3),
            );
        }
        Ok((p, m, v))
    }
}
