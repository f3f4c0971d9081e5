use stepsim_core::program::{NO_MICRO_BATCH, ProgramBuilder, StreamKind, Work, *};
use stepsim_core::units::Time;

/// A warm-up op, five turns of two ops that wait for each other, and one more.
#[test]
fn turns_are_found_between_beginning_and_end() {
    let mut b = ProgramBuilder::new();
    let streams = [b.stream(StreamKind::Compute), b.stream(StreamKind::Tensor)];
    let kernel = |time| Work::Compute { time: Time(time) };
    let mut last = b.op(streams[0], kernel(9), &[], 0, 0);
    for m in 0..5 {
        let first = b.op(streams[0], kernel(1), &[last], 0, m);
        last = b.op(streams[1], kernel(2), &[first], 0, m);
    }
    b.op(streams[0], kernel(7), &[last], 0, NO_MICRO_BATCH);
    let program = b.finish();
    assert_eq!(program.period(), Some(Period { ops: 2, micro_batches: 1, stretch: 1..11 }));
}

/// Warm-up ops, turns of two, and as many ops at the end: with the spare ones left out, the same period is found.
#[test]
fn periods_are_found_without_the_turns_they_can_spare() {
    let kernel = |time| Work::Compute { time: Time(time) };
    let of = |ends: u64, turns: u32| {
        let mut b = ProgramBuilder::new();
        let stream = b.stream(StreamKind::Compute);
        for i in 0..ends {
            b.op(stream, kernel(10 + i), &[], 0, 0);
        }
        for m in 0..turns {
            [1, 2].iter().for_each(|time| {
                b.op(stream, kernel(*time), &[], 0, m);
            });
        }
        for i in 0..ends {
            b.op(stream, kernel(50 + i), &[], 0, turns);
        }
        b.finish()
    };
    for (ends, turns) in [(0, 9), (3, 20), (10, 40), (20, 30)] {
        let whole = of(ends, turns);
        let period = whole.period().expect("a period");
        let spare = period.spare(whole.ops.len());
        let short = of(ends, turns - spare).period().expect("a period without them");
        let stretch = period.stretch.start..period.stretch.end - 2 * spare;
        assert_eq!(short, Period { stretch, ..period.clone() }, "{ends} {turns}");
        assert!(spare >= 5, "{spare} of {turns} beside {ends}");
    }
}
