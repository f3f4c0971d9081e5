//! A memory snapshot of PyTorch (`torch.cuda.memory._snapshot()`, as JSON): the contents of a real run's allocator.
//!
//! The state is the state at the snapshot. Where the history of allocations was recorded (`_record_memory_history`),
//! it is walked back from there for the peaks; it is a ring, so they are the peaks of its remaining events. The
//! history has sizes as they were asked for: they are rounded up to 512 B, and a block that was not split counts with
//! less than it has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::replay::ReservedMemory;
use super::{BLOCK, ReservedLevel};

/// A snapshot, as far as it is read.
#[derive(Clone, Debug, Deserialize)]
pub struct Snapshot {
    segments: Vec<SnapshotSegment>,
    /// By device: what happened, oldest first.
    #[serde(default)]
    device_traces: Vec<Vec<SnapshotEvent>>,
}

#[derive(Clone, Debug, Deserialize)]
struct SnapshotSegment {
    device: u32,
    total_size: u64,
    #[serde(default)]
    is_expandable: bool,
    blocks: Vec<SnapshotBlock>,
}

#[derive(Clone, Debug, Deserialize)]
struct SnapshotBlock {
    size: u64,
    state: String,
}

#[derive(Clone, Debug, Deserialize)]
struct SnapshotEvent {
    action: String,
    #[serde(default)]
    size: u64,
}

/// The allocator's bytes of one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotMemory {
    /// Its number.
    pub device: u32,
    /// True if segments were expandable.
    pub expandable: bool,
    /// Events of the history; without any, peaks are the levels at the snapshot.
    pub events: usize,
    /// The moment, and the peaks.
    #[serde(flatten)]
    pub memory: ReservedMemory,
}

impl Snapshot {
    /// By device.
    pub fn devices(&self) -> Vec<SnapshotMemory> {
        let mut devices: BTreeMap<u32, (bool, ReservedLevel)> = BTreeMap::new();
        for segment in &self.segments {
            let (expandable, level) = devices.entry(segment.device).or_default();
            *expandable |= segment.is_expandable;
            level.reserved += segment.total_size;
            for block in &segment.blocks {
                match block.state.as_str() {
                    "inactive" => level.largest_free = level.largest_free.max(block.size),
                    // Freed, and waiting for other streams: still in use.
                    _ => level.allocated += block.size,
                }
            }
        }
        let of_device = |(device, (expandable, level)): (u32, (bool, ReservedLevel))| {
            let events = self.device_traces.get(device as usize).map_or(&[][..], Vec::as_slice);
            SnapshotMemory { device, expandable, events: events.len(), memory: walked_back(level, events) }
        };
        devices.into_iter().map(of_device).collect()
    }
}

/// The peaks of a history that ends in `end`.
fn walked_back(end: ReservedLevel, events: &[SnapshotEvent]) -> ReservedMemory {
    let (mut allocated, mut reserved) = (end.allocated, end.reserved);
    let mut memory = ReservedMemory { peak_allocated_bytes: allocated, peak_reserved_bytes: reserved, end };
    for event in events.iter().rev() {
        let size = event.size.next_multiple_of(BLOCK);
        match event.action.as_str() {
            "alloc" => allocated = allocated.saturating_sub(size),
            "free_completed" => allocated += size,
            "segment_alloc" | "segment_map" => reserved = reserved.saturating_sub(event.size),
            "segment_free" | "segment_unmap" => reserved += event.size,
            _ => {}
        }
        memory.peak_allocated_bytes = memory.peak_allocated_bytes.max(allocated);
        memory.peak_reserved_bytes = memory.peak_reserved_bytes.max(reserved);
    }
    memory
}
