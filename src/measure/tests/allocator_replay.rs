use stepsim_core::program::{
    MemoryClass, MemoryEffect, MemoryWhen, Program, ProgramBuilder, StreamKind, Work,
};
use stepsim_core::units::Time;
use stepsim_measure::allocator::ReservedLevel;
use stepsim_measure::allocator::replay::*;

const MIB: u64 = 1 << 20;

/// A program of one stream: what each op does to the memory.
fn program(resident: u64, ops: &[&[(MemoryWhen, u64)]]) -> Program {
    let effect = |when, bytes| MemoryEffect { when, class: MemoryClass::Activations, tier: 0, bytes };
    let mut builder = ProgramBuilder::new();
    builder
        .resident(MemoryEffect { class: MemoryClass::Weights, ..effect(MemoryWhen::AllocAtStart, resident) });
    let stream = builder.stream(StreamKind::Compute);
    for effects in ops {
        let op = builder.op(stream, Work::Compute { time: Time::ZERO }, &[], 0, 0);
        effects.iter().for_each(|(when, bytes)| builder.memory(op, effect(*when, *bytes)));
    }
    builder.finish()
}

/// 31 MiB are there in a segment of 32. An op takes 12 MiB and 6, and gives both back in one: a segment of 12,
/// and 6 of one of 20. The next takes 22, which fits into neither.
#[test]
fn a_step_is_played_by_hand() {
    use MemoryWhen::{AllocAtStart, FreeAtEnd};
    let program = program(
        31 * MIB,
        &[
            &[(AllocAtStart, 12 * MIB), (AllocAtStart, 6 * MIB), (FreeAtEnd, 18 * MIB)],
            &[(AllocAtStart, 22 * MIB), (FreeAtEnd, 22 * MIB)],
        ],
    );
    // 31 of 32 leave 1 MiB, which is not more than 1 and stays with the block.
    let end = ReservedLevel { allocated: 32 * MIB, reserved: 86 * MIB, largest_free: 22 * MIB };
    let by_default = ReservedMemory { peak_allocated_bytes: 54 * MIB, peak_reserved_bytes: 86 * MIB, end };
    assert_eq!(replay(&program, false), by_default, "the second step reserves no more");
    // One segment: 31 of 40; 12 need 3 more, a page, 6 fit into the rest; then 29 are free at its end, and 22 fit.
    let end = ReservedLevel { allocated: 31 * MIB, reserved: 60 * MIB, largest_free: 29 * MIB };
    let expandable = ReservedMemory { peak_allocated_bytes: 53 * MIB, peak_reserved_bytes: 60 * MIB, end };
    assert_eq!(replay(&program, true), expandable);
}
