use stepsim_measure::allocator::ReservedLevel;
use stepsim_measure::allocator::replay::ReservedMemory;
use stepsim_measure::allocator::snapshot::*;

const MIB: u64 = 1 << 20;

/// A segment of 2 MiB with 1 MiB in use, one of 20 with 5 in use and 3 waiting; before that another of 30 MiB was
/// in use whole, and was given back.
#[test]
fn peaks_are_those_of_the_history() {
    let block =
        |size: u64, state: &str| serde_json::json!({"size": size * MIB, "state": state, "address": 0});
    let event = |action: &str, size: u64| {
        serde_json::json!({
            "action": action, "size": size, "addr": 0, "stream": 0,
        })
    };
    let file = serde_json::json!({
        "segments": [
            {"device": 0, "total_size": 2 * MIB, "segment_type": "small",
             "blocks": [block(1, "active_allocated"), block(1, "inactive")]},
            {"device": 0, "total_size": 20 * MIB, "segment_type": "large",
             "blocks": [block(5, "active_allocated"), block(3, "active_pending_free"), block(12, "inactive")]},
            {"device": 1, "total_size": 40 * MIB, "is_expandable": true, "blocks": [block(40, "inactive")]},
        ],
        "device_traces": [[
            event("segment_alloc", 30 * MIB), event("alloc", 30 * MIB - 100),
            event("free_requested", 30 * MIB - 100), event("free_completed", 30 * MIB - 100),
            event("segment_free", 30 * MIB), event("alloc", 5 * MIB), event("snapshot", 0),
        ], []],
        "allocator_settings": {},
    });
    let snapshot: Snapshot = serde_json::from_value(file).expect("a snapshot");
    let end = ReservedLevel { allocated: 9 * MIB, reserved: 22 * MIB, largest_free: 12 * MIB };
    let [first, second] = snapshot.devices()[..] else { panic!("two devices") };
    // Before the last allocation 4 MiB were in use, with the block of 30 MiB 34, in 52 MiB of segments.
    let memory = ReservedMemory { peak_allocated_bytes: 34 * MIB, peak_reserved_bytes: 52 * MIB, end };
    assert_eq!(first, SnapshotMemory { device: 0, expandable: false, events: 7, memory });
    assert!(second.expandable && second.events == 0);
    assert_eq!(second.memory.peak_reserved_bytes, 40 * MIB);
    assert_eq!(second.memory.end.largest_free, 40 * MIB);
}
