use stepsim_core::program::{NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work};
use stepsim_core::units::Time;
use stepsim_read::trace::timeline::names;
use stepsim_read::trace::timeline::passes::*;

/// The names of the passes of a stream, from one letter and one micro-batch an op.
fn passes(ops: &[(Phase, u32)]) -> Vec<String> {
    let mut b = ProgramBuilder::new();
    let stream = b.stream(StreamKind::Compute);
    for &(phase, m) in ops {
        let info = OpInfo::of("k", phase, 0.0);
        let info = b.info(info);
        b.op(stream, Work::Compute { time: Time(1000) }, &[], info, m);
    }
    let program = b.finish();
    let ops = &program.streams[0].ops;
    cut(&program, ops).into_iter().map(|pass| names::pass(parts(&program, pass))).collect()
}

#[test]
fn a_pass_is_one_micro_batch_and_a_pair_is_two() {
    use Phase::{Backward, Forward, InputGrad, Optimizer, Recompute, WeightGrad};
    let one_f_one_b = [(Forward, 1), (Recompute, 0), (Backward, 0), (Forward, 2), (Backward, 1)];
    assert_eq!(passes(&one_f_one_b), ["m1 fwd", "m0 bwd", "m2 fwd", "m1 bwd"]);
    let split = [(InputGrad, 0), (Forward, 3), (WeightGrad, 0), (InputGrad, 1), (WeightGrad, 1)];
    assert_eq!(passes(&split), ["m0 input grad", "m3 fwd", "m0 W", "m1 bwd"]);
    let pair = [(Backward, 1), (Forward, 3), (Backward, 1), (Forward, 3), (Optimizer, NO_MICRO_BATCH)];
    assert_eq!(passes(&pair), ["m3 fwd + m1 bwd", "optimizer"]);
}
