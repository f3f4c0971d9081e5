use stepsim_core::program::{MemoryClass, MemoryEffect, MemoryWhen, NO_MICRO_BATCH, Op, StreamKind, Work, *};
use stepsim_core::units::Time;

#[test]
fn effects_and_slowdowns_go_with_the_op_that_they_name() {
    let mut b = ProgramBuilder::new();
    let stream = b.stream(StreamKind::Compute);
    let work = Work::Compute { time: Time(1) };
    let ops = [0, 1, 2].map(|_| b.op(stream, work, &[], 0, NO_MICRO_BATCH));
    let (when, class) = (MemoryWhen::AllocAtStart, MemoryClass::Weights);
    for (op, bytes) in [(2, 1), (0, 2), (2, 3), (0, 4)] {
        b.memory(ops[op], MemoryEffect { when, class, tier: 0, bytes });
    }
    b.slowdown(ops[1], 250);
    let program = b.finish();
    let bytes = |op: &Op| program.memory[op.memory.range()].iter().map(|e| e.bytes).collect::<Vec<_>>();
    assert_eq!(program.ops.iter().map(bytes).collect::<Vec<_>>(), [vec![2, 4], vec![], vec![1, 3]]);
    assert_eq!(program.ops.iter().map(|op| op.slowdown).collect::<Vec<_>>(), [0, 250, 0]);
}
