//! What PyTorch's allocator reserves for shipped steps, and snapshots beside it.

use serde_json::json;
use stepsim::core::program::MemoryWhen;
use stepsim::measure::allocator::replay::replay;
use stepsim::simulate::Inputs;
use stepsim::spec::{Kind, catalog};

use crate::command::Folder;

/// Workloads of few devices, whose programs are many and small.
fn small() -> impl Iterator<Item = (&'static str, Inputs)> {
    let loaded =
        catalog::names(Kind::Workload).filter_map(|name| Some((name, Inputs::load(name, None, &[]).ok()?)));
    loaded.filter(|(_, inputs)| inputs.machine.devices() <= 64)
}

/// Everything that a step takes is given back: what is in use behind it is what was resident, and no more than
/// rounding above it. Segments hold what is in use, and expandable ones lose less than two pages.
#[test]
fn a_step_gives_back_what_it_takes() {
    let mut tried = 0;
    for (name, inputs) in small() {
        let Ok(plan) = inputs.plan() else { continue };
        for program in plan.world.programs() {
            let resident: u64 = program.resident.iter().filter(|e| e.tier == 0).map(|e| e.bytes).sum();
            let takes =
                program.memory.iter().filter(|e| e.tier == 0 && e.when == MemoryWhen::AllocAtStart).count();
            for expandable in [false, true] {
                let found = replay(program, expandable);
                let of_rounding = (1 << 20) * program.resident.len() as u64;
                assert!(
                    (resident..=resident + of_rounding).contains(&found.end.allocated),
                    "{name}: {found:?}, {resident}"
                );
                assert!(found.peak_reserved_bytes >= found.peak_allocated_bytes, "{name}: {found:?}");
                assert!(
                    found.end.largest_free <= found.end.reserved - found.end.allocated,
                    "{name}: {found:?}"
                );
            }
            tried += usize::from(takes > 0);
        }
    }
    assert!(tried > 20, "{tried} programs");
}

/// A snapshot stands beside the step; without a history, with another file, without a workload there is a word about
/// it.
#[test]
fn a_snapshot_stands_beside_the_step() {
    let folder = Folder::new();
    let block = |size: u64, state: &str| json!({"size": size << 20, "state": state});
    let file = json!({"segments": [{"device": 0, "total_size": 20 << 20, "blocks": [block(14, "active_allocated"), block(6, "inactive")]}]});
    folder.write("snapshot.json", file.to_string());
    let text = folder.stepsim("inspect gpt2-8 --snapshot snapshot.json").ok();
    let row =
        text.lines().find(|line| line.contains("snapshot, device 0")).unwrap_or_else(|| panic!("{text}"));
    assert!(
        row.contains("14.00 MiB") && row.contains("20.00 MiB") && row.matches("6.00 MiB").count() == 2,
        "{row}"
    );
    assert!(
        text.contains("no history") && text.contains("by default") && text.contains("expandable"),
        "{text}"
    );

    let report = folder.stepsim("inspect gpt2-8 --reserved --report -").json();
    let stage = &report["reserved"]["stages"][0];
    let bytes = |kind: &str, field: &str| stage[kind][field].as_u64().expect("bytes");
    let peak = report["step"]["programs"][0]["memory"][0]["peak_bytes"].as_u64().expect("bytes");
    for kind in ["segments", "expandable_segments"] {
        assert!(bytes(kind, "peak_allocated_bytes") >= peak, "{stage}");
        assert!(bytes(kind, "peak_reserved_bytes") >= bytes(kind, "peak_allocated_bytes"), "{stage}");
    }

    folder.write("snapshot.json", r#"{"segments": [{"device": 0, "blocks": []}]}"#);
    for (args, words) in [
        ("gpt2-8 --snapshot snapshot.json", "segments[0]"),
        ("gpt2-8 --snapshot snapshot.json", "pickle.load"),
        ("-t 8xh100 --snapshot snapshot.json", "--snapshot needs a workload"),
        ("-t 8xh100 --reserved", "--reserved needs a workload"),
    ] {
        let said = folder.stepsim(&format!("inspect {args}")).refused();
        assert!(said.contains(words), "{args}: {said}");
    }
}
