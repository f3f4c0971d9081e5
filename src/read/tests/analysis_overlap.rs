use proptest::prelude::*;
use stepsim_core::ids::RankId;
use stepsim_core::program::StreamKind;
use stepsim_core::units::Time;
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::kind::OpKind;
use stepsim_read::analysis::overlap::*;
use stepsim_read::analysis::stalls;
use stepsim_read::analysis::turns::Recurring;

use crate::random_world;
use crate::random_world::Scenario;

fn of_rank(s: &Scenario, rank: u32) -> OverlapByKind {
    let mut causes = Causes::new(&s.world, &s.record);
    let mut pieces = Vec::new();
    stalls::stalls_of(&mut causes, &mut IdleTimes::new(&s.world), RankId(rank), &mut pieces);
    overlap(&causes, RankId(rank), &Recurring::default(), &pieces)
}

proptest! {
    #[test]
    fn what_ran_has_three_parts(seed in any::<u64>()) {
        for s in random_world::both(seed) {
            for kind in (0..s.record.ranks()).flat_map(|r| of_rank(&s, r)) {
                prop_assert!(kind.under_kernels + kind.exposed <= kind.ran && kind.ran <= kind.op_time);
            }
        }
    }
}

/// A gradient bucket of 5 behind a kernel of 3: 3 under it, 2 exposed.
#[test]
fn a_bucket_longer_than_its_kernel_sticks_out() {
    let mut s = Scenario::new(1);
    let compute = s.stream(0, StreamKind::Compute);
    let data = s.stream(0, StreamKind::Data);
    s.kernel(0, compute, 1_000_000, 0);
    s.wait_for_last_kernel(0);
    s.comm(&[(0, data)], 5_000_000, 0, 0);
    s.kernel(0, compute, 3_000_000, 0);
    let dp = of_rank(&s.finish(), 0)[OpKind::Data as usize];
    assert_eq!((dp.ops, dp.op_time, dp.ran), (1, Time(5_000_000), Time(5_000_000)));
    assert_eq!((dp.under_kernels, dp.exposed), (Time(3_000_000), Time(2_000_000)));
}

/// A send of 4 that nothing waits for, beside a prefetch of 6 that a kernel waits for: two copies side by side ran
/// 6 together, and what the rank did not wait for is no overlap.
#[test]
fn what_runs_in_a_gap_is_not_hidden() {
    let mut s = Scenario::new(1);
    let compute = s.stream(0, StreamKind::Compute);
    let send = s.stream(0, StreamKind::PipelineSend);
    let copies = [s.stream(0, StreamKind::CopyIn), s.stream(0, StreamKind::CopyIn)];
    s.comm(&[(0, send)], 4_000_000, 0, 0);
    s.comm(&[(0, copies[0])], 5_000_000, 0, 0);
    s.comm(&[(0, copies[1])], 6_000_000, 0, 0);
    s.wait_for_last_comm(0);
    s.kernel(0, compute, 1_000_000, 0);
    let kinds = of_rank(&s.finish(), 0);
    let (pp, h2d) = (kinds[OpKind::Pipeline as usize], kinds[OpKind::CopyIn as usize]);
    assert_eq!((pp.ran, pp.under_kernels, pp.exposed), (Time(4_000_000), Time::ZERO, Time::ZERO));
    assert_eq!((h2d.op_time, h2d.ran, h2d.exposed), (Time(11_000_000), Time(6_000_000), Time(6_000_000)));
}
