//! The numbers that a schedule depends on, and the checks that all schedules share.

use super::{Chunks, Facts, Schedule, ScheduleError, any_chunks};

/// The numbers that a schedule depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pipeline ranks, p.
    pub ranks: u32,
    /// Micro-batches of the step, m (DualPipe: of both directions together).
    pub micro_batches: u32,
    /// Chunks per rank, v; the schedule's own number if not given.
    pub chunks: Option<u16>,
    /// Micro-batches that pass a chunk in a row before the next chunk has its turn (interleaved); p if not given.
    pub group: Option<u32>,
}

impl Shape {
    /// The largest number of slots that an order may have.
    pub const MAX_SLOTS: u64 = 1 << 24;
    /// The largest number of chunks per rank.
    pub const MAX_CHUNKS: u16 = 1024;

    /// p ranks and m micro-batches, all else by default.
    pub fn new(ranks: u32, micro_batches: u32) -> Shape {
        Shape { ranks, micro_batches, chunks: None, group: None }
    }
    /// With v chunks per rank.
    pub fn with_chunks(self, chunks: u16) -> Shape {
        Shape { chunks: Some(chunks), ..self }
    }
    /// With groups of that many micro-batches.
    pub fn with_group(self, group: u32) -> Shape {
        Shape { group: Some(group), ..self }
    }
    /// Chunks per rank under `schedule`.
    pub fn chunks_under(&self, schedule: &dyn Schedule) -> u16 {
        self.chunks.unwrap_or(schedule.facts().chunks.usual())
    }

    /// Into how many parts such a schedule cuts a rank's share of the layers: with two directions a rank holds the same
    /// share twice.
    pub fn parts_under(&self, facts: Facts) -> u32 {
        u32::from(self.chunks.unwrap_or(facts.chunks.usual()) / facts.directions).max(1)
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
            Chunks::Exactly(n) if v != n => {
                let held = if n == 1 { "1 chunk".to_owned() } else { format!("{n} chunks") };
                return fail(
                    format!("a rank holds {held} by definition, not {v}"),
                    &format!("leave the number of chunks out, or choose {}", any_chunks()),
                );
            }
            Chunks::AtLeast(least, _) if v < least => {
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
