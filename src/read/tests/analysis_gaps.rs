use std::collections::BTreeMap;

use proptest::prelude::*;
use stepsim_core::ids::RankId;
use stepsim_core::program::StreamKind;
use stepsim_core::units::{PS_PER_S, Time};
use stepsim_read::analysis::cause::Causes;
use stepsim_read::analysis::gaps::*;
use stepsim_read::analysis::idle::IdleTimes;
use stepsim_read::analysis::stalls::stalls;
use stepsim_read::analysis::turns::Recurring;

use crate::random_world;
use crate::random_world::Scenario;

/// A transfer of 20 us between kernels of 1, and 300 us before a rank's only kernel.
#[test]
fn gaps_are_told_apart_by_length() {
    let mut s = Scenario::new(2);
    let compute = s.stream(0, StreamKind::Compute);
    let data = s.stream(0, StreamKind::Data);
    s.kernel(0, compute, 1_000_000, 0);
    s.wait_for_last_kernel(0);
    s.comm(&[(0, data)], 20_000_000, 0, 0);
    s.wait_for_last_comm(0);
    s.kernel(0, compute, 1_000_000, 0);
    let s = s.finish();
    let found = gaps(&Causes::new(&s.world, &s.record), &Recurring::default(), &[3, 1]);
    // The other rank stands still for all of the 22 us.
    let tens = GapReport { count: 1.0, seconds: f64::from(3 * 20_000_000 + 22_000_000) / 4.0 / PS_PER_S };
    assert_eq!(found, BTreeMap::from([(GapLength::Below100us, tens)]));
    assert_eq!(GapLength::of(Time(9_999_999)), GapLength::Below10us);
    assert_eq!(GapLength::of(Time(10_000_000)), GapLength::Below100us);
    assert_eq!(GapLength::of(Time(u64::MAX)), GapLength::Longer);
}

proptest! {
    /// The time in a rank's gaps equals the time of its stalls, to the picosecond.
    #[test]
    fn gaps_are_the_time_of_stalls(seed in any::<u64>()) {
        for s in random_world::both(seed) {
            let mut causes = Causes::new(&s.world, &s.record);
            let (_, times) = stalls(&mut causes, &mut IdleTimes::new(&s.world));
            for (rank, time) in times.iter().enumerate() {
                let mut sums = Sums::default();
                of_rank(&causes, RankId(rank as u32), &Recurring::default(), 1, &mut sums);
                let in_gaps: u128 = sums.iter().map(|(_, time)| time).sum();
                prop_assert_eq!(in_gaps, u128::from((time.total() - time.busy).0));
            }
        }
    }
}
