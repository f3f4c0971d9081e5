//! The bytes that PyTorch's caching allocator reserves for a step.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Serialize;

use super::ranges::ranges;
use crate::Failure;
use stepsim_core::ids::RankId;
use stepsim_core::units::Bytes;
use stepsim_measure::allocator::replay::{ReservedMemory, replay};
use stepsim_read::analysis::table::{new_table, percent};
use stepsim_simulate::Inputs;

/// The reserved bytes of one rank of each stage.
#[derive(Debug, Serialize)]
pub(super) struct ReservedView {
    capacity_bytes: u64,
    stages: Vec<ReservedStage>,
}

/// The rank of a stage for which most is reserved.
#[derive(Debug, Serialize)]
struct ReservedStage {
    stage: u32,
    /// With segments as they are by default.
    segments: ReservedMemory,
    /// With `expandable_segments`.
    expandable_segments: ReservedMemory,
}

impl ReservedStage {
    fn is_alike(&self, other: &ReservedStage) -> bool {
        (self.segments, self.expandable_segments) == (other.segments, other.expandable_segments)
    }
}

impl ReservedView {
    pub(super) fn of(inputs: &Inputs) -> Result<ReservedView, Failure> {
        let plan = inputs.plan().map_err(Failure::input)?;
        let world = &plan.world;
        let mut stages: BTreeMap<u32, ReservedStage> = BTreeMap::new();
        for (number, program) in world.programs.iter().enumerate() {
            let Some(rank) = world.ranks.iter().position(|rank| rank.program.index() == number) else {
                continue;
            };
            let stage = plan.stage(RankId(rank as u32));
            let [segments, expandable_segments] = [false, true].map(|expandable| replay(program, expandable));
            let known = stages.get(&stage).map_or(0, |known| known.segments.peak_reserved_bytes);
            if segments.peak_reserved_bytes > known {
                stages.insert(stage, ReservedStage { stage, segments, expandable_segments });
            }
        }
        Ok(ReservedView {
            capacity_bytes: world
                .tiers_of(RankId(0))
                .first()
                .map_or(0, |used| world.tiers[used.tier.index()].capacity.0),
            stages: stages.into_values().collect(),
        })
    }

    pub(super) fn text(&self, width: u16) -> String {
        let head = ["  stage", "segments", "allocated", "reserved", "full", "kept free", "largest free"];
        let mut table = new_table(width, head.map(String::from).to_vec());
        let mut add = |of: String, segments: &str, m: &ReservedMemory| {
            table.add_row([
                of,
                segments.to_string(),
                Bytes(m.peak_allocated_bytes).to_string(),
                Bytes(m.peak_reserved_bytes).to_string(),
                percent(m.peak_reserved_bytes as f64 / self.capacity_bytes.max(1) as f64),
                Bytes(m.end.reserved - m.end.allocated).to_string(),
                Bytes(m.end.largest_free).to_string(),
            ]);
        };
        for alike in self.stages.chunk_by(ReservedStage::is_alike) {
            let stages = ranges(&alike.iter().map(|stage| stage.stage).collect::<Vec<_>>());
            add(format!("  {stages}"), "by default", &alike[0].segments);
            add(format!("  {stages}"), "expandable", &alike[0].expandable_segments);
        }
        let mut out = String::new();
        let _ = writeln!(
            out,
            "\n  memory of one rank as PyTorch's allocator reserves it (peaks of two steps in program order; \
             free: after them)\n{table}"
        );
        if self.stages.iter().any(|stage| stage.segments.peak_reserved_bytes > self.capacity_bytes) {
            out += "  over 100 %: PyTorch gives cached segments back and tries again, which takes time, or fails\n";
        }
        out
    }
}
