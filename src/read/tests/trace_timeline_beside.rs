use stepsim_core::ids::OpId;
use stepsim_core::program::{NO_MICRO_BATCH, OpInfo, Phase, ProgramBuilder, StreamKind, Work};
use stepsim_core::units::Time;
use stepsim_read::trace::timeline::beside::*;

/// A copy of 8 us issued at 2 us behind kernels until 6 us, needed then by the second kernel: 4 us are hidden, it
/// is 4 us late.
#[test]
fn a_prefetch_is_hidden_needed_and_late() {
    let mut b = ProgramBuilder::new();
    let [compute, copies] = [StreamKind::Compute, StreamKind::CopyIn].map(|kind| b.stream(kind));
    let name = "k";
    let info = b.info(OpInfo::of(name, Phase::Forward, 0.0));
    let work = Work::Compute { time: Time::ZERO };
    let mut op = |stream, waits: &[OpId]| b.op(stream, work, waits, info, NO_MICRO_BATCH);
    let first = op(compute, &[]);
    let second = op(compute, &[]);
    let copy = op(copies, &[first]);
    let user = op(compute, &[copy]);
    let program = b.finish();
    let us = |from: f64, to: f64| (Time::from_us(from), Time::from_us(to));
    let spans = [us(0.0, 2.0), us(2.0, 6.0), us(2.0, 10.0), us(10.0, 11.0)];
    let span = |op: OpId| spans[op.index()];
    let beside = SideOps { kernels: kernels(&program, &span), needed: needed(&program, &|op| span(op).1) };
    assert_eq!(beside.needed(copy), Some(Time::from_us(6.0)));
    assert_eq!((beside.needed(second), beside.needed(user)), (None, None));
    assert_eq!(beside.hidden(span(copy).0, span(copy).1), Time::from_us(4.0));
    assert_eq!(beside.hidden(Time::from_us(9.0), Time::from_us(10.5)), Time::from_us(0.5));
}
