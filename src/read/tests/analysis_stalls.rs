use proptest::prelude::*;
use stepsim_core::ids::{OpId, RankId};
use stepsim_core::program::StreamKind;
use stepsim_core::units::Time;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::stall_cause::{StallCause, WaitKind};
use stepsim_read::analysis::stalls::*;

use crate::random_world;
use crate::random_world::Scenario;

fn all(s: &Scenario) -> (Vec<Stall>, Vec<RankTime>) {
    let mut causes = Causes::new(&s.world, &s.record);
    stalls(&mut causes, &mut IdleTimes::new(&s.world))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn busy_and_stalls_fill_the_step_of_every_rank(seed in any::<u64>()) {
        for s in random_world::both(seed) {
            let (pieces, sums) = all(&s);
            for (r, time) in sums.iter().enumerate() {
                prop_assert_eq!(time.total(), s.record.step_end);
                let rank = RankId(r as u32);
                let mine: Vec<_> = pieces.iter().filter(|p| p.rank == rank).collect();
                prop_assert!(mine.iter().all(|p| p.start < p.end && p.end <= s.record.step_end));
                prop_assert!(mine.windows(2).all(|w| w[0].end <= w[1].start));
                let program = s.world.program_of(rank);
                let is_kernel = |o: &&OpId| OpKind::of(program, **o) == OpKind::Compute;
                for kernel in program.streams[0].ops.iter().filter(is_kernel) {
                    let (a, b) = s.record.span(rank, *kernel);
                    prop_assert!(mine.iter().all(|p| p.end <= a || p.start >= b || a == b));
                }
            }
        }
    }

    #[test]
    fn a_piece_lies_inside_the_op_that_ran_or_before_the_one_that_was_late(seed in any::<u64>()) {
        for s in random_world::both(seed) {
            for p in all(&s).0 {
                let Some((rank, op)) = p.waited_for else { continue };
                let (start, end) = s.record.span(rank, op);
                match p.cause.waiting() {
                    WaitKind::Late | WaitKind::Bubble | WaitKind::Full => prop_assert!(p.end <= start),
                    _ => prop_assert!(start <= p.start && p.end <= end && rank == p.rank),
                }
            }
        }
    }
}

/// One kernel behind a copy that first stood behind another copy: `[queued 0–4) [transfer 4–7) [contention 7–9)`.
#[test]
fn a_late_prefetch_is_told_apart() {
    let mut s = Scenario::new(1);
    let compute = s.stream(0, StreamKind::Compute);
    let copies = s.stream(0, StreamKind::CopyIn);
    s.comm(&[(0, copies)], 4_000_000, 0, 0);
    s.comm(&[(0, copies)], 3_000_000, 2_000_000, 0);
    s.wait_for_last_comm(0);
    s.kernel(0, compute, 5_000_000, 0);
    let s = s.finish();
    let (pieces, sums) = all(&s);
    let seen: Vec<_> = pieces.iter().map(|p| (p.cause, p.start.0 / 1_000_000, p.end.0 / 1_000_000)).collect();
    assert_eq!(
        seen,
        [
            (StallCause::PrefetchQueued, 0, 4),
            (StallCause::PrefetchTransfer, 4, 7),
            (StallCause::Contention, 7, 9)
        ]
    );
    assert_eq!(sums[0].busy, Time(5_000_000));
}

/// Two stages: the second idles until the first has produced (bubble), then while the transfer is on the wire;
/// the first idles at the end until the second has finished.
#[test]
fn a_pipeline_bubble_is_not_a_transfer() {
    let mut s = Scenario::new(2);
    let c0 = s.stream(0, StreamKind::Compute);
    let send = s.stream(0, StreamKind::PipelineSend);
    let c1 = s.stream(1, StreamKind::Compute);
    let recv = s.stream(1, StreamKind::PipelineRecv);
    s.kernel(0, c0, 6_000_000, 0);
    s.wait_for_last_kernel(0);
    s.comm(&[(0, send), (1, recv)], 2_000_000, 0, 0);
    s.wait_for_last_comm(1);
    s.kernel(1, c1, 5_000_000, 0);
    let s = s.finish();
    let (pieces, sums) = all(&s);
    assert_eq!(sums[1].stall(StallCause::PipelineBubble), Time(6_000_000));
    assert_eq!(sums[1].stall(StallCause::PipelineTransfer), Time(2_000_000));
    assert_eq!(sums[0].stall(StallCause::PipelineTransfer), Time(2_000_000));
    assert_eq!(sums[0].stall(StallCause::StepTail), Time(5_000_000));
    assert_eq!(pieces.iter().find(|p| p.rank == RankId(1)).unwrap().waited_for, Some((RankId(0), OpId(1))));
}

/// A straggler in a tensor-parallel group, and a collective that waits for memory after both have arrived.
#[test]
fn a_late_peer_and_a_full_tier() {
    let mut s = Scenario::of_two(StreamKind::Tensor, [1_000_000, 4_000_000], 2_000_000, 3_000_000);
    s.kernels_behind(1_000_000);
    let s = s.finish();
    let (_, sums) = all(&s);
    assert_eq!(sums[0].stall(StallCause::PeerLate), Time(3_000_000));
    assert_eq!(sums[1].stall(StallCause::PeerLate), Time::ZERO);
    for sum in sums {
        assert_eq!(sum.stall(StallCause::PrefetchBlocked), Time(3_000_000));
        assert_eq!(sum.stall(StallCause::TensorParallel), Time(2_000_000));
    }
}
