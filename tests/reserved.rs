//! What PyTorch's allocator reserves for shipped steps.

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

/// What is reserved is no less than what is in use, and that no less than what the plan counts.
#[test]
fn what_is_reserved_holds_what_is_in_use() {
    let folder = Folder::new();
    let report = folder.stepsim("inspect gpt2-8 --reserved --report -").json();
    let stage = &report["reserved"]["stages"][0];
    let bytes = |kind: &str, field: &str| stage[kind][field].as_u64().expect("bytes");
    let peak = report["step"]["programs"][0]["memory"][0]["peak_bytes"].as_u64().expect("bytes");
    for kind in ["segments", "expandable_segments"] {
        assert!(bytes(kind, "peak_allocated_bytes") >= peak, "{stage}");
        assert!(bytes(kind, "peak_reserved_bytes") >= bytes(kind, "peak_allocated_bytes"), "{stage}");
    }
    let said = folder.stepsim("inspect -t 8xh100 --reserved").refused();
    assert!(said.contains("--reserved needs a workload"), "{said}");
}
