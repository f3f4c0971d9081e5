//! The bytes that PyTorch's caching allocator reserves for a step, beside a snapshot of a real one.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

use serde::Serialize;

use super::ranges::ranges;
use crate::{Failure, inputs};
use stepsim_core::ids::RankId;
use stepsim_core::units::Bytes;
use stepsim_measure::allocator::replay::{ReservedMemory, replay};
use stepsim_measure::allocator::snapshot::{Snapshot, SnapshotMemory};
use stepsim_read::analysis::table::{new_table, percent};
use stepsim_simulate::Inputs;

/// The reserved bytes of one rank of each stage, and of the snapshot.
#[derive(Debug, Serialize)]
pub(super) struct ReservedView {
    capacity_bytes: u64,
    stages: Vec<ReservedStage>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    snapshot: Vec<SnapshotMemory>,
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
    pub(super) fn of(inputs: &Inputs, snapshot: Option<&Path>) -> Result<ReservedView, Failure> {
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
            snapshot: snapshot.map(read).transpose()?.unwrap_or_default(),
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
        for device in &self.snapshot {
            let segments = if device.expandable { "expandable" } else { "by default" };
            add(format!("  snapshot, device {}", device.device), segments, &device.memory);
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
        if self.snapshot.iter().any(|device| device.events == 0) {
            out += "  the snapshot has no history: its figures are of its moment\n";
        }
        out
    }
}

/// The devices of a snapshot.
fn read(path: &Path) -> Result<Vec<SnapshotMemory>, Failure> {
    const ALLOWED: &str = "what torch.cuda.memory._snapshot() gives, as JSON";
    let wrong = |mut e: stepsim_spec::SpecError| {
        e.hint = "of a pickle: python3 -c \"import json, pickle; \
                  json.dump(pickle.load(open('s.pickle', 'rb')), open('s.json', 'w'))\""
            .into();
        e
    };
    let snapshot: Snapshot = inputs::document(path, ALLOWED).map_err(wrong)?;
    Ok(snapshot.devices())
}
